"""An idempotent producer as any good client is: five in flight, retries under their old sequences, nothing sent twice by
its application.

Role.   Gives itself batches at random moments for random partitions and delivers them through `core.idempotence.in_flight`.
Flow.   an application's task gives batches -> the sender puts those that may leave into requests -> answers, lost connections
        and expiries are events -> settled and failed batches go into the history.
Rules.  * A batch is given once. The delivery sends it again if it must, under the sequence it had.
        * A killed producer starts with a new id; undelivered batches are forgotten, and may be stored or not.
        * Once told to finish, it gives every partition last words until one of them is stored.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from semel.core.idempotence.delivery import (
    NO_IDENTITY,
    Answered,
    Decision,
    Expired,
    Fail,
    Lost,
    Retry,
    Send,
    Settle,
)
from semel.core.idempotence.in_flight import InFlight
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.errors import DisconnectedError, ErrorCode
from semel.net.connection import Connection
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.history.events import Given, GivenUp, IdGiven, Settled
from semel.verify.simulation.actors.client import IN_FLIGHT_MAX, Client
from semel.verify.simulation.world import BROKER, World

CLUSTER: Final = "cluster"
"""The giver of producer ids where there is a cluster."""
_BY_ID_SINCE: Final = 13
_INIT_VERSION: Final = 4
_BACK_OFF_SECONDS: Final = (0.01, 0.3)
_LAST_WORDS_MAX: Final = 4
_STALE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class Habits:
    """How one producer works."""

    version: int
    """Of Produce."""
    compression: int
    in_flight_max: int
    batches: int
    """How many times one process gives before it is told to finish."""
    pause_seconds: float
    """Between two of them, on average."""
    records_max: int
    value_bytes_max: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    burst: int = 1
    """How many of them it gives at a time."""


@dataclass(slots=True)
class _Batch:
    topic_partition: TopicPartition
    records: list[RecordInput]
    is_last_word: bool


class Producer:
    """The actor."""

    def __init__(
        self,
        world: World,
        name: str,
        habits: Habits,
        partitions: list[TopicPartition],
        *,
        through: str = BROKER,
        others: tuple[str, ...] = (),
    ) -> None:
        """`through`: the broker; in a cluster the one that is asked first, and `others` those that are asked then."""
        self.name = name
        self._brokers = (through, *others)
        self._world = world
        self._habits = habits
        self._partitions = partitions
        self._processes = 0
        self._finishing = False
        self._delivery: _Delivery | None = None

    async def run(self, runtime: Runtime) -> None:
        self._processes += 1
        name = f"{self.name}.{self._processes}"
        self._delivery = _Delivery(self._world, name, self._habits, runtime, self._partitions, self._brokers)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._delivery.send_for_ever(group), name=f"{name} sender")
            if self._finishing:
                self._delivery.say_last_words()
            else:
                group.create_task(self._work(self._delivery, runtime), name=f"{name} application")

    async def _work(self, delivery: "_Delivery", runtime: Runtime) -> None:
        for _ in range(self._habits.batches):
            await runtime.tasks.sleep(runtime.dice.expovariate(1 / self._habits.pause_seconds))
            if self._finishing:
                return
            for _ in range(self._habits.burst):
                delivery.give(runtime.dice.choice(self._partitions))

    def finish(self) -> None:
        self._finishing = True
        if self._delivery is not None:
            self._delivery.say_last_words()

    def owes(self) -> str | None:
        return "a process" if self._delivery is None else self._delivery.owes()


class _Delivery:
    """One process: its batches, its sequences, its connection."""

    def __init__(
        self,
        world: World,
        name: str,
        habits: Habits,
        runtime: Runtime,
        partitions: list[TopicPartition],
        brokers: tuple[str, ...],
    ) -> None:
        self._world = world
        self._name = name
        self._habits = habits
        self._runtime = runtime
        self._partitions = partitions
        self._client = Client(runtime, name, habits.request_timeout_ms, brokers[0], brokers[1:])
        self._is_in_cluster = len(brokers) > 1
        self._in_flight: InFlight[TopicPartition] = InFlight(in_flight_max=habits.in_flight_max)
        self._batches: dict[int, _Batch] = {}
        self._given = 0
        self._not_before: dict[TopicPartition, float] = {}
        self._requests = 0
        self._wake = asyncio.Event()
        self._awaited: dict[TopicPartition, int] = {}
        """Partitions that still owe a stored last word, and how many were said."""
        self._is_stale = True

    # The application

    def give(self, topic_partition: TopicPartition, *, is_last_word: bool = False) -> None:
        """Hand over a batch."""
        dice, habits = self._runtime.dice, self._habits
        batch_id = self._given
        self._given += 1
        values = tuple(
            f"{self._name}:{batch_id}:{index} ".encode() + b"x" * dice.randrange(habits.value_bytes_max)
            for index in range(dice.randint(1, habits.records_max))
        )
        now_ms = self._runtime.clock.now_ms()
        records = [RecordInput(key=None, value=value, timestamp_ms=now_ms) for value in values]
        self._batches[batch_id] = _Batch(topic_partition, records, is_last_word)
        self._world.history.add(
            Given(
                self._world.now(),
                self._name,
                batch_id,
                topic_partition.topic,
                topic_partition.partition,
                values,
            )
        )
        self._in_flight.enqueue(topic_partition, batch_id, len(records))
        if not is_last_word:
            seconds = habits.delivery_timeout_ms / 1000
            self._runtime.tasks.call_later(seconds, self._expire, topic_partition, batch_id)
        self._wake.set()

    def say_last_words(self) -> None:
        for topic_partition in self._partitions:
            self._awaited[topic_partition] = 1
            self.give(topic_partition, is_last_word=True)

    def owes(self) -> str | None:
        if self._batches:
            waiting = sorted({str(batch.topic_partition) for batch in self._batches.values()})
            return f"{len(self._batches)} batches of {', '.join(waiting)}"
        return f"last words to {', '.join(map(str, self._awaited))}" if self._awaited else None

    # Sending

    async def send_for_ever(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            try:
                home = self._client.host
                connection = await self._client.connection()
                await self._prepare()
                for host, partitions in self._by_leader(home):
                    reached = connection if host == home else await self._reach(host)
                    if reached is not None and reached.is_open:
                        self._send_what_may_leave(reached, host, partitions, group)
            except DisconnectedError:
                await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_BACK_OFF_SECONDS))
                continue
            await self._until_woken()

    async def _reach(self, host: str) -> Connection | None:
        """The connection to a leader; None if it cannot be reached: another one may lead by now."""
        try:
            return await self._client.connection(host)
        except DisconnectedError:
            self._is_stale = True
            return None

    def _by_leader(self, home: str) -> list[tuple[str, list[TopicPartition]]]:
        """The partitions that have batches, by the host to send them to; first `home`."""
        found: dict[str, list[TopicPartition]] = {home: []}
        for topic_partition in self._in_flight.partitions():
            found.setdefault(self._client.leader(topic_partition), []).append(topic_partition)
        return list(found.items())

    async def _until_woken(self) -> None:
        """Something happened, or a pause of a partition may be over."""
        try:
            async with asyncio.timeout(_BACK_OFF_SECONDS[1] if self._batches else None):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _prepare(self) -> None:
        """Know the topics, have an identity."""
        missing = any(one.topic not in self._client.topics for one in self._in_flight.partitions())
        if self._is_stale or missing:
            self._client.look_elsewhere()
            await self._client.refresh(sorted({one.topic for one in self._partitions}))
            self._is_stale = False
        if self._in_flight.identity == NO_IDENTITY and self._batches:
            answer = await self._client.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), _INIT_VERSION
            )
            if answer.error_code:
                raise DisconnectedError(f"no producer id: {ErrorCode(answer.error_code).name}")
            giver = CLUSTER if self._is_in_cluster else self._client.host
            self._world.history.add(IdGiven(self._world.now(), self._name, answer.producer_id, giver))
            self._in_flight.use_identity(answer.producer_id, answer.producer_epoch)

    def _send_what_may_leave(
        self, connection: Connection, host: str, partitions: list[TopicPartition], group: asyncio.TaskGroup
    ) -> None:
        """As many requests as there is room for, each with at most one batch per partition."""
        now = self._runtime.clock.monotonic()
        while self._requests < IN_FLIGHT_MAX:
            sends = [
                send
                for topic_partition in partitions
                if self._not_before.get(topic_partition, 0.0) <= now
                and topic_partition.topic in self._client.topics
                and (send := self._in_flight.send(topic_partition, self._runtime.clock.monotonic_ms()))
                is not None
            ]
            if not sends:
                return
            self._requests += 1
            topic_ids = {name: topic.topic_id for name, topic in self._client.topics.items()}
            exchange = self._exchange(connection, host, self._request(sends, topic_ids), sends, topic_ids)
            group.create_task(exchange, name=f"{self._name} request")

    def _request(self, sends: list[Send[TopicPartition]], topic_ids: dict[str, bytes]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for send in sends:
            topic = send.partition.topic
            data = topics.setdefault(topic, TopicProduceData(name=topic, topic_id=topic_ids[topic]))
            records = build_batch(
                self._batches[send.batch_id].records,
                compression=self._habits.compression,
                producer_id=send.identity.producer_id,
                producer_epoch=send.identity.producer_epoch,
                base_sequence=send.base_sequence,
            )
            data.partition_data.append(PartitionProduceData(index=send.partition.partition, records=records))
        return ProduceRequest(
            acks=-1, timeout_ms=self._habits.request_timeout_ms, topic_data=list(topics.values())
        )

    async def _exchange(
        self,
        connection: Connection,
        host: str,
        request: ProduceRequest,
        sends: list[Send[TopicPartition]],
        topic_ids: dict[str, bytes],
    ) -> None:
        since = self._world.now()
        try:
            response = await connection.send(
                request, self._habits.version, timeout_ms=self._habits.request_timeout_ms
            )
        except DisconnectedError:
            answers = None
        else:
            names = {topic_id: name for name, topic_id in topic_ids.items()}
            answers = {
                TopicPartition(names[topic.topic_id] if self._by_id else topic.name, one.index): one
                for topic in response.responses
                for one in topic.partition_responses
            }
        self._requests -= 1
        by = host if self._is_in_cluster else ""
        for send in sends:
            topic_id = topic_ids[send.partition.topic] if self._by_id else None
            answer = None if answers is None else answers.get(send.partition)
            if answers is not None and answer is None:
                self._world.flaw(f"{self._name}: {send.partition} is missing in the answer to Produce")
            self._on_outcome(send, answer, since, topic_id, by)
        self._wake.set()

    @property
    def _by_id(self) -> bool:
        return self._habits.version >= _BY_ID_SINCE

    # Outcomes

    def _on_outcome(
        self,
        send: Send[TopicPartition],
        answer: PartitionProduceResponse | None,
        since: float,
        topic_id: bytes | None,
        by: str,
    ) -> None:
        event: Lost[TopicPartition] | Answered[TopicPartition]
        if answer is None:
            self._is_stale = self._is_stale or self._is_in_cluster
            event = Lost(send.partition, send.batch_id)
        else:
            code = ErrorCode(answer.error_code)
            self._is_stale = self._is_stale or code in _STALE
            event = Answered(send.partition, send.batch_id, code, answer.base_offset)
        decisions = self._in_flight.handle(event, self._runtime.clock.monotonic_ms())
        self._carry_out(decisions, since, topic_id, send.attempt, by)

    def _expire(self, topic_partition: TopicPartition, batch_id: int) -> None:
        if batch_id in self._batches:
            event = Expired(topic_partition, batch_id)
            self._carry_out(self._in_flight.handle(event, self._runtime.clock.monotonic_ms()), 0.0, None, 0)
            self._wake.set()

    def _carry_out(
        self,
        decisions: list[Decision[TopicPartition]],
        since: float,
        topic_id: bytes | None,
        attempt: int,
        by: str = "",
    ) -> None:
        history, now = self._world.history, self._world.now()
        for decision in decisions:
            match decision:
                case Settle(topic_partition, batch_id, base_offset):
                    history.add(Settled(now, since, self._name, batch_id, topic_id, base_offset, attempt))
                    if self._batches.pop(batch_id).is_last_word:
                        self._awaited.pop(topic_partition, None)
                case Fail(topic_partition, batch_id, code, maybe_stored):
                    history.add(GivenUp(now, self._name, batch_id, code.name, maybe_stored, by))
                    self._on_failed(topic_partition, self._batches.pop(batch_id))
                case Retry(topic_partition):
                    pause = self._runtime.dice.uniform(*_BACK_OFF_SECONDS)
                    self._not_before[topic_partition] = self._runtime.clock.monotonic() + pause
                case _:
                    pass  # A bumped epoch is used by what is sent next; a missing id is fetched before.

    def _on_failed(self, topic_partition: TopicPartition, batch: _Batch) -> None:
        """A first last word may fail where the broker rightly lost what came before it; a later one must not."""
        if batch.is_last_word and topic_partition in self._awaited:
            self._awaited[topic_partition] += 1
            if self._awaited[topic_partition] <= _LAST_WORDS_MAX:
                self.give(topic_partition, is_last_word=True)
