"""`semel configs`: the settings of a topic or broker, shown and changed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from semel.cli.names import complete_topics
from semel.cli.options import connected, connection_options, output_option, pairs
from semel.cli.output import FOR_PEOPLE, Column, show

if TYPE_CHECKING:
    from semel.client.calls.describe_configs import Resource

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS: Final = (
    Column("SETTING", "name"),
    Column("VALUE", lambda row: "(hidden)" if row["sensitive"] else row["value"]),
    Column("FROM", "source"),
    Column("READ ONLY", lambda row: "yes" if row["read_only"] else "no", wide=True),
)


def _target_options(command: F) -> F:
    topic = click.option(
        "--topic", metavar="NAME", shell_complete=complete_topics, help="The topic whose settings are meant."
    )
    broker = click.option(
        "--broker", type=click.IntRange(0), metavar="N", help="The broker whose settings are meant."
    )
    return topic(broker(command))


def _target(topic: str | None, broker: int | None) -> "tuple[Resource, str]":
    from semel.client.calls.describe_configs import Resource

    if (topic is None) == (broker is None):
        raise click.UsageError("Name one of --topic NAME and --broker N.")
    return (Resource.TOPIC, topic) if topic is not None else (Resource.BROKER, str(broker))


@click.group(name="configs", epilog="Example: semel configs describe --topic orders")
def command() -> None:
    """See and change the settings of topics and brokers."""


@command.command(epilog="Example: semel configs describe --broker 1 --all -o json")
@_target_options
@click.option("--all", "show_all", is_flag=True, help="Also what is at its default.")
@connection_options
@output_option
def describe(
    topic: str | None,
    broker: int | None,
    show_all: bool,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Print the settings that are not at their default, and where they come from."""
    from semel.client.calls.describe_configs import describe_configs

    resource, name = _target(topic, broker)
    with connected(bootstrap, settings) as client:
        found = client.run(describe_configs, resource, name)
    shown = [one for one in found if show_all or not one.is_default]
    rows = [
        {
            "name": one.name,
            "value": one.value,
            "source": one.source,
            "read_only": one.is_read_only,
            "sensitive": one.is_sensitive,
        }
        for one in shown
    ]
    show(output, rows, _COLUMNS)
    if output in FOR_PEOPLE and not show_all:
        click.echo(f"{len(found) - len(shown)} more are at their default: --all shows them")


@command.command(name="set", epilog="Example: semel configs set retention.ms=3600000 --topic orders")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…", callback=pairs)
@_target_options
@connection_options
def set_(
    changes: dict[str, str], topic: str | None, broker: int | None, bootstrap: str, settings: dict[str, str]
) -> None:
    """Change settings; they take effect at once."""
    _alter(dict(changes), topic, broker, bootstrap, settings)
    for key, value in changes.items():
        click.echo(f"{key}={value} for {_named(topic, broker)}")


@command.command(epilog="Example: semel configs unset retention.ms --topic orders")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@_target_options
@connection_options
def unset(
    keys: Sequence[str], topic: str | None, broker: int | None, bootstrap: str, settings: dict[str, str]
) -> None:
    """Put settings back to their default."""
    _alter(dict.fromkeys(keys), topic, broker, bootstrap, settings)
    for key in keys:
        click.echo(f"{key} is at its default for {_named(topic, broker)}")


def _alter(
    changes: dict[str, str | None] | dict[str, str],
    topic: str | None,
    broker: int | None,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    from semel.client.calls.alter_configs import alter_configs

    resource, name = _target(topic, broker)
    with connected(bootstrap, settings) as client:
        client.run(alter_configs, resource, name, changes)


def _named(topic: str | None, broker: int | None) -> str:
    return f"topic {topic}" if topic is not None else f"broker {broker}"
