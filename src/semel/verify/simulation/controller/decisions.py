"""The decisions of the model controller: pure functions from what is to what shall be.

Role.   Kafka's elections, its changes of ISR and assignment, and its answers to leaders, for one partition at a time. Nothing is
        waited for, and no code of the members is used: a member that errs must not take its judge along.
Flow.   `actors.controller` asks, has `ledger` write the new state, and sends orders about it. A state that ZooKeeper refuses was
        never decided.
Rules.  * Each function gives None where nothing is to change.
        * Every change that a controller makes raises the leader epoch by one. A leader's own wish does not.
        * The last member of an ISR stays in it, dead or alive. Without a live member there is no leader.
        * Nobody leads who is not in the ISR: there are no unclean elections here.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from semel.errors import ErrorCode
from semel.verify.simulation.controller.cluster import NO_LEADER, Cluster, Life, Partition

_RECOVERED, _RECOVERING = 0, 1


def first_state(partition: Partition, live: Collection[int]) -> Partition | None:
    """A new partition: its first live replica leads, and all live ones are in sync."""
    isr = tuple(one for one in partition.replicas if one in live)
    return replace(partition, leader=isr[0], isr=isr, partition_epoch=0) if isr else None


def _led(partition: Partition, leader: int, isr: Sequence[int]) -> Partition:
    return replace(partition, leader=leader, isr=tuple(isr), leader_epoch=partition.leader_epoch + 1)


def _first(candidates: Sequence[int], live: Collection[int], isr: Collection[int]) -> int | None:
    return next((one for one in candidates if one in live and one in isr), None)


def after_deaths(partition: Partition, *, up: Collection[int], live: Collection[int]) -> Partition | None:
    """Brokers that are not up leave the ISR, and lead no more; a partition without a leader gets one if it can."""
    isr = [one for one in partition.isr if one in up]
    if partition.leader in up and len(isr) == len(partition.isr):
        return None
    if partition.leader in up and isr:
        return _led(partition, partition.leader, isr)
    leader = _first(partition.replicas, live, isr)
    if leader is not None:
        return _led(partition, leader, [one for one in isr if one in live])
    last = tuple(isr or partition.isr[-1:])
    if partition.leader == NO_LEADER and partition.isr == last:
        return None
    return _led(partition, NO_LEADER, last)


def preferred(partition: Partition, live: Collection[int]) -> Partition | None:
    """Its first replica leads, if that may."""
    return moved(partition, partition.replicas[0], live)


def moved(partition: Partition, leader: int, live: Collection[int]) -> Partition | None:
    """This member of the ISR leads."""
    if partition.leader in (leader, NO_LEADER) or leader not in live or leader not in partition.isr:
        return None
    return _led(partition, leader, [one for one in partition.isr if one in live])


def raised(partition: Partition) -> Partition:
    """The same, in another leader epoch."""
    return _led(partition, partition.leader, partition.isr)


# A broker that stops


def led_without(partition: Partition, broker: int, live: Collection[int]) -> Partition | None:
    """A broker that stops leads no more. `live` does not have it; None also if nobody else can lead."""
    leader = _first(partition.replicas, live, partition.isr)
    if partition.leader != broker or leader is None:
        return None
    return _led(partition, leader, [one for one in partition.isr if one in live])


def in_sync_without(partition: Partition, broker: int) -> Partition | None:
    """A follower leaves the ISR."""
    if broker not in partition.isr or partition.leader == broker or len(partition.isr) == 1:
        return None
    return _led(partition, partition.leader, [one for one in partition.isr if one != broker])


# Replicas that are exchanged


def reassigned(partition: Partition, target: Sequence[int]) -> Partition:
    """The assignment on its way to these replicas, from wherever it was on its way to before."""
    origin = partition.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return replace(
        partition,
        replicas=replicas,
        adding=tuple(one for one in replicas if one not in origin),
        removing=tuple(one for one in replicas if one not in target),
    )


def is_exchanged(partition: Partition) -> bool:
    """Whether all the new replicas are in sync."""
    return set(partition.target) <= set(partition.isr)


def led_by_target(partition: Partition, live: Collection[int]) -> Partition | None:
    """The replicas are the new ones, and one of them leads, in a new leader epoch; None if none of them can.

    The ISR still has those that go: they leave it one by one.
    """
    target = partition.target
    leader = partition.leader
    if leader not in target or leader not in live:
        found = _first(target, live, partition.isr)
        if found is None:
            return None
        leader = found
    isr = [one for one in partition.isr if one in live]
    return _led(replace(partition, replicas=target, adding=(), removing=()), leader, isr)


# A leader's wish


def judge_asker(cluster: Cluster, broker_id: int, broker_epoch: int) -> ErrorCode:
    """Whether a broker may wish for anything."""
    life = cluster.brokers.get(broker_id)
    known = isinstance(life, Life) and life.epoch == broker_epoch
    return ErrorCode.NONE if known else ErrorCode.STALE_BROKER_EPOCH


def judge_wish(
    partition: Partition,
    isr: Sequence[int],
    *,
    leader_epoch: int,
    partition_epoch: int,
    recovery_state: int,
    live: Collection[int],
) -> Partition | ErrorCode:
    """The state that is to be written for a leader; `NONE` if it is so already, another code if it may not be."""
    if leader_epoch > partition.leader_epoch or partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if set(isr) == set(partition.isr) and recovery_state == partition.recovery_state:
        return ErrorCode.NONE
    if partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if recovery_state == _RECOVERING and len(isr) > 1:
        return ErrorCode.INVALID_REQUEST
    if recovery_state == _RECOVERING and partition.recovery_state == _RECOVERED:
        return ErrorCode.INVALID_REQUEST
    if any(one not in live for one in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return replace(partition, isr=tuple(isr), recovery_state=recovery_state)
