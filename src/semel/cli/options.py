"""Options that many commands share, and what they become.

Role.   `-b/--bootstrap`, `-X key=value` and `-o` look and mean the same everywhere; `connected` turns the first two into
        a client. `partitions_of` looks at a topic before records of it are written or read. `in_flags` is how errors of the library,
        which name settings, are told to people who give options.
Rules.  Nothing heavy is imported here: help and completion come by.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from semel.client.blocking import BlockingCluster

# A person is waiting: Kafka's default is a minute.
PATIENCE: Final = {"default.api.timeout.ms": "10000"}
# These settings decide how a cluster is reached, for every command.
_REACH: Final = frozenset(
    {
        "client.id",
        "default.api.timeout.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
)

FLAGS: Final = {"bootstrap.servers": "--bootstrap"}
"""The names of settings on the command line."""
BROKER_FLAGS: Final = {"listeners": "--listen", "log.dirs": "--data-dir", "node.id": "--broker-id"}

F = TypeVar("F", bound=Callable[..., Any])


def in_flags(text: str, flags: Mapping[str, str] = FLAGS) -> str:
    """A sentence of the library with the options of the command line in the place of settings."""
    for key, flag in flags.items():
        text = re.sub(rf"(?<![\w.]){re.escape(key)}(?![\w-]|\.\w)", flag, text)
    return text


def pairs(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """The mapping behind repeated `key=value`."""
    mapping: dict[str, str] = {}
    for given in values:
        key, equals, value = given.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{given!r} is not key=value.")
        if mapping.get(key.strip(), value) != value:
            raise click.BadParameter(f"{key.strip()} is given twice: {mapping[key.strip()]!r} and {value!r}.")
        mapping[key.strip()] = value
    return mapping


def connection_options(command: F) -> F:
    """`-b` and `-X`: where the cluster is, and the client's settings."""
    bootstrap = click.option(
        "-b",
        "--bootstrap",
        envvar="SEMEL_BOOTSTRAP",
        default="localhost:9092",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,…]",
        help="Brokers to ask first.",
    )
    return bootstrap(settings_option(command))


def settings_option(command: F) -> F:
    """`-X`: settings of the clients."""
    return click.option(
        "-X",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=pairs,
        help="A client setting by Kafka's name; may be repeated.",
    )(command)


def output_option(command: F) -> F:
    """`-o table|json`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="A table to read, or JSON for programs.",
    )(command)


def connected(bootstrap: str, settings: dict[str, str]) -> "BlockingCluster":
    """A client for these options; to be used in a `with` statement."""
    from semel.client.blocking import BlockingCluster
    from semel.client.config import ClientConfig

    return BlockingCluster(ClientConfig.of({"bootstrap.servers": bootstrap, **PATIENCE, **settings}))


def partitions_of(
    topic: str,
    bootstrap: str,
    settings: dict[str, str],
    partition: int | None = None,
    *,
    create: bool = False,
) -> list[int]:
    """The partitions a command has to do with: this one, or all of the topic's; what is not there is said at once."""
    from semel.client.security_keys import is_security

    reach = {key: value for key, value in settings.items() if key in _REACH or is_security(key)}
    with connected(bootstrap, reach) as client:
        view = client.run(lambda cluster: cluster.topic(topic, create=create))
    count = len(view.partitions)
    if partition is not None and partition >= count:
        raise click.BadParameter(f"{topic} has the partitions 0 to {count - 1}.", param_hint="--partition")
    return list(range(count)) if partition is None else [partition]
