"""`semel completion`: the script by which a shell completes commands, options, topics and groups."""

from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command(
    name="completion",
    epilog="Example: semel completion bash > ~/.local/share/bash-completion/completions/semel",
)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script for SHELL. It completes commands, options, topics, groups and profiles.

    \b
    bash: eval "$(semel completion bash)"       in ~/.bashrc; bash 4.4 or newer
    zsh:  eval "$(semel completion zsh)"        in ~/.zshrc, after compinit
    fish: semel completion fish | source        in ~/.config/fish/config.fish
    """
    from semel.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"No completion is known for {shell}.")
    # Not bash's own `source`, which starts bash to see how old it is: the script may be for another machine.
    script = ShellComplete.source(kind(cli, {}, "semel", "_SEMEL_COMPLETE"))
    # click's script for fish cuts descriptions at their first comma.
    click.echo(script.replace('string split "," $completion', 'string split -m 1 "," $completion'))
