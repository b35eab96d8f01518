"""A cluster without a clock, a network or a disk: the controller's machine on ZooKeeper's machine, and brokers that obey.

Role.   `PureCluster` plays events until nothing is left to play. Tests register brokers, write nodes, and look at nodes and requests.
Rules.  * Writes of the controller are fenced as the shell fences them. A write of a controller that was replaced raises `MovedError`.
        * Brokers answer what they are sent at once; `refusals` says what they answer for some partitions.
        * `before_batch` is told of every batch: a test breaks the controller off there, or has the answers to its writes lost.
        * After every write the nodes of partitions are as they must be: the leader in sync, replicas in sync, somebody in sync.
"""

import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from semel.core.cluster import documents, paths
from semel.core.cluster.controller.context import Leadership
from semel.core.cluster.controller.effects import (
    Connect,
    Disconnect,
    Effect,
    Note,
    Play,
    PlayNext,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from semel.core.cluster.controller.events import (
    Event,
    LeaderAndIsrResponseReceived,
    Startup,
    TopicDeletionStopReplicaResponseReceived,
)
from semel.core.cluster.controller.machine import Machine
from semel.core.cluster.controller.operations import Batch, Result
from semel.core.cluster.controller.term import Settings
from semel.core.cluster.controller.watching import event_of
from semel.core.cluster.documents import BrokerNode, StateNode, TopicNode, ZnodeError
from semel.core.metadata.brokers import Endpoint
from semel.core.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from semel.core.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from semel.core.zookeeper import machine as zookeeper
from semel.core.zookeeper.wire.messages import (
    Answer,
    Check,
    ChildrenWithStat,
    ConnectRequest,
    Create,
    Data,
    Delete,
    Failed,
    GetChildren,
    GetData,
    Multi,
    MultiResults,
    Request,
    SetData,
    StatOf,
)
from semel.core.zookeeper.words import EPHEMERAL, Stat, ZooKeeperCode
from semel.errors import ErrorCode
from semel.types import TopicPartition

SETTINGS: Final = Settings(node_id=0)
TOPIC_ID: Final = uuid.UUID(int=7)
_OTHERS: Final = 1
_EVENTS_MAX: Final = 10_000


class MovedError(Exception):
    """The check of the controller's epoch has failed."""


class PureCluster:
    """ZooKeeper, brokers, and one controller after the other."""

    def __init__(self, *brokers: int, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self._zookeeper = zookeeper.Machine()
        self._connections = _OTHERS
        self._sessions: dict[int, int] = {}
        self._now_ms = 0
        self._ids = 0
        self.machine = Machine(0, settings, self.new_id)
        self._connection = 0
        self._check = Check(paths.CONTROLLER_EPOCH, 0)
        self.waiting: deque[Event] = deque()
        self.connected: dict[int, int] = {}
        """The epoch of each broker that the controller has a queue for."""
        self.sent: list[Effect] = []
        self.notes: list[str] = []
        self.refusals: dict[tuple[int, TopicPartition], ErrorCode] = {}
        """What a broker answers for a partition."""
        self.deaf: set[int] = set()
        """Brokers that do not answer."""
        self.before_batch: Callable[[Batch], None] = lambda _batch: None
        self.loses_answers = False
        """Every write is carried out twice, and the second answer counts."""
        self.batches = 0
        self._connect(_OTHERS)
        for path in (*paths.PERSISTENT, paths.CONTROLLER_EPOCH):
            self._make(path)
        self.write(SetData(paths.CONTROLLER_EPOCH, b"0"))
        for broker in brokers:
            self.register(broker)

    # ZooKeeper

    def _connect(self, connection: int) -> int:
        outputs = self._zookeeper.connect(connection, ConnectRequest(timeout_ms=10_000), self._now_ms)
        (connected,) = (one for one in outputs if isinstance(one, zookeeper.Connected))
        return connected.response.session_id

    def _make(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            self._ask(_OTHERS, Create("/" + "/".join(parts[:depth]), None))

    def _ask(self, connection: int, request: Request) -> tuple[ZooKeeperCode, Answer | None]:
        outputs = self._zookeeper.handle(connection, 1, request, self._now_ms, self._now_ms)
        found: tuple[ZooKeeperCode, Answer | None] | None = None
        for one in outputs:
            if isinstance(one, zookeeper.Event) and one.connection == self._connection:
                event = event_of(one.event)
                if event is not None and event not in self.waiting:
                    self.waiting.append(event)
            elif isinstance(one, zookeeper.Reply) and one.connection == connection:
                found = ZooKeeperCode(one.header.code), one.answer
        assert found is not None, request
        return found

    def write(self, request: Create | SetData | Delete) -> None:
        """Somebody else's write; it must be carried out."""
        code, _answer = self._ask(_OTHERS, request)
        assert code is ZooKeeperCode.OK, (request, code)

    def read(self, path: str) -> tuple[bytes | None, Stat] | None:
        """A node, if it is there."""
        _code, answer = self._ask(_OTHERS, GetData(path))
        return (answer.data, answer.stat) if isinstance(answer, Data) else None

    def exists(self, path: str) -> bool:
        return self.read(path) is not None

    def children(self, path: str) -> tuple[str, ...]:
        _code, answer = self._ask(_OTHERS, GetChildren(path))
        return answer.names if isinstance(answer, ChildrenWithStat) else ()

    def tree(self, path: str = "/") -> dict[str, bytes | None]:
        """All nodes below a path, with their data."""
        found: dict[str, bytes | None] = {}
        for name in sorted(self.children(path)):
            below = f"{path.rstrip('/')}/{name}"
            node = self.read(below)
            if node is not None and below != "/zookeeper":
                found[below] = node[0]
                found |= self.tree(below)
        return found

    # Brokers

    def register(self, broker: int, *, host: str = "h", rack: str | None = None) -> None:
        """A broker comes; it is another life of it."""
        self._connections += 1
        connection = self._connections
        self._sessions[broker] = self._connect(connection)
        node = BrokerNode({"PLAINTEXT": Endpoint(host, 9092 + broker)}, {}, rack)
        data = documents.encode_broker(node)
        code, _answer = self._ask(connection, Create(paths.broker(broker), data, flags=EPHEMERAL))
        assert code is ZooKeeperCode.OK, code

    def kill(self, broker: int) -> None:
        """Its session ends."""
        for one in self._zookeeper.expire(self._sessions.pop(broker), self._now_ms):
            if isinstance(one, zookeeper.Event) and one.connection == self._connection:
                event = event_of(one.event)
                if event is not None and event not in self.waiting:
                    self.waiting.append(event)

    def epoch_of(self, broker: int) -> int:
        found = self.read(paths.broker(broker))
        assert found is not None
        return found[1].czxid

    # The controller

    def new_id(self) -> uuid.UUID:
        self._ids += 1
        return uuid.UUID(int=1000 + self._ids)

    def elect(self, *, plays: bool = True) -> Machine:
        """A new controller; its take-over, and all that follows from it."""
        found = self.read(paths.CONTROLLER_EPOCH)
        assert found is not None
        epoch = int(found[0] or b"0") + 1
        self.write(SetData(paths.CONTROLLER_EPOCH, b"%d" % epoch, found[1].version))
        self._check = Check(paths.CONTROLLER_EPOCH, found[1].version + 1)
        self.machine = Machine(epoch, self.settings, self.new_id)
        self._connections += 1
        self._connection = self._connections
        self._connect(self._connection)
        self.waiting.clear()
        self.connected.clear()
        self.waiting.append(Startup())
        if plays:
            self.settle()
        return self.machine

    def settle(self) -> None:
        """Play all events that wait, and those that follow from them."""
        for _event in range(_EVENTS_MAX):
            if not self.waiting:
                return
            self.play(self.waiting.popleft())
        raise AssertionError("events without end")

    def ask(self, event: Event) -> Any:
        """The machine's answer to an event that somebody waits for; then all that follows."""
        answer = self.play(event)
        self.settle()
        return answer

    def play(self, event: Event) -> Any:
        steps = self.machine.play(event)
        results: list[Result] | None = None
        while True:
            try:
                batch = next(steps) if results is None else steps.send(results)
            except StopIteration as done:
                self._carry_out()
                return done.value
            self._carry_out()
            self.batches += 1
            self.before_batch(batch)
            results = [self._one(one) for one in batch]

    def _one(self, operation: Request) -> Result:
        if not isinstance(operation, Create | SetData | Delete):
            return _result(*self._ask(self._connection, operation))
        multi = Multi((self._check, operation))
        if self.loses_answers:
            self._ask(self._connection, multi)
        _code, answer = self._ask(self._connection, multi)
        assert isinstance(answer, MultiResults)
        check, own = answer.results
        if isinstance(check, Failed) and check.code:
            raise MovedError(operation)
        self._look()
        if isinstance(own, Failed):
            return Result(own.code)
        return Result(stat=own.stat) if isinstance(own, StatOf) else Result()

    def _look(self) -> None:
        for topic in self.children(paths.TOPICS):
            found = self.read(paths.topic(topic))
            assert found is not None
            try:
                node = documents.decode_topic(topic, found[0])
            except ZnodeError:
                continue
            for index in node.replicas:
                state = self.state(topic, index)
                if state is not None:
                    assert state.isr, (topic, index, state)
                    assert state.leader in (-1, *state.isr), (topic, index, state)

    def _carry_out(self) -> None:
        outbox = self.machine.term.outbox
        effects, outbox[:] = outbox.copy(), []
        following: list[Event] = []
        for effect in effects:
            match effect:
                case Note(text):
                    self.notes.append(text)
                case Play(event):
                    self.waiting.append(event)
                case PlayNext(event):
                    following.append(event)
                case Connect(broker):
                    self.connected[broker.broker_id] = broker.epoch
                case Disconnect(broker_id):
                    del self.connected[broker_id]
                case SendLeaderAndIsr() | SendUpdateMetadata() | SendStopReplica():
                    self.sent.append(effect)
                    self._answer(effect)
        self.waiting.extendleft(reversed(following))

    def _answer(self, sent: SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica) -> None:
        if isinstance(sent, SendUpdateMetadata):
            for broker, epoch in sent.broker_epochs:
                assert self.connected[broker] == epoch
            return
        broker, epoch = sent.broker_id, sent.request.broker_epoch
        assert self.connected[broker] == epoch, f"broker {broker} is sent to before it is connected"
        if broker in self.deaf:
            return
        if isinstance(sent, SendLeaderAndIsr):
            roles = LeaderAndIsrResponse(
                topics=[
                    LeaderAndIsrTopicError(
                        topic_id=topic.topic_id,
                        partition_errors=[
                            LeaderAndIsrPartitionError(
                                partition_index=one.partition_index,
                                error_code=self._code(broker, topic.topic_name, one.partition_index),
                            )
                            for one in topic.partition_states
                        ],
                    )
                    for topic in sent.request.topic_states
                ]
            )
            self.waiting.append(LeaderAndIsrResponseReceived(broker, epoch, roles))
            return
        rows = [
            (topic.topic_name, one) for topic in sent.request.topic_states for one in topic.partition_states
        ]
        deleted = tuple(
            TopicPartition(name, one.partition_index) for name, one in rows if one.delete_partition
        )
        if deleted:
            stops = StopReplicaResponse(
                partition_errors=[
                    StopReplicaPartitionError(
                        topic_name=name,
                        partition_index=one.partition_index,
                        error_code=self._code(broker, name, one.partition_index),
                    )
                    for name, one in rows
                ]
            )
            self.waiting.append(TopicDeletionStopReplicaResponseReceived(broker, epoch, deleted, stops))

    def _code(self, broker: int, topic: str, index: int) -> ErrorCode:
        return self.refusals.get((broker, TopicPartition(topic, index)), ErrorCode.NONE)

    # Topics

    def create(self, topic: str, *replicas: Sequence[int], topic_id: uuid.UUID | None = TOPIC_ID) -> None:
        """A topic's nodes, as any broker writes them; and all that follows."""
        node = TopicNode({index: tuple(ids) for index, ids in enumerate(replicas)}, topic_id)
        if not self.exists(paths.topic_configs(topic)):
            self.write(Create(paths.topic_configs(topic), documents.encode_configs({})))
        self.write(Create(paths.topic(topic), documents.encode_topic(node)))
        self.settle()

    def grow(self, topic: str, *replicas: Sequence[int]) -> None:
        """The topic's node names these partitions."""
        node = TopicNode({index: tuple(ids) for index, ids in enumerate(replicas)}, self.node(topic).topic_id)
        self.write(SetData(paths.topic(topic), documents.encode_topic(node)))
        self.settle()

    def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        self.write(SetData(paths.topic_configs(topic), documents.encode_configs(configs)))

    def delete(self, topic: str) -> None:
        self.write(Create(paths.deletion(topic), None))
        self.settle()

    def node(self, topic: str) -> TopicNode:
        found = self.read(paths.topic(topic))
        assert found is not None, topic
        return documents.decode_topic(topic, found[0])

    def state(self, topic: str, index: int = 0) -> StateNode | None:
        found = self.read(paths.state(topic, index))
        return None if found is None else documents.decode_state(topic, index, found[0])

    def brief(self, topic: str, index: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """Leader, leader epoch and ISR."""
        state = self.state(topic, index)
        assert state is not None, f"{topic}-{index} has no state"
        known = self.machine.context.leaderships.get(TopicPartition(topic, index))
        assert known is None or _brief(known) == _brief(state), "the controller knows what is written"
        return _brief(state)

    # What was sent

    def take_sent(self) -> list[Effect]:
        """The requests since the last time."""
        taken, self.sent = self.sent, []
        return taken

    def roles(self, broker: int, topic: str, index: int = 0) -> list[LeaderAndIsrPartitionState]:
        """What a broker was told of its replica of a partition, in order."""
        return [
            state
            for one in self.sent
            if isinstance(one, SendLeaderAndIsr) and one.broker_id == broker
            for told in one.request.topic_states
            if told.topic_name == topic
            for state in told.partition_states
            if state.partition_index == index
        ]

    def stops(self, broker: int, topic: str, index: int = 0) -> list[tuple[int, bool]]:
        """Leader epoch and deletion of each StopReplica for a replica."""
        return [
            (state.leader_epoch, state.delete_partition)
            for one in self.sent
            if isinstance(one, SendStopReplica) and one.broker_id == broker
            for told in one.request.topic_states
            if told.topic_name == topic
            for state in told.partition_states
            if state.partition_index == index
        ]


def _brief(state: StateNode | Leadership) -> tuple[int, int, tuple[int, ...]]:
    return state.leader, state.leader_epoch, state.isr


def _result(code: ZooKeeperCode, answer: Answer | None) -> Result:
    match answer:
        case Data(data, stat):
            return Result(data=data, stat=stat)
        case StatOf(stat):
            return Result(stat=stat)
        case ChildrenWithStat(names, stat):
            return Result(names=names, stat=stat)
        case _:
            return Result(code)
