"""A partition as clients are told of it: as the metadata says, but for replicas nobody serves at the moment.

Role.   Partitions as Metadata and DescribeTopicPartitions show them.
Rules.  * A partition that is led here and could not be opened, or is not made yet, has no leader for now.
        * A client is told of the listener it came through. A leader without that listener is LISTENER_NOT_FOUND, as in Kafka.
        * A topic is in the metadata a moment before its partitions are here: there are as many views as can be asked for. In a
          cluster a controller may have told of some partitions only; the others are left out.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.broker.parts import Administration
from semel.core.metadata.partition_state import NO_LEADER, PartitionState
from semel.core.metadata.rows import TopicRow
from semel.errors import ErrorCode

_NO_EPOCH: Final = -1


class PartitionView(NamedTuple):
    """One partition."""

    partition: int
    error_code: ErrorCode
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def views(
    broker: Administration, row: TopicRow, listener: str, start: int = 0, limit: int | None = None
) -> Iterator[PartitionView]:
    """The partitions of a topic from one on, at most so many, for a client that came through this listener."""
    places, count = broker.partitions.places(row.name), broker.partitions.count(row.name)
    brokers, here = broker.store.image.brokers, broker.node_id
    reachable = {one for one, registered in brokers.items() if registered.on(listener) is not None}
    stop = min(count, len(row.states))
    if limit is not None:
        stop = min(stop, start + limit)
    last: PartitionState | None = None
    offline: list[int] = []
    for index in range(start, stop):
        state = row.states[index]
        if not state.is_known:
            continue
        if state is not last:
            last = state
            offline = [one for one in state.replicas if one not in reachable or one in state.offline]
        place = places[index] if index < len(places) else None
        missing = state.leader == here and (place is None or place.leader is None)
        if missing or state.leader not in brokers:
            gone = [here, *offline] if missing else list(offline)
            code, leader, epoch = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, _NO_EPOCH
        elif state.leader not in reachable:
            gone, code, leader, epoch = list(offline), ErrorCode.LISTENER_NOT_FOUND, NO_LEADER, _NO_EPOCH
        else:
            gone, code, leader, epoch = list(offline), ErrorCode.NONE, state.leader, state.leader_epoch
        yield PartitionView(index, code, leader, epoch, list(state.replicas), list(state.isr), gone)
