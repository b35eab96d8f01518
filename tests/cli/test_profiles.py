"""Profiles: options win over the environment, the environment over a profile; secrets are never in the file nor on the screen.

Method: the command run as a user runs it, with a home of its own; what holds for a command is read from the error that names the cluster
it could not reach.
"""

import re
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from semel.cli import profiles
from semel.cli.main import cli
from semel.cli.profiles import Profile, config_path
from semel.errors import ConfigError

_NOBODY: Final = "127.0.0.1:{}"  # Ports below 10 are privileged, and nobody listens there.


class Home:
    """A user with a configuration."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "semel" / "config.toml"
        self._folder = folder

    def __call__(self, *arguments: str, **environment: str | None) -> Result:
        clean = {"SEMEL_BOOTSTRAP": None, "SEMEL_PROFILE": None, "XDG_CONFIG_HOME": str(self._folder)}
        return CliRunner().invoke(cli, arguments, env=clean | environment)

    def done(self, *arguments: str, **environment: str | None) -> str:
        result = self(*arguments, **environment)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def error(self, *arguments: str, **environment: str | None) -> str:
        result = self(*arguments, **environment)
        assert isinstance(result.exception, ConfigError), (result.output, result.exception)
        return str(result.exception)

    def reached(self, *arguments: str, **environment: str | None) -> str:
        """The port of the cluster that a command asks."""
        result = self("topics", "list", *arguments, **environment)
        found = re.search(r"no broker of 127\.0\.0\.1:(\d)", str(result.exception))
        assert found is not None, (result.output, result.exception)
        return found[1]

    def write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text, encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_what_holds_is_the_option_then_the_environment_then_the_profile(home: Home) -> None:
    for name, port in (("first", 1), ("second", 2)):
        home.done("profile", "create", name, "-b", _NOBODY.format(port))
    home.done("profile", "use", "first")
    variables = {"SEMEL_BOOTSTRAP": _NOBODY.format(3)}
    assert home.reached() == "1"
    assert home.reached(SEMEL_PROFILE="second") == "2"
    assert home.reached(SEMEL_PROFILE="second", **variables) == "3"
    assert home.reached(**variables) == "3"
    assert home.reached("--profile", "second") == "2"
    assert home.reached("--profile", "second", **variables) == "2"  # The cluster that was named.
    assert home.reached("--profile", "second", "-b", _NOBODY.format(4), **variables) == "4"


def test_profiles_are_listed_shown_and_deleted(home: Home) -> None:
    assert home.done("profile", "list").splitlines() == ["PROFILE  CURRENT  BOOTSTRAP"]
    said = home.done("profile", "create", "prod", "-b", "k:9093", "-X", "security.protocol=SASL_SSL")
    assert said == f"profile prod is made in {home.path}, and current\n"
    home.done("profile", "create", "local")
    assert [line.split() for line in home.done("profile", "list").splitlines()[1:]] == [
        ["prod", "-", "k:9093"],
        ["local", "*", "-"],
    ]
    assert "security.protocol  SASL_SSL" in home.done("profile", "show", "prod")
    assert home.done("profile", "show", "prod", "-o", "csv").splitlines()[1:] == [
        "bootstrap,k:9093",
        "security.protocol,SASL_SSL",
    ]
    home.done("profile", "delete", "local")
    result = home("profile", "show")
    assert result.exit_code == 2
    assert "No profile is current" in result.output
    assert "has no profile 'local'; there is prod" in home.error("topics", "list", "--profile", "local")
    assert "has a profile prod already" in home.error("profile", "create", "prod")


def test_an_edit_keeps_everything_else_in_the_file(home: Home) -> None:
    home.write(
        '# Mine.\ncurrent = "old"\n\n[profiles.old]  # Retired in May.\nbootstrap = "o:1"\n\n[profiles.kept]\n# Dotted names are tables to TOML.\n'
        'security.protocol = "SSL"\nssl.truststore.location = "/ca.pem"\n'
    )
    home.done("profile", "create", "new", "-b", "n:1", "-X", 'client.id=a"b\\c')
    home.done("profile", "delete", "old")
    home.done("profile", "use", "kept")
    text = home.path.read_text(encoding="utf-8")
    assert "# Mine." in text
    assert "# Dotted names are tables to TOML." in text
    assert "Retired" not in text
    found = profiles.read(home.path)
    assert found.current == "kept"
    assert found.by_name["new"] == Profile("new", "n:1", {"client.id": 'a"b\\c'})
    assert found.by_name["kept"].settings == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/ca.pem",
    }


def test_a_file_written_in_a_way_that_cannot_be_edited_stays_as_it_is(home: Home) -> None:
    text = 'profiles = { inline = { bootstrap = "i:1" } }\n'
    home.write(text)
    assert "change it by hand" in home.error("profile", "delete", "inline")
    assert home.path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("key", ["sasl.password", "sasl.jaas.config", "ssl.key.password"])
def test_a_secret_in_plain_is_refused_and_not_repeated(home: Home, key: str) -> None:
    for said in (home.error("profile", "create", "p", "-X", f"{key}=hunter2"),):
        assert f"{key} is a secret" in said
        assert "env:NAME" in said
        assert "hunter2" not in said
    assert not home.path.exists()
    home.write(f'[profiles.p]\n{key} = "hunter2"\n')
    assert "hunter2" not in home.error("topics", "list", "--profile", "p")


def test_secrets_are_found_where_the_profile_says(home: Home, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n", encoding="utf-8")
    settings = {"sasl.password": "env:PROD", "ssl.key.password": f"file:{tmp_path}/secret"}
    profile = Profile("p", None, settings)
    assert profiles.resolved(profile, {"PROD": "from the environment"}) == {
        "sasl.password": "from the environment",
        "ssl.key.password": "from a file",
    }
    with pytest.raises(ConfigError, match="is in the environment variable PROD, which is not set"):
        profiles.resolved(profile, {})
    with pytest.raises(ConfigError, match="is in the file /nowhere, which cannot be read: No such file"):
        profiles.resolved(Profile("p", None, {"sasl.password": "file:/nowhere"}), {})
    home.done("profile", "create", "p", "-b", "p:1", "-X", "sasl.password=env:PROD")
    for output in ("table", "wide", "json", "yaml", "csv"):
        shown = home.done("profile", "show", "-o", output, PROD="hunter2")
        assert "env:PROD" in shown
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = ", "is not TOML"),
        ("[profile.x]\n", "profile is not known there; there are current and [profiles.NAME]"),
        ("current = 1\n", 'write current = "NAME"'),
        ("[profiles]\nx = 1\n", "profiles.x is not a table"),
        ("[profiles.x]\nacks = 'all'\n", "and acks does not: give it with -X acks="),
        ("[profiles.x]\nclient.id = [1]\n", "client.id is neither a text nor a number"),
        ("current = 'y'\n[profiles.x]\n", "has no profile 'y'; there is x"),
    ],
)
def test_a_mistake_in_the_file_is_named(home: Home, text: str, said: str) -> None:
    home.write(text)
    error = home.error("topics", "list")
    assert said in error
    assert str(home.path) in error


def test_the_file_is_where_xdg_says() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/semel/config.toml")
    assert config_path({"XDG_CONFIG_HOME": "relative"}) == config_path({})
    assert config_path({}) == Path("~/.config/semel/config.toml").expanduser()
