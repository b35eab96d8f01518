"""The `semel` command: options that hold everywhere, and the subcommands by name.

Role.   The entry point. It imports a subcommand's module only when that one is called, so that
        `semel --help` never waits for numba, Arrow or the broker.
Rules.  * Exit code 0 done, 1 failed, 2 wrong usage. Every command's help carries an example.
        * A command whose reader closed the pipe ends without a word, with `UNREAD`, as Unix tools do: it may have left something
          undone, and its verdict was not heard. `consume` alone is done then, because its reader decides how much is enough.
"""

import contextlib
import errno
import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem

from semel._version import __version__
from semel.cli.options import in_flags
from semel.cli.output import drop_output
from semel.errors import SemelError

UNREAD: Final = 141
"""128 and the number of SIGPIPE: what a shell shows for a tool that this signal ended."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

# name -> (module, one line for the list). The line stands here so that the list imports nothing.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("semel.cli.demo", "A shop on Spark: all is killed on the way, nothing is lost."),
    "advise": ("semel.cli.advise", "Transactions, idempotence or neither: two questions."),
    "alerts": ("semel.cli.alerts", "Print alerting rules for Prometheus."),
    "bench": ("semel.cli.bench", "Measure beside Apache Kafka: ratios, CPU seconds, plots."),
    "broker": ("semel.cli.broker", "Run a broker in the foreground."),
    "completion": ("semel.cli.completion", "Print what makes a shell complete commands and names."),
    "cluster": ("semel.cli.cluster", "Brokers and partitions, and which of them lack something."),
    "configs": ("semel.cli.configs", "See and change the settings of topics and brokers."),
    "consume": ("semel.cli.consume", "Print a topic's records."),
    "doctor": ("semel.cli.doctor", "Check a cluster and say what is wrong."),
    "groups": ("semel.cli.groups", "Consumer groups: members, lag; remove and delete."),
    "log": ("semel.cli.log", "Look at a log's files: Semel's or Apache Kafka's."),
    "offsets": ("semel.cli.offsets", "What groups have committed: show, reset, delete, export, import."),
    "produce": ("semel.cli.produce", "Write lines to a topic, each exactly once."),
    "profile": ("semel.cli.profile", "Name clusters, and choose the one that commands reach."),
    "producers": ("semel.cli.producers", "What partitions remember of their producers."),
    "schema": ("semel.cli.schema", "Schemas of a registry: list, get, register, check, delete."),
    "service": ("semel.cli.service", "A broker as a service of systemd."),
    "topics": ("semel.cli.topics", "List, create, delete, describe, grow and trim topics."),
    "verify": ("semel.cli.verify", "Disturb a cluster; prove that all was kept, once and whole."),
    "zookeeper": ("semel.cli.zookeeper", "Run one Apache ZooKeeper, for a first cluster and for tests."),
    "txn": ("semel.cli.txn", "See transactions, find those that hang, and end them."),
}


@contextlib.contextmanager
def _unread() -> Iterator[None]:
    """A reader that is gone becomes an exit code."""
    try:
        yield
    except BrokenPipeError:
        raise click.exceptions.Exit(UNREAD) from None


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the names in the table for a name that is nearly one of them."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click's, which prints help here and would exit with 1 where a reader is gone."""
        with _unread():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """As click's, which would exit with 1 where a reader is gone."""
        with _unread():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click's, but from the table: completing a name imports no command."""
        names = [
            CompletionItem(name, help=line)
            for name, (_module, line) in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_module, line) in sorted(COMMANDS.items())])


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from semel.runtime.environment import commit

    click.echo(f"semel {__version__} (commit {commit()})")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Completion: eval "$(semel completion bash)"; also zsh and fish',
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and its commit, and exit.",
)
def cli() -> None:
    """Events that count exactly once: a Kafka-compatible log for Python and Spark.

    Example: semel demo --story records --records 10000
    """


def main() -> None:
    """Run the command line; an error of ours is one line on standard error and exit code 1."""
    try:
        _run()
    except SystemExit as end:
        try:
            sys.stdout.flush()  # Here and not when the interpreter ends, where an error can only be printed.
        except BrokenPipeError:
            drop_output()
            raise SystemExit(end.code or UNREAD) from None
        except OSError as error:
            _unwritable(error)
        raise


def _run() -> None:
    try:
        cli.main(prog_name="semel")
    except SemelError as error:
        click.echo(f"semel: {in_flags(str(error))}", err=True)
        raise SystemExit(1) from error
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _unwritable(error)


def _unwritable(error: OSError) -> NoReturn:
    """The disk has no room for the output, or fails: what is left of it is dropped, and not tried again at the end."""
    drop_output()
    where = "the output" if error.filename is None else str(error.filename)
    click.echo(
        f"semel: {where} cannot be written whole: {error.strerror}; make room, and run it again", err=True
    )
    raise SystemExit(1) from error
