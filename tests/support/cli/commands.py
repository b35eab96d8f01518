"""The command line at a broker, run in this process as a user runs it."""

from click.testing import CliRunner, Result

from semel.cli.main import cli
from semel.errors import SemelError


class Commands:
    """Runs commands at a broker, and looks at how they end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, env={"SEMEL_BOOTSTRAP": self.bootstrap})

    def done(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """A command that works."""
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    def failed(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """What a command says that fails: one of our errors, which `main` prints as one line."""
        result = self(*arguments, stdin=stdin)
        assert isinstance(result.exception, SemelError), (result.output, result.exception)
        return str(result.exception)

    def refused(self, *arguments: str) -> str:
        """What a command says that is used wrongly, in one line."""
        result = self(*arguments)
        assert result.exit_code == 2, (result.output, result.exception)
        return " ".join(result.output.split())
