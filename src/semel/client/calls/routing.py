"""The broker that a call is for: the controller, or the leaders of partitions.

Role.   `controller` and `ordered` for orders about the cluster; `by_topic` and `leaders_of` for calls that go to every leader.
Rules.  * An order that reached a broker which is not the controller did nothing: it is sent once more, to the controller.
        * A partition that does not exist is refused before anything is sent.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, TypeVar

from semel.client.cluster import Cluster
from semel.errors import ErrorCode, RefusedError, refused
from semel.types import TopicPartition

T = TypeVar("T")
_NO_CONTROLLER: Final = -1


async def controller(cluster: Cluster) -> int | None:
    """Whom to send orders to; None where any broker takes them."""
    if cluster.controller_id == _NO_CONTROLLER:
        await cluster.patiently(lambda: cluster.metadata([]))
    return None if cluster.controller_id == _NO_CONTROLLER else cluster.controller_id


async def ordered(cluster: Cluster, order: Callable[[], Awaitable[T]]) -> T:
    """Carry out an order; once more if its addressee is not the controller any more."""
    try:
        return await order()
    except RefusedError as error:
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise
    await cluster.patiently(lambda: cluster.metadata([]))
    return await order()


def pass_on(cluster: Cluster, codes: Collection[int]) -> None:
    """Raise if the addressee is not the controller: then nothing was done, and `ordered` asks the right one."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise refused(ErrorCode.NOT_CONTROLLER, "to carry out an order", by=cluster.where)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The indexes of partitions, by topic, as requests name them."""
    grouped: dict[str, list[int]] = {}
    for where in partitions:
        grouped.setdefault(where.topic, []).append(where.partition)
    return grouped


async def leaders_of(cluster: Cluster, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """The leaders of these partitions; raises for one that does not exist."""
    grouped: dict[int, list[TopicPartition]] = {}
    for topic, indexes in by_topic(wanted).items():
        view = await cluster.topic(topic)
        for index in indexes:
            if not 0 <= index < len(view.partitions):
                raise RefusedError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} at {cluster.where} has partitions 0 to {len(view.partitions) - 1}, not {index}",
                )
            grouped.setdefault(view.partitions[index].leader, []).append(TopicPartition(topic, index))
    return grouped
