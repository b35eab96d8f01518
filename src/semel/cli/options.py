"""Options that many commands share, and what they become.

Role.   `-b/--bootstrap`, `-X key=value`, `--profile` and `-o` look and mean the same everywhere; `connected` turns the first two into
        a client. `partitions_of` looks at a topic before records of it are written or read. `in_flags` is how errors of the library,
        which name settings, are told to people who give options.
Rules.  * Nothing heavy is imported here: help and completion come by.
        * An option wins over the environment, and the environment over a profile. A profile named with `--profile` is an option: its
          brokers win over SEMEL_BOOTSTRAP, so that nobody changes another cluster than the one named.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from semel.cli.names import complete_profiles
from semel.cli.output import OUTPUTS, TABLE

if TYPE_CHECKING:
    from semel.cli.profiles import Profile
    from semel.client.blocking import BlockingCluster

# A person is waiting: Kafka's default is a minute.
PATIENCE: Final = {"default.api.timeout.ms": "10000"}
_DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_BOOTSTRAP_VARIABLE: Final = "SEMEL_BOOTSTRAP"
_PROFILE: Final = "semel.cli.options.profile"
_SETTINGS_HELP: Final = "A client setting by Kafka's name; may be repeated."

FLAGS: Final = {"bootstrap.servers": "--bootstrap"}
"""The names of settings on the command line."""
BROKER_FLAGS: Final = {
    "listeners": "--listen",
    "log.dirs": "--data-dir",
    "node.id": "--broker-id",
    "broker.id": "--broker-id",
    "zookeeper.connect": "--zookeeper",
}

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
    """`-b`, `-X` and `--profile`: where the cluster is, and the client's settings."""
    bootstrap = click.option(
        "-b",
        "--bootstrap",
        envvar=_BOOTSTRAP_VARIABLE,
        callback=_bootstrap,
        metavar="HOST:PORT[,…]",
        help=f"Brokers to ask first.  [env var: {_BOOTSTRAP_VARIABLE}; default: of the profile, or {_DEFAULT_BOOTSTRAP}]",
    )
    profile = click.option(
        "--profile",
        is_eager=True,
        expose_value=False,
        metavar="NAME",
        callback=_profile,
        shell_complete=complete_profiles,
        help="The cluster of this name: see 'semel profile'.  [env var: SEMEL_PROFILE; default: the current one]",
    )
    settings = click.option(
        "-X", "settings", multiple=True, metavar="KEY=VALUE", callback=_settings, help=_SETTINGS_HELP
    )
    return bootstrap(settings(profile(command)))


def _profile(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    ctx.meta[_PROFILE] = value


def _profile_of(ctx: click.Context) -> "Profile | None":
    """The profile that holds for a command."""
    from semel.cli.profiles import chosen, config_path

    return chosen(ctx.meta.get(_PROFILE), config_path())


def _bootstrap(ctx: click.Context, _param: click.Parameter, value: str | None) -> str:
    is_option = ctx.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    if value is not None and (is_option or ctx.meta.get(_PROFILE) is None):
        return value
    profile = _profile_of(ctx)
    return (profile and profile.bootstrap) or value or _DEFAULT_BOOTSTRAP


def _settings(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    from semel.cli.profiles import resolved

    profile = _profile_of(ctx)
    return {**({} if profile is None else resolved(profile)), **pairs(ctx, param, values)}


def settings_option(command: F) -> F:
    """`-X`: settings of the clients."""
    return click.option(
        "-X", "settings", multiple=True, metavar="KEY=VALUE", callback=pairs, help=_SETTINGS_HELP
    )(command)


def output_option(command: F) -> F:
    """`-o table|wide|json|yaml|csv`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(OUTPUTS),
        default=TABLE,
        show_default=True,
        help="A table to read, one with every column, or JSON, YAML or CSV for programs.",
    )(command)


def connected(bootstrap: str, settings: dict[str, str]) -> "BlockingCluster":
    """A client for these options; to be used in a `with` statement."""
    from semel.client.blocking import BlockingCluster
    from semel.client.config import ClientConfig

    return BlockingCluster(ClientConfig.of({"bootstrap.servers": bootstrap, **PATIENCE, **settings}))


def reach_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that decide how a cluster is reached, for whichever client."""
    from semel.cli.profiles import REACH
    from semel.client.security_keys import is_security

    return {key: value for key, value in settings.items() if key in REACH or is_security(key)}


def partitions_of(
    topic: str,
    bootstrap: str,
    settings: dict[str, str],
    partition: int | None = None,
    *,
    create: bool = False,
) -> list[int]:
    """The partitions a command has to do with: this one, or all of the topic's; what is not there is said at once."""
    with connected(bootstrap, reach_of(settings)) as client:
        view = client.run(lambda cluster: cluster.topic(topic, create=create))
    count = len(view.partitions)
    if partition is not None and partition >= count:
        raise click.BadParameter(f"{topic} has the partitions 0 to {count - 1}.", param_hint="--partition")
    return list(range(count)) if partition is None else [partition]
