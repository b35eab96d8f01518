"""Questions and orders about topics, settings, producers and disks.

Role.   One function per request, over a `Cluster`: plain values in and out, refusals as `RefusedError`.
Flow.   The command line and the test plugin call these; the public `Admin` will.
Rules.  * What only asks is repeated while errors pass. What changes something is sent once, to the controller, and again
          only where the answer proves that nothing was done.
        * Times out of the broker are milliseconds since 1970; -1 is Kafka's "unknown" and becomes None.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from semel.client.cluster import Cluster, Node, TopicView, error_code, refused, topic_view
from semel.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from semel.core.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from semel.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from semel.core.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult
from semel.core.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from semel.errors import ErrorCode, RefusedError

T = TypeVar("T")
_BROKERS_DEFAULT: Final = -1
_NO_CONTROLLER: Final = -1
_BY_NAME_VERSION: Final = 5  # DeleteTopics 6 has another shape, which allows ids.


class Resource(IntEnum):
    """What settings can belong to."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """What can be done to a setting."""

    SET = 0
    DELETE = 1


class Setting(NamedTuple):
    """One setting of a topic or broker."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    is_default: bool
    documentation: str | None = None
    """A sentence about it, where it was asked for and the broker has one."""


class ProducerView(NamedTuple):
    """What a partition's leader remembers of a producer."""

    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class LogDirView(NamedTuple):
    """A data directory of a broker."""

    node_id: int
    path: str
    error: ErrorCode
    total_bytes: int | None
    usable_bytes: int | None
    partitions: int
    stored_bytes: int


CONFIG_SOURCES: Final[Mapping[int, str]] = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker, static",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
DEFAULT_SOURCE: Final = 5


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = _BROKERS_DEFAULT,
    replication_factor: int = _BROKERS_DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Make a topic; the broker's defaults for what is -1."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    for one in await create_topics(cluster, [topic]):
        if one.error_code:
            raise refused(
                one.error_code, f"to create topic {name!r}", by=cluster.where, reason=one.error_message
            )


async def create_topics(
    cluster: Cluster,
    topics: list[CreatableTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> list[CreatableTopicResult]:
    """Make topics, or only see whether they could be made: what the controller answers about each."""
    timeout_ms = cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)

    async def order() -> list[CreatableTopicResult]:
        answer = await cluster.send(request, node_id=await controller(cluster), timeout_ms=timeout_ms)
        _pass_on(cluster, [one.error_code for one in answer.topics])
        return answer.topics

    return await ordered(cluster, order)


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Remove a topic with all its records."""
    for one in await delete_topics(cluster, [name]):
        if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name} does not exist at {cluster.where}: see 'semel topics list'",
            )
        if one.error_code:
            raise refused(
                one.error_code, f"to delete topic {name!r}", by=cluster.where, reason=one.error_message
            )


async def delete_topics(
    cluster: Cluster, names: list[str], *, timeout_ms: int | None = None
) -> list[DeletableTopicResult]:
    """Remove topics with all their records: what the controller answers about each."""
    timeout_ms = cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)

    async def order() -> list[DeletableTopicResult]:
        answer = await cluster.send(
            request, node_id=await controller(cluster), version_max=_BY_NAME_VERSION, timeout_ms=timeout_ms
        )
        _pass_on(cluster, [one.error_code for one in answer.responses])
        return answer.responses

    return await ordered(cluster, order)


async def list_topics(cluster: Cluster) -> list[TopicView]:
    """Every topic, also those without leaders at the moment."""

    async def ask() -> list[TopicView]:
        answer = await cluster.metadata(None)
        return sorted((topic_view(one) for one in answer.topics), key=lambda one: one.name)

    return await cluster.patiently(ask)


async def describe_configs(
    cluster: Cluster,
    resource: Resource,
    name: str,
    keys: Sequence[str] | None = None,
    *,
    documented: bool = False,
) -> list[Setting]:
    """The settings of a topic or broker, by name; with what the broker says about each if it shall be `documented`."""
    asked = DescribeConfigsResource(
        resource_type=resource, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    (result,) = await described_configs(
        cluster, [asked], node_id=_responsible(resource, name), documented=documented
    )
    if result.error_code:
        raise _config_refusal(cluster, resource, name, result.error_code, result.error_message)
    return sorted((_setting(one) for one in result.configs), key=lambda one: one.name)


async def described_configs(
    cluster: Cluster, asked: list[DescribeConfigsResource], *, node_id: int | None, documented: bool = False
) -> list[DescribeConfigsResult]:
    """What a broker answers about the settings of each of these."""
    request = DescribeConfigsRequest(resources=asked, include_documentation=documented)

    async def ask() -> list[DescribeConfigsResult]:
        results = (await cluster.send(request, node_id=node_id)).results
        for one in results:
            code = error_code(one.error_code)
            if code.retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise refused(code, "to describe settings", by=cluster.where, reason=one.error_message)
        return results

    return await cluster.patiently(ask)


async def alter_configs(
    cluster: Cluster, resource: Resource, name: str, changes: Mapping[str, str | None]
) -> None:
    """Set settings; None puts one back to its default."""
    configs = [
        AlterableConfig(
            name=key, config_operation=Operation.DELETE if value is None else Operation.SET, value=value
        )
        for key, value in changes.items()
    ]
    asked = AlterConfigsResource(resource_type=resource, resource_name=name, configs=configs)
    for one in await altered_configs(cluster, [asked], node_id=_responsible(resource, name)):
        if one.error_code:
            raise _config_refusal(cluster, resource, name, one.error_code, one.error_message)


async def altered_configs(
    cluster: Cluster, changes: list[AlterConfigsResource], *, node_id: int | None, validate_only: bool = False
) -> list[AlterConfigsResourceResponse]:
    """What is answered to changes of settings, by a broker or (None) by the controller."""
    request = IncrementalAlterConfigsRequest(resources=changes, validate_only=validate_only)

    async def order() -> list[AlterConfigsResourceResponse]:
        addressee = await controller(cluster) if node_id is None else node_id
        answer = await cluster.send(request, node_id=addressee)
        _pass_on(cluster, [one.error_code for one in answer.responses])
        return answer.responses

    return await ordered(cluster, order)


async def describe_producers(
    cluster: Cluster, topic: TopicView, partitions: Iterable[int] | None = None
) -> list[ProducerView]:
    """What the leaders of a topic's partitions remember of its producers."""
    wanted = [one.partition for one in topic.partitions] if partitions is None else list(partitions)

    async def ask_one(leader: int, indexes: list[int]) -> list[ProducerView]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=indexes)])
        answer = await cluster.send(request, node_id=leader)
        found = []
        for one in (one for answered in answer.topics for one in answered.partitions):
            if one.error_code:
                what = f"to describe the producers of {topic.name}-{one.partition_index}"
                raise refused(one.error_code, what, by=cluster.where, reason=one.error_message)
            found += [
                ProducerView(
                    partition=one.partition_index,
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    last_sequence=_known(state.last_sequence),
                    last_timestamp_ms=_known(state.last_timestamp),
                    coordinator_epoch=_known(state.coordinator_epoch),
                    transaction_start_offset=_known(state.current_txn_start_offset),
                )
                for state in one.active_producers
            ]
        return found

    async def ask() -> list[ProducerView]:
        leaders = await cluster.by_leader(topic.name, wanted)
        answers = await asyncio.gather(*(ask_one(leader, indexes) for leader, indexes in leaders.items()))
        return sorted(one for answer in answers for one in answer)

    return await cluster.patiently(ask)


async def describe_log_dirs(cluster: Cluster, node: Node) -> list[LogDirView]:
    """The data directories of one broker."""

    async def ask() -> list[LogDirView]:
        answer = await cluster.send(DescribeLogDirsRequest(topics=None), node_id=node.node_id)
        if answer.error_code:
            raise refused(answer.error_code, "to describe its directories", by=str(node.address))
        return [_log_dir(node.node_id, one) for one in answer.results]

    return await cluster.patiently(ask)


def _log_dir(node_id: int, one: DescribeLogDirsResult) -> LogDirView:
    partitions = [partition for topic in one.topics for partition in topic.partitions]
    return LogDirView(
        node_id=node_id,
        path=one.log_dir,
        error=ErrorCode(one.error_code),
        total_bytes=_known(one.total_bytes),
        usable_bytes=_known(one.usable_bytes),
        partitions=len(partitions),
        stored_bytes=sum(partition.partition_size for partition in partitions),
    )


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _setting(one: DescribeConfigsResourceResult) -> Setting:
    return Setting(
        name=one.name,
        value=one.value,
        source=CONFIG_SOURCES.get(one.config_source, f"source {one.config_source}"),
        is_read_only=one.read_only,
        is_sensitive=one.is_sensitive,
        is_default=one.config_source == DEFAULT_SOURCE,
        documentation=one.documentation or None,
    )


def _responsible(resource: Resource, name: str) -> int | None:
    """A broker answers for its own settings itself; anyone answers for a topic's."""
    return int(name) if resource is Resource.BROKER and name else None


def _config_refusal(
    cluster: Cluster, resource: Resource, name: str, number: int, reason: str | None
) -> RefusedError:
    what = f"the settings of {resource.name.lower()} {name or 'default'}"
    return refused(number, what, by=cluster.where, reason=reason)


async def controller(cluster: Cluster) -> int | None:
    """Whom to send orders to; None where any broker takes them."""
    if cluster.controller_id == _NO_CONTROLLER:
        await cluster.patiently(lambda: cluster.metadata([]))
    return None if cluster.controller_id == _NO_CONTROLLER else cluster.controller_id


def _pass_on(cluster: Cluster, codes: list[int]) -> None:
    """Raise if the addressee is not the controller: then nothing was done, and `ordered` asks the right one."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise refused(ErrorCode.NOT_CONTROLLER, "to carry out an order", by=cluster.where)


async def ordered(cluster: Cluster, order: Callable[[], Awaitable[T]]) -> T:
    """Carry out an order; once more if its addressee is not the controller any more."""
    try:
        return await order()
    except RefusedError as error:
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise
    await cluster.patiently(lambda: cluster.metadata([]))
    return await order()
