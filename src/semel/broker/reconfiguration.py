"""Settings change while the broker runs: decided, written to the metadata, then in effect.

Role.   The common part of AlterConfigs and IncrementalAlterConfigs.
Flow.   handler -> `alter` -> rows in the metadata -> `metadata_applier` lets them take effect -> answer.
Rules.  * Every resource is decided by itself: one that is refused stops no other. Accepted ones are written as one change.
        * Nothing is decided on settings that change before they are written: there is no waiting in between.
        * A change is checked as a whole, with everything it meets, before it is written; what is written takes effect.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from semel.broker import loggers
from semel.broker.parts import Administration
from semel.cluster.store import ChangeRefusedError
from semel.core.metadata import config_changes, group_configs, topic_names
from semel.core.metadata.broker_configs import broker_key
from semel.core.metadata.config_changes import Change
from semel.core.metadata.config_entries import Layers
from semel.core.metadata.config_types import ResourceType
from semel.core.metadata.group_configs import GROUP_CONFIGS
from semel.core.metadata.image import DEFAULT_BROKER
from semel.core.metadata.rows import BrokerConfigRow, GroupConfigRow, TopicRow
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.errors import ConfigError, ErrorCode, LogError, Refuse

_UNSERVED: Final = {
    ResourceType.CLIENT_METRICS: "client metrics",
}


class _Levels(NamedTuple):
    """Levels of the log to be set: they are kept nowhere."""

    changes: Sequence[Change]


_Row: TypeAlias = TopicRow | BrokerConfigRow | GroupConfigRow


class Resource(NamedTuple):
    """A resource, and the changes asked of it."""

    type: int
    name: str
    changes: Sequence[Change]
    replace: bool = False
    """Whether the changes are all that will be set, instead of what they say beside the rest."""


def layers(broker: Administration) -> Layers:
    """Where this broker's settings come from."""
    image = broker.store.image
    return Layers(
        own=image.broker_configs(str(broker.node_id)),
        every=image.broker_configs(DEFAULT_BROKER),
        static=broker.config.static,
    )


def unserved(resource_type: int) -> Refuse:
    """The answer for what has no settings here."""
    what = _UNSERVED.get(ResourceType(resource_type)) if resource_type in set(ResourceType) else None
    if what is None:
        return Refuse(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    return Refuse(ErrorCode.INVALID_REQUEST, f"Settings of {what} are not served")


async def alter(
    broker: Administration, resources: Sequence[Resource], *, validate_only: bool
) -> list[Refuse | None]:
    """Change what can be changed; for every resource None or why not."""
    times = Counter((resource.type, resource.name) for resource in resources)
    outcomes: list[Refuse | None] = []
    rows: list[_Row] = []
    levels: list[_Levels] = []
    for resource in resources:
        decided: _Row | _Levels | Refuse
        if times[resource.type, resource.name] > 1:
            decided = Refuse(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            decided = _decide(broker, resource, rows)
        if isinstance(decided, Refuse):
            outcomes.append(decided)
            continue
        outcomes.append(None)
        if isinstance(decided, _Levels):
            levels.append(decided)
        else:
            rows.append(decided)
    if validate_only:
        return outcomes
    for one in levels:
        loggers.change(one.changes)
    if not rows:
        return outcomes
    try:
        await broker.store.commit(rows)
    except (LogError, ChangeRefusedError) as error:
        failed = Refuse(error.code, str(error))
        return [failed if outcome is None else outcome for outcome in outcomes]
    return outcomes


def _decide(broker: Administration, resource: Resource, before: Sequence[_Row]) -> _Row | _Levels | Refuse:
    """The row to write, given those that will be written before it."""
    if (flaw := config_changes.flaw(resource.changes)) is not None:
        return flaw
    if resource.type == ResourceType.TOPIC:
        return _decide_topic(broker, resource)
    if resource.type == ResourceType.BROKER:
        return _decide_broker(broker, resource, before)
    if resource.type == ResourceType.GROUP:
        return _decide_group(broker, resource)
    if resource.type == ResourceType.BROKER_LOGGER and not resource.replace:
        return _decide_loggers(broker, resource)
    return unserved(resource.type)


def _decide_topic(broker: Administration, resource: Resource) -> TopicRow | Refuse:
    if not resource.name:
        return Refuse(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if (flaw := topic_names.flaw(resource.name)) is not None:
        return Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {flaw}")
    row = broker.store.image.topic(resource.name)
    own = {} if row is None or resource.replace else row.configs
    configs = config_changes.after(own, resource.changes, TOPIC_CONFIGS.get)
    if isinstance(configs, Refuse):
        return configs
    try:
        broker.config.log_config(configs)
    except ConfigError as error:
        return Refuse(ErrorCode.INVALID_CONFIG, str(error))
    if row is None:
        return Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    return replace(row, configs=configs)


def _decide_group(broker: Administration, resource: Resource) -> GroupConfigRow | Refuse:
    if not resource.name:
        return Refuse(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    own = {} if resource.replace else broker.store.image.group_configs.get(resource.name, {})
    configs = config_changes.after(own, resource.changes, GROUP_CONFIGS.get)
    if isinstance(configs, Refuse):
        return configs
    try:
        group_configs.check(broker.config.values, configs)
    except ConfigError as error:
        return Refuse(ErrorCode.INVALID_CONFIG, str(error))
    return GroupConfigRow(resource.name, configs)


def _decide_loggers(broker: Administration, resource: Resource) -> _Levels | Refuse:
    if (number := _number(resource.name)) is None:
        return Refuse(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource.name}")
    if number != broker.node_id:
        return Refuse(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {broker.node_id}, but received {resource.name}",
        )
    return loggers.flaw(resource.changes) or _Levels(resource.changes)


def _decide_broker(
    broker: Administration, resource: Resource, before: Sequence[_Row]
) -> BrokerConfigRow | Refuse:
    every = resource.name == DEFAULT_BROKER
    if not every:
        if (number := _number(resource.name)) is None:
            return Refuse(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource.name}"
            )
        if number != broker.node_id:
            return Refuse(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.node_id}, but received {resource.name}",
            )
    target, here = DEFAULT_BROKER if every else str(broker.node_id), str(broker.node_id)
    changed = {name: broker.store.image.broker_configs(name) for name in (DEFAULT_BROKER, here)}
    changed |= {row.broker: row.configs for row in before if isinstance(row, BrokerConfigRow)}
    own = {} if resource.replace else changed[target]
    configs = config_changes.after(own, resource.changes, broker_key)
    if isinstance(configs, Refuse):
        return configs
    if (flaw := config_changes.broker_flaw(configs, every=every)) is not None:
        return flaw
    changed[target] = configs
    try:
        broker.config.with_dynamic({**changed[DEFAULT_BROKER], **changed[here]})
    except ConfigError as error:
        return Refuse(ErrorCode.INVALID_REQUEST, str(error))
    return BrokerConfigRow(target, configs)


def _number(name: str) -> int | None:
    try:
        return int(name)
    except ValueError:
        return None
