"""Placement of replicas on brokers: Kafka's, with racks and without.

Role.   `place` gives new partitions their replicas, as Kafka's AdminUtils does: the same brokers and the same two numbers
        drawn give the same assignment.
Rules.  * First replicas go round the brokers. The others are shifted against them, by one more after each round, so that the
          partitions of a dead broker are spread over all others.
        * With racks the brokers are taken from one rack after the other, and a partition has no second replica in a rack while
          another rack has none.
        * Racks are of all brokers or of none.
"""

from collections.abc import Callable, Mapping
from itertools import count

from semel.errors import ErrorCode, Refuse


def place(
    racks: Mapping[int, str | None],
    *,
    partitions: int,
    replication_factor: int,
    draw: Callable[[int], int],
    start: int | None = None,
    first: int = 0,
) -> tuple[tuple[int, ...], ...] | Refuse:
    """The replicas of each new partition, over the brokers that are alive with the racks they are in.

    `draw` gives a number below its argument, by chance. `first` is the index of the first new partition, and `start` stands for
    what would be drawn: partitions that are added go on where those before them began.
    """
    if partitions <= 0:
        return Refuse(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        return Refuse(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        return Refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    named = {broker: rack for broker, rack in sorted(racks.items()) if rack is not None}
    if named and len(named) < len(racks):
        without = ", ".join(str(broker) for broker in sorted(racks) if broker not in named)
        return Refuse(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment: set broker.rack on "
            f"{without} too, or on no broker.",
        )
    brokers = _alternating(named) if named else sorted(racks)
    begin, shift = (start, start) if start is not None else (draw(len(brokers)), draw(len(brokers)))
    placed: list[tuple[int, ...]] = []
    for index in range(first, first + partitions):
        if index > 0 and index % len(brokers) == 0:
            shift += 1
        leader = (index + begin) % len(brokers)
        if named:
            placed.append(_over_racks(brokers, named, leader, shift, replication_factor))
        else:
            followers = (_behind(leader, shift, step, len(brokers)) for step in range(replication_factor - 1))
            placed.append((brokers[leader], *(brokers[place] for place in followers)))
    return tuple(placed)


def _behind(leader: int, shift: int, step: int, brokers: int) -> int:
    """The place of a further replica: never the leader's own."""
    return (leader + 1 + (shift + step) % (brokers - 1)) % brokers


def _over_racks(
    brokers: list[int], racks: Mapping[int, str], leader: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    racks_count = len(set(racks.values()))
    chosen = [brokers[leader]]
    used = {racks[chosen[0]]}
    for step in count():
        if len(chosen) == replication_factor:
            break
        broker = brokers[_behind(leader, shift * racks_count, step, len(brokers))]
        has_room = racks[broker] not in used or len(used) == racks_count
        if has_room and broker not in chosen:
            chosen.append(broker)
            used.add(racks[broker])
    return tuple(chosen)


def _alternating(racks: Mapping[int, str]) -> list[int]:
    """The brokers, taken from one rack after the other."""
    waiting = {
        rack: [broker for broker, own in sorted(racks.items()) if own == rack]
        for rack in sorted(set(racks.values()))
    }
    found: list[int] = []
    while len(found) < len(racks):
        found += [brokers.pop(0) for brokers in waiting.values() if brokers]
    return found
