"""`semel profile`: the clusters a user has by name: list, show, use, create, delete."""

from collections.abc import Sequence

import click

from semel.cli import profiles
from semel.cli.names import complete_profiles
from semel.cli.options import output_option, pairs
from semel.cli.output import Column, show

_COLUMNS = (
    Column("PROFILE", "name"),
    Column("CURRENT", lambda row: "*" if row["current"] else None),
    Column("BOOTSTRAP", "bootstrap"),
    Column(
        "SETTINGS", lambda row: " ".join(f"{k}={v}" for k, v in row["settings"].items()) or None, wide=True
    ),
)


@click.group(name="profile", epilog="Example: semel profile create local -b localhost:9092")
def command() -> None:
    """Name clusters once: profiles say where a cluster is and how it is reached.

    They stand in semel/config.toml below XDG_CONFIG_HOME or ~/.config. An option wins over the environment, and the environment
    over the current profile; --profile and SEMEL_PROFILE choose another.
    """


@command.command(name="list", epilog="Example: semel profile list -o wide")
@output_option
def list_(output: str) -> None:
    """Print every profile, and which one is current."""
    found = profiles.read(profiles.config_path())
    show(output, [_row(one, found.current) for one in found.by_name.values()], _COLUMNS)


@command.command(name="show", epilog="Example: semel profile show prod -o yaml")
@click.argument("name", required=False, shell_complete=complete_profiles)
@output_option
def show_(name: str | None, output: str) -> None:
    """Print a profile, or the current one, with its settings; secrets as references."""
    path = profiles.config_path()
    found = profiles.read(path)
    one = profiles.chosen(None, path) if name is None else found.of(name, path)
    if one is None:
        raise click.UsageError(
            "No profile is current: name one, or choose one with 'semel profile use NAME'."
        )
    rows = [{"setting": "bootstrap", "value": one.bootstrap}] if one.bootstrap else []
    rows += [{"setting": key, "value": value} for key, value in one.settings.items()]
    show(output, rows, [Column("SETTING", "setting"), Column("VALUE", "value")])


@command.command(epilog="Example: semel profile use prod")
@click.argument("name", shell_complete=complete_profiles)
def use(name: str) -> None:
    """Make a profile the current one: commands reach its cluster."""
    profiles.use(profiles.config_path(), name)
    click.echo(f"profile {name} is current")


@command.command(
    epilog="Example: semel profile create prod -b kafka.example:9093 -X security.protocol=SASL_SSL -X sasl.password=env:PROD_PASSWORD",
)
@click.argument("name")
@click.option("-b", "--bootstrap", metavar="HOST:PORT[,…]", help="Brokers to ask first.")
@click.option(
    "-X",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs,
    help="A setting that says how the cluster is reached; a secret as KEY=env:NAME or KEY=file:PATH. May be repeated.",
)
def create(name: str, bootstrap: str | None, settings: dict[str, str]) -> None:
    """Add a profile and make it the current one."""
    if bootstrap is not None:
        from semel.client.config import parse_addresses

        parse_addresses(bootstrap)
    path = profiles.config_path()
    profiles.create(path, profiles.Profile(name, bootstrap, settings))
    click.echo(f"profile {name} is made in {path}, and current")


@command.command(epilog="Example: semel profile delete old")
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_profiles)
def delete(names: Sequence[str]) -> None:
    """Remove profiles."""
    for name in names:
        profiles.delete(profiles.config_path(), name)
        click.echo(f"deleted profile {name}")


def _row(one: profiles.Profile, current: str | None) -> dict[str, object]:
    return {
        "name": one.name,
        "current": one.name == current,
        "bootstrap": one.bootstrap,
        "settings": one.settings,
    }
