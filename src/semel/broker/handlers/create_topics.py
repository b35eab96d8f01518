"""CreateTopics (19), versions 2-7: new topics, with partitions, replicas and settings.

    4+  partitions and replication factor may be -1: the broker's defaults
    5+  the answer tells partitions, replication factor and every setting of the new topic
    6+  a client over its quota of changes is told so (there are no such quotas here)
    7+  the answer carries the topic's id

A topic named twice is refused; the answer has it once. With `validate_only` everything is decided and nothing made. Topics
are made some at a time, each time in one change of the metadata, so that other clients are served between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from semel.broker import topics
from semel.broker.config import BrokerConfig
from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.replica_assignments import (
    PARTITIONS_PER_REQUEST_MAX,
    TOO_MANY_PARTITIONS,
    assignment_flaw,
    placed,
    spread,
)
from semel.broker.turns import Turns
from semel.core.metadata import topic_names
from semel.core.metadata.config_types import ConfigKey, ConfigSource
from semel.core.metadata.partition_state import PartitionState, new_state
from semel.core.metadata.rows import TopicRow
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.errors import ConfigError, ErrorCode, LogError, Refuse
from semel.runtime.randomness import random_uuid

_DEFAULT: Final = -1
_TWICE: Final = Refuse(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
_RESERVED: Final = Refuse(
    ErrorCode.INVALID_REQUEST, "Creation of the cluster's own metadata topic is prohibited."
)


async def handle(
    broker: Administration, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    """Decide every topic, then make those that can be, together."""
    named = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if named[topic.name] == 1]
    too_many = sum(_partitions(broker, topic) for topic in once) > PARTITIONS_PER_REQUEST_MAX
    turns = Turns(broker.runtime, context.connection.peer)
    results: list[CreatableTopicResult] = []
    for first in range(0, len(once), topics.AT_ONCE):
        some = once[first : first + topics.AT_ONCE]
        if too_many:
            results += [_refused(topic.name, TOO_MANY_PARTITIONS) for topic in some]
        else:
            results += await _create(
                broker, some, validate_only=request.validate_only, timeout_ms=request.timeout_ms
            )
        await turns.breathe()
    results += [_refused(name, _TWICE) for name, count in named.items() if count > 1]
    return CreateTopicsResponse(topics=results)


async def _create(
    broker: Administration, asked: Sequence[CreatableTopic], *, validate_only: bool, timeout_ms: int
) -> list[CreatableTopicResult]:
    """Decide some topics, and make those that can be in one change."""
    results: list[CreatableTopicResult] = []
    made: list[tuple[TopicRow, CreatableTopicResult]] = []
    for topic in asked:
        decided = _decide(broker, topic)
        if isinstance(decided, Refuse):
            results.append(_refused(topic.name, decided))
        else:
            result = _created(broker, decided)
            results.append(result)
            made.append((decided, result))
    if made and not validate_only:
        try:
            failed = await topics.create_all(broker, [row for row, _result in made], timeout_ms=timeout_ms)
        except LogError as error:
            failed = {row.name: Refuse(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) for row, _result in made}
        for row, result in made:
            if (refused := failed.get(row.name)) is not None:
                result.error_code, result.error_message = refused.code, refused.reason
    return results


def _partitions(broker: Administration, topic: CreatableTopic) -> int:
    """How many partitions a topic asks for; nonsense is refused later."""
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.num_partitions if topic.num_partitions == _DEFAULT else max(0, topic.num_partitions)


def _decide(broker: Administration, topic: CreatableTopic) -> TopicRow | Refuse:
    """The topic as it will be, or why it cannot be."""
    configs = {config.name: config.value for config in topic.configs}
    refused = (
        _unfit_name(broker, topic.name) or _unfit_configs(broker, configs) or _unfit_shape(broker, topic)
    )
    if refused is not None:
        return refused
    own = {name: value for name, value in configs.items() if value is not None}
    states = _states(broker, topic)
    if isinstance(states, Refuse):
        return states
    return TopicRow(topic.name, random_uuid(broker.runtime.dice), states, own)


def _states(broker: Administration, topic: CreatableTopic) -> tuple[PartitionState, ...] | Refuse:
    """Its partitions: where the client wants them, or spread."""
    if topic.assignments:
        wanted = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
        return tuple(new_state(tuple(assignment.broker_ids)) for assignment in wanted)
    replicas = _replicas(broker, topic)
    partitions, draw = _partitions(broker, topic), broker.store.draw
    if draw is not None:
        return placed(broker.store.image, partitions, replicas=replicas, draw=draw)
    return spread(broker.store.image, partitions, replicas=replicas)


def _replicas(broker: Administration, topic: CreatableTopic) -> int:
    factor = topic.replication_factor
    return broker.config.default_replication_factor if factor == _DEFAULT else factor


def _unfit_name(broker: Administration, name: str) -> Refuse | None:
    if name in topic_names.RESERVED:
        return _RESERVED
    flaw = topic_names.flaw(name)
    if flaw is not None:
        return Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {flaw}")
    image = broker.store.image
    if image.topic(name) is not None:
        return Refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = image.collision(name)
    if other is not None:
        return Refuse(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )
    return None


def _unfit_configs(broker: Administration, configs: Mapping[str, str | None]) -> Refuse | None:
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        return Refuse(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}"
        )
    try:
        broker.config.log_config({name: value for name, value in configs.items() if value is not None})
    except ConfigError as error:
        return Refuse(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _unfit_shape(broker: Administration, topic: CreatableTopic) -> Refuse | None:
    """Partitions and replicas, by number or by hand."""
    if topic.assignments:
        return _unfit_assignments(broker, topic)
    factor = topic.replication_factor
    if factor < _DEFAULT or factor == 0:
        return Refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < _DEFAULT or topic.num_partitions == 0:
        return Refuse(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    factor = _replicas(broker, topic)
    brokers = len(broker.store.image.brokers)
    if factor > brokers:
        return Refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {brokers} broker(s) are registered.",
        )
    return None


def _unfit_assignments(broker: Administration, topic: CreatableTopic) -> Refuse | None:
    for given, what in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if given != _DEFAULT:
            return Refuse(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    seen: set[int] = set()
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            return Refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        flaw = assignment_flaw(assignment.broker_ids, broker.store.image, replication_factor=None)
        if flaw is not None:
            return flaw
        seen.add(assignment.partition_index)
    if seen != set(range(len(seen))):
        return Refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return None


def _refused(name: str, refused: Refuse) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refused.code, error_message=refused.reason)


def _created(broker: Administration, row: TopicRow) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=row.name,
        topic_id=row.topic_id.bytes,
        error_message=None,
        num_partitions=row.partitions,
        replication_factor=len(row.states[0].replicas),
        configs=_described(broker.config, row.configs),
    )


def _described(config: BrokerConfig, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Every setting of a topic with these of its own, and where each comes from."""
    values = config.topic_values(own)
    return [
        CreatableTopicConfigs(
            name=key.name,
            value=own.get(key.name, key.text(values[key.name])),
            config_source=_source(config, key, own),
            is_sensitive=key.sensitive,
        )
        for key in sorted(TOPIC_CONFIGS.values(), key=lambda key: key.name)
        if not key.internal
    ]


def _source(config: BrokerConfig, key: ConfigKey, own: Mapping[str, str]) -> ConfigSource:
    if key.name in own:
        return ConfigSource.DYNAMIC_TOPIC
    for name in key.synonyms:
        if name in config.dynamic:
            return ConfigSource.DYNAMIC_BROKER
        if name in config.static:
            return ConfigSource.STATIC_BROKER
    return ConfigSource.DEFAULT
