"""For any behaviour of the members, no partition is read by two of them at once, and the group becomes stable once they
behave.

Method: a shard of __consumer_offsets, driven by random heartbeats, lost answers, joins, departures, deaths, silent members
and the passing of time. Every member is a model of a client: it reads what the last answer it got gave it, and stops
reading only what it was told to give up, after its answer came and before its next heartbeat. After every step the
members' own views must not overlap. Every row is also applied to a second shard, which must be the same; and in the end
everybody heartbeats until nothing moves: then every partition is read by exactly one.
"""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from semel.errors import ErrorCode
from support.groups.consumer_kit import GROUP, REBALANCE_MS, SESSION_MS, Partition, World


@dataclass
class Client:
    """A member, as a client library keeps one."""

    world: World
    member_id: str
    topics: list[str]
    instance_id: str | None = None
    epoch: int = 0
    reads: set[Partition] = field(default_factory=set)
    """The partitions the member reads now."""
    given: set[Partition] = field(default_factory=set)
    """The assignment in its last answer."""
    heard_ms: int = 0
    told_ms: int = 0
    """When it was told to let go of what it still reads."""
    joined: bool = False
    epochs: list[int] = field(default_factory=list)

    def join(self) -> None:
        """Begin, or begin again, with nothing."""
        self.reads, self.given, self.epoch = set(), set(), 0
        self._send(full=True)

    def beat(self, *, lost: bool = False, full: bool = False) -> None:
        if not self.joined:
            self.join()
            return
        self.reads = set(self.given)  # It lets go of what was taken away, and begins to read what it got.
        self._send(lost=lost, full=full)

    def leave(self, epoch: int = -1) -> None:
        if self.joined:
            self._fenced()
            self.world.beat(
                ConsumerGroupHeartbeatRequest(
                    group_id=GROUP, member_id=self.member_id, instance_id=self.instance_id, member_epoch=epoch
                )
            )

    def check_session(self) -> None:
        """A client that was not answered for a session, or did not let go in its time, may have been put out."""
        late = self.reads != self.given and self.world.now_ms - self.told_ms >= REBALANCE_MS
        if self.joined and (late or self.world.now_ms - self.heard_ms >= SESSION_MS):
            self._fenced()

    def _fenced(self) -> None:
        self.reads, self.given, self.joined, self.epoch = set(), set(), False, 0
        self.epochs.clear()

    def _send(self, *, lost: bool = False, full: bool = False) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            topic_partitions=_listed(self.reads),
        )
        if full or lost:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = self.topics
        answer = self.world.beat(request)
        if lost:
            return
        if answer.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self._fenced()
            return
        assert answer.error_code == ErrorCode.NONE, answer
        assert not self.epochs or answer.member_epoch >= self.epochs[-1], "an epoch went back"
        self.epochs.append(answer.member_epoch)
        self.epoch = answer.member_epoch
        self.joined = True
        self.heard_ms = self.world.now_ms
        if answer.assignment is not None:
            self.given = {
                (one.topic_id, partition)
                for one in answer.assignment.topic_partitions
                for partition in one.partitions
            }
            self.told_ms = self.world.now_ms
            self.reads |= self.given  # The member reads a partition until it has revoked it.


def _listed(partitions: set[Partition]) -> list[TopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()]


def _check(world: World, clients: list[Client]) -> None:
    for client in clients:
        client.check_session()
    owners: dict[Partition, str] = {}
    for client in clients:
        for partition in client.reads:
            assert partition not in owners, (
                f"{partition} is read by {owners[partition]} and {client.member_id}"
            )
            owners[partition] = client.member_id
    live, replayed = world.group, world.reader.consumer.group(GROUP)
    assert live == replayed


def _settle(world: World, clients: list[Client]) -> None:
    """Everybody behaves until nothing moves any more."""
    for _ in range(12):
        world.pass_time(1500)
        for client in clients:
            client.beat(full=True)
            _check(world, clients)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["beat", "beat", "beat", "full", "lost", "leave", "away", "join", "subscribe"]),
            st.integers(0, 4),
        ),
        st.tuples(st.sampled_from(["time"]), st.sampled_from([100, 1200, 21_000, 46_000])),
        st.tuples(st.sampled_from(["grow", "restart"]), st.integers(0, 4)),
    ),
    max_size=60,
)


@given(
    steps=STEPS, static=st.booleans(), assignor_range=st.booleans(), interval_ms=st.sampled_from([0, 1000])
)
def test_no_partition_is_read_by_two_and_all_are_read_in_the_end(
    steps: list[tuple[str, int]], static: bool, assignor_range: bool, interval_ms: int
) -> None:
    assignors = ("range", "uniform") if assignor_range else ("uniform", "range")
    world = World(group_consumer_assignment_interval_ms=interval_ms, group_consumer_assignors=assignors)
    world.topics.create("a", 4)
    world.topics.create("b", 3)
    clients = [
        Client(world, f"m-{number}", ["a"] if number % 2 else ["a", "b"], f"i-{number}" if static else None)
        for number in range(5)
    ]
    for action, number in steps:
        match action:
            case "time":
                world.pass_time(number)
            case "beat":
                clients[number].beat()
            case "full":
                clients[number].beat(full=True)
            case "lost":
                clients[number].beat(lost=True)
            case "leave":
                clients[number].leave()
            case "away":
                clients[number].leave(-2 if static else -1)
            case "join":
                if not static:  # A static member that has not left is not let in again.
                    clients[number].join()
            case "subscribe":
                clients[number].topics = [["a"], ["b"], ["a", "b"], ["a", "c"], []][number]
            case "grow":
                world.topics.create("c", number + 1)
            case "restart":
                world.restart()
        _check(world, clients)
    for client in clients:
        client.topics = ["a", "b", "c"]
    world.topics.create("c", 5)
    world.pass_time(SESSION_MS)  # Members that were away come back.
    _check(world, clients)
    _settle(world, clients)
    read = sorted(partition for client in clients for partition in client.reads)
    everything = sorted(
        (topic.topic_id.bytes, partition)
        for topic in world.topics.topics.values()
        for partition in range(topic.partitions)
    )
    assert read == everything
    assert world.group is not None
    assert world.group.state == "Stable"
