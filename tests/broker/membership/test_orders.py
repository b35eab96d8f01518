"""A replica takes the role that the controller orders, and no order that is not for it, or that is older than the last.

Method: orders by hand on a disk in memory, several lives of the broker. The table of refusals is Kafka's.
"""

import asyncio
import contextlib
import errno
import uuid
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from semel.broker.config import BrokerConfig
from semel.broker.membership.joined import _Attached
from semel.broker.membership.orders import Orders, Sender, StopOrder, TopicOrders
from semel.broker.partitions import Partitions
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.led_partition import LedPartition
from semel.core.cluster.fencing import DURING_DELETION, NOT_GIVEN
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import PartitionState
from semel.core.replication.leading import Proposal
from semel.errors import ErrorCode
from semel.log.directory import LogDirectory
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition
from support.log.log_kit import batch_of

HERE, OTHER, THIRD = 1, 2, 3
FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)
ZERO = TopicPartition("orders", 0)
LED = PartitionState((HERE, OTHER), (HERE, OTHER), HERE, leader_epoch=0, partition_epoch=0)
FOLLOWED = replace(LED, leader=OTHER)
EPOCH = 40
CONTROLLER = Sender(controller_id=9, controller_epoch=1, broker_epoch=EPOCH)


class Elsewhere:
    """Stands for the other brokers: remembers who is followed."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, int] = {}

    def propose(self, partition: LedPartition, proposal: Proposal) -> None:
        raise AssertionError(f"{partition} proposes {proposal}")

    def lead_no_more(self, partition: LedPartition) -> None:
        pass

    def follow(self, partition: FollowedPartition) -> None:
        self.followed[partition.log.topic_partition] = partition.following.leader_id

    def stop(self, partition: FollowedPartition) -> None:
        self.followed.pop(partition.log.topic_partition, None)


class Member:
    """A broker that is ordered about by hand."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.host = self.simulation.host("broker")
        self.start()

    def start(self, *, is_registered: bool = True) -> None:
        self.runtime: Runtime = self.host.boot()
        self.directory = LogDirectory.open(
            self.runtime.files, "/data", node_id=HERE, cluster_id="c", directory_id="d"
        )
        self.told, self.assigned = MetadataImage(is_told=True), MetadataImage()
        self.partitions = Partitions(
            self.directory, self.told, BrokerConfig.of(), self.runtime, assigned=self.assigned
        )
        self.elsewhere = self.partitions.replication = Elsewhere()
        self.configured: list[str] = []
        self.coordinated: list[str] = []
        self.orders = Orders(
            node_id=HERE,
            runtime=self.runtime,
            assigned=self.assigned,
            partitions=self.partitions,
            roles=self,
            quiet=lambda _: contextlib.nullcontext(),
            broker_epoch=lambda: EPOCH,
            load_configs=self.load_configs,
        )
        self.run(self.partitions.load())
        if is_registered:
            self.orders.begin()

    def change_roles(self, name: str, indexes: Sequence[int]) -> None:
        row = self.assigned.topic(name)
        assert row is not None
        self.partitions.change_roles(row, indexes)

    def coordinate(self, topic: str) -> None:
        self.coordinated.append(topic)

    async def load_configs(self, names: Iterable[str]) -> None:
        self.configured += names

    def run(self, awaitable: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await awaitable

        return self.simulation.loop.run_until_complete(whole())

    def order(
        self, *states: PartitionState, sender: Sender = CONTROLLER, topic_id: uuid.UUID = FIRST
    ) -> list[ErrorCode] | ErrorCode:
        topic = TopicOrders("orders", topic_id, dict(enumerate(states)))
        codes = self.run(self.orders.change_roles(sender, [topic]))
        return codes if isinstance(codes, ErrorCode) else list(codes.values())

    def stop(self, epoch: int, *, delete: bool = False, sender: Sender = CONTROLLER) -> ErrorCode:
        codes = self.run(self.orders.stop(sender, [StopOrder(ZERO, epoch, delete)]))
        return ErrorCode(codes if isinstance(codes, ErrorCode) else codes[ZERO])

    @property
    def role(self) -> str:
        replica = self.partitions.replica(*ZERO)
        if replica is None:
            return "nothing"
        assert replica.leader is None or replica.follower is None
        if replica.leader is not None:
            return f"leader of {replica.leader.leader_epoch}"
        return f"follower of {self.elsewhere.followed[ZERO]}" if replica.follower is not None else "idle"


@pytest.fixture
def member() -> Member:
    return Member()


def test_a_replica_leads_follows_and_leads_again(member: Member) -> None:
    assert member.order(LED) == [ErrorCode.NONE]
    assert member.role == "leader of 0"
    assert member.configured == ["orders"], "a log is made with its topic's settings"
    assert member.order(replace(FOLLOWED, leader_epoch=1, partition_epoch=1)) == [ErrorCode.NONE]
    assert member.role == "follower of 2"
    assert member.order(replace(LED, leader_epoch=2, partition_epoch=2)) == [ErrorCode.NONE]
    assert member.role == "leader of 2"
    assert not member.elsewhere.followed
    assert "orders" in member.coordinated


def test_a_new_leader_notes_its_epoch_before_any_append(member: Member) -> None:
    member.order(replace(FOLLOWED, leader_epoch=3))
    member.order(replace(LED, leader_epoch=4, partition_epoch=1))
    log = member.directory.logs[ZERO]
    assert [tuple(one) for one in log.leader_epochs.entries] == [(4, 0)]


@pytest.mark.parametrize(
    ("sender", "code"),
    [
        (CONTROLLER._replace(broker_epoch=EPOCH - 1), ErrorCode.STALE_BROKER_EPOCH),
        (CONTROLLER._replace(broker_epoch=EPOCH + 1), None),
        (CONTROLLER._replace(broker_epoch=NOT_GIVEN), None),
        (CONTROLLER._replace(controller_epoch=4), ErrorCode.STALE_CONTROLLER_EPOCH),
        (CONTROLLER._replace(controller_epoch=5), None),
        (CONTROLLER._replace(controller_epoch=6), None),
    ],
)
def test_an_order_of_another_life_or_an_earlier_controller_changes_nothing(
    member: Member, sender: Sender, code: ErrorCode | None
) -> None:
    assert member.order(LED, sender=CONTROLLER._replace(controller_epoch=5)) == [ErrorCode.NONE]
    sender = sender if sender.controller_epoch > 1 else sender._replace(controller_epoch=5)
    later = replace(FOLLOWED, leader_epoch=1, partition_epoch=1)
    assert member.order(later, sender=sender) == ([ErrorCode.NONE] if code is None else code)
    assert member.role == ("follower of 2" if code is None else "leader of 0")
    assert member.stop(1, delete=True, sender=sender) == (code or ErrorCode.NONE)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (replace(FOLLOWED, leader_epoch=4, partition_epoch=9), ErrorCode.STALE_CONTROLLER_EPOCH),
        (replace(FOLLOWED, leader_epoch=5, partition_epoch=9), ErrorCode.STALE_CONTROLLER_EPOCH),
        (
            PartitionState((OTHER, THIRD), (OTHER,), OTHER, leader_epoch=6, partition_epoch=9),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (replace(FOLLOWED, leader_epoch=6, partition_epoch=1), ErrorCode.NONE),
    ],
)
def test_an_order_that_is_not_newer_changes_nothing(
    member: Member, state: PartitionState, code: ErrorCode
) -> None:
    member.order(replace(LED, leader_epoch=5, partition_epoch=5))
    assert member.order(state) == [code]
    assert member.role == "leader of 5"


def test_a_topic_created_again_does_not_get_the_old_ones_log(member: Member) -> None:
    member.order(LED)
    assert member.order(replace(LED, leader_epoch=9), topic_id=SECOND) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert member.role == "leader of 0"
    member.host.kill()
    member.start()
    assert member.order(LED, topic_id=SECOND) == [ErrorCode.INCONSISTENT_TOPIC_ID], "also after a restart"
    assert member.stop(DURING_DELETION, delete=True) is ErrorCode.NONE
    assert member.order(LED, topic_id=SECOND) == [ErrorCode.NONE]
    replica = member.partitions.replica(*ZERO)
    assert replica is not None
    assert (replica.topic_id, replica.log.log_end_offset) == (SECOND, 0)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.NONE),
        (NOT_GIVEN, ErrorCode.NONE),
        (DURING_DELETION, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("delete", [False, True])
def test_stop_counts_from_the_known_leader_epoch_on(
    member: Member, epoch: int, code: ErrorCode, *, delete: bool
) -> None:
    member.order(replace(FOLLOWED, leader_epoch=5))
    assert member.stop(epoch, delete=delete) is code
    obeyed = "nothing" if delete else "idle"
    assert member.role == ("follower of 2" if code else obeyed)
    assert (ZERO in member.directory.logs) is not (delete and not code)


def test_a_stopped_replica_follows_again_when_it_is_ordered_to(member: Member) -> None:
    member.order(replace(FOLLOWED, leader_epoch=5))
    member.stop(5)
    assert member.order(replace(FOLLOWED, leader_epoch=5)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert member.role == "idle"
    assert member.order(replace(FOLLOWED, leader_epoch=6, partition_epoch=1)) == [ErrorCode.NONE]
    assert member.role == "follower of 2"


def test_a_directory_nobody_was_told_of_stays_until_it_is_ordered_away(member: Member) -> None:
    member.order(LED)
    led = member.partitions.get(*ZERO)
    assert led is not None
    led.append(batch_of(b"v"), acks=1)
    member.host.kill()
    member.start()
    assert member.role == "nothing"
    assert ZERO in member.directory.logs, "its topic may only not have been told of yet"
    assert member.stop(NOT_GIVEN, delete=True) is ErrorCode.NONE
    assert ZERO not in member.directory.logs


def test_other_replicas_of_a_topic_stay_when_one_is_deleted(member: Member) -> None:
    member.order(LED, FOLLOWED)
    assert member.stop(0, delete=True) is ErrorCode.NONE
    assert member.partitions.replica("orders", 1) is not None
    assert member.partitions.missing(*ZERO) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.order(replace(LED, leader_epoch=1)) == [ErrorCode.NONE], "made again, and empty"


def test_a_log_that_is_offline_is_answered_with_a_storage_error(member: Member) -> None:
    member.order(LED)
    member.directory.logs[ZERO].offline = "the disk is gone"
    assert member.order(replace(FOLLOWED, leader_epoch=1)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert member.stop(1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_takes_no_log_is_a_storage_error_for_that_topic_alone(member: Member) -> None:
    member.host.disk.fail("write", errno.ENOSPC, path_part="orders-0", times=1_000_000)
    bills = TopicOrders("bills", SECOND, {0: LED})
    topics = [TopicOrders("orders", FIRST, {0: LED}), bills]
    codes = member.run(member.orders.change_roles(CONTROLLER, topics))
    assert codes == {ZERO: ErrorCode.KAFKA_STORAGE_ERROR, TopicPartition("bills", 0): ErrorCode.NONE}
    member.host.disk.clear_faults()
    member.run(member.partitions.complete())
    assert member.role == "leader of 0", "tried again when there is room"


def test_an_order_that_comes_before_the_registration_is_judged_after_it(member: Member) -> None:
    """It was for the former life: a leader with the log that a power cut left would have all others cut theirs."""
    member.order(LED)
    member.host.kill()
    member.start(is_registered=False)
    later = TopicOrders("orders", FIRST, {0: replace(LED, leader_epoch=1, partition_epoch=1)})
    former = CONTROLLER._replace(broker_epoch=EPOCH - 1)

    async def story() -> None:
        orders = [
            asyncio.create_task(member.orders.change_roles(former, [later])),
            asyncio.create_task(member.orders.stop(former, [StopOrder(ZERO, DURING_DELETION, True)])),
            asyncio.create_task(member.orders.change_roles(CONTROLLER, [later])),
        ]
        await asyncio.wait(orders, timeout=60)
        assert not any(one.done() for one in orders)
        member.orders.begin()
        first, second, third = [await one for one in orders]
        assert (first, second) == (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
        assert third == {ZERO: ErrorCode.NONE}

    member.run(story())
    assert member.role == "leader of 1"


def test_an_order_from_before_its_deletion_makes_no_replica_again() -> None:
    """The controller's connection broke before the answer, it ordered again on another, and the first request is read last."""
    member = Member()
    first, later = replace(LED, leader_epoch=3), replace(LED, leader_epoch=4, partition_epoch=1)
    assert member.order(first) == [ErrorCode.NONE]
    assert member.stop(3, delete=True) == ErrorCode.NONE
    assert member.order(first) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert member.partitions.replica(*ZERO) is None
    assert member.order(later) == [ErrorCode.NONE], "the replica is to be here again"


def test_a_deleted_topic_is_not_made_again_by_a_late_order() -> None:
    """Else its directory would be in the way of a topic that is made under its name."""
    member = Member()
    assert member.order(LED) == [ErrorCode.NONE]
    assert member.stop(DURING_DELETION, delete=True) == ErrorCode.NONE
    assert member.order(replace(LED, leader_epoch=9)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert member.order(LED, topic_id=SECOND) == [ErrorCode.NONE]


class RememberedFetchers:
    """Stands for fetchers: remembers which partitions they fetch."""

    def __init__(self) -> None:
        self.fetched: set[TopicPartition] = set()

    def follow(self, partition: FollowedPartition) -> None:
        self.fetched.add(partition.topic_partition)

    def stop(self, partition: FollowedPartition) -> None:
        self.fetched.discard(partition.topic_partition)


class NoProposals:
    """Stands for the way to the controller."""

    def forget(self, topic_partition: TopicPartition) -> None:
        pass


def test_a_member_that_stops_leads_no_longer_than_it_may_and_follows_nobody(member: Member) -> None:
    """As in Kafka. A leader that is not told that another leads would answer with ends that are no longer true."""
    fetchers: Any = RememberedFetchers()
    proposals: Any = NoProposals()
    attached = member.partitions.replication = _Attached(
        member.directory, member.partitions, member.orders, proposals, fetchers
    )
    member.order(LED, FOLLOWED)
    assert fetchers.fetched == {TopicPartition("orders", 1)}
    attached.is_stopping = True
    later = replace(FOLLOWED, leader_epoch=1, partition_epoch=1)
    assert member.order(later, later) == [ErrorCode.NONE] * 2
    assert member.partitions.get(*ZERO) is None
    assert fetchers.fetched == set()
