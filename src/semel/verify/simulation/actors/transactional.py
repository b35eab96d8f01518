"""A transactional client as any good one is: carries out what `core.transactions.producer` decides, and tells the history.

Role.   `Session` is one instance of a transactional id. It introduces itself and runs one transaction after the other, over
        a connection to the leader and one to the coordinators.
Flow.   `introduce` -> `run` with batches, offsets and an intention -> requests until the producer is ready again, or lost.
Rules.  * What is given is told before it can leave; a decision is told before EndTxn can.
        * It stands still wherever its owner's `pause` does: between any two requests, and before any answer is looked at.
        * An abort comes when it comes: batches may be stored, lost on their way, or never sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from semel.core.idempotence.delivery import Answered, Fail, Lost, Retry, Send, Settle
from semel.core.records.build import RecordInput, build_batch
from semel.core.transactions.producer import After, GroupMetadata, Outgoing, TransactionalProducer
from semel.core.transactions.producer_states import ProducerState
from semel.core.wire.message import Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.history.events import Deciding, Ended, Given, GivenUp, Outcome, Settled, Took
from semel.verify.simulation.actors.client import IN_FLIGHT_MAX, Client
from semel.verify.simulation.world import World

_FIND_COORDINATOR_VERSION: Final = 2
_TRANSACTION_KEY: Final = 1
_BY_ID_SINCE: Final = 13
_BACK_OFF_SECONDS: Final = (0.01, 0.3)
_OUTCOMES: Final[Mapping[str, Outcome]] = {"committed": "committed", "aborted": "aborted"}
"""The ends its producer may name; any other end is unknown."""
_ENDED: Final = (ProducerState.READY, ProducerState.FATAL_ERROR)


@dataclass(frozen=True, slots=True)
class Versions:
    """Which versions a client speaks."""

    produce: int
    init_producer_id: int
    add_partitions: int
    add_offsets: int
    txn_offset_commit: int
    end_txn: int

    @property
    def is_v2(self) -> bool:
        return self.end_txn >= 5


@dataclass(frozen=True, slots=True)
class Manners:
    """How one transactional client works."""

    versions: Versions
    transaction_timeout_ms: int
    request_timeout_ms: int
    in_flight_max: int
    pause_seconds: float
    """Between two transactions, on average."""
    abort_probability: float
    vanish_probability: float


class Session:
    """One instance."""

    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        manners: Manners,
        runtime: Runtime,
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        self.producer = TransactionalProducer(
            transactional_id,
            manners.transaction_timeout_ms,
            v2=manners.versions.is_v2,
            in_flight_max=manners.in_flight_max,
        )
        self._world = world
        self._manners = manners
        self._runtime = runtime
        self._pause = pause
        self._leader = Client(runtime, name, manners.request_timeout_ms)
        self._coordinator = Client(runtime, name, manners.request_timeout_ms)
        self._batches: dict[int, tuple[TopicPartition, list[RecordInput]]] = {}
        self._given = 0
        self._transactions = 0
        self._is_stale = True
        self._is_impatient = False

    @property
    def is_lost(self) -> bool:
        """Whether a new instance has to take its place."""
        return self.producer.state is ProducerState.FATAL_ERROR

    def leave(self) -> None:
        """Go without a word."""
        self._leader.disconnect()
        self._coordinator.disconnect()

    async def introduce(self) -> bool:
        """Get an identity; False if somebody else was faster."""
        await self._find_coordinator()
        self.producer.init()
        await self._until(lambda: self.producer.state in _ENDED)
        return not self.is_lost

    async def run(
        self,
        batches: Sequence[tuple[TopicPartition, tuple[bytes, ...]]],
        *,
        commit: bool,
        steps: int | None = None,
        group: GroupMetadata | None = None,
        offsets: Mapping[TopicPartition, int] | None = None,
    ) -> str:
        """A transaction; gives its fate. With `steps`, so many requests before it is ended, or left open ("open")."""
        producer = self.producer
        number, given = self._begin(batches)
        if group is not None:
            producer.send_offsets(group, offsets or {})
        for _ in range(steps or 0):
            if producer.state is ProducerState.IN_TRANSACTION:
                await self._step()
        if steps is not None and commit:
            return "open"
        if (
            not commit
            and producer.state is ProducerState.IN_TRANSACTION
            and self._runtime.dice.random() < 0.5
        ):
            await self._step_impatiently()
        await self._end(number, given, commit=commit, offsets=offsets or {})
        return self._over(number, producer.fate.value)

    async def run_held(
        self,
        batches: Sequence[tuple[TopicPartition, tuple[bytes, ...]]],
        held: Callable[[], Awaitable[None]],
    ) -> str:
        """A transaction that stays open, with everything stored, while it is held; then it is committed."""
        number, given = self._begin(batches)
        await self._until_stored()
        await held()
        await self._end(number, given, commit=True, offsets={})
        return self._over(number, self.producer.fate.value)

    def _begin(self, batches: Sequence[tuple[TopicPartition, tuple[bytes, ...]]]) -> tuple[int, list[int]]:
        """A transaction with these batches; gives its number and theirs."""
        self.producer.begin()
        self._transactions += 1
        return self._transactions, [self._give(partition, values) for partition, values in batches]

    async def _end(
        self, number: int, given: list[int], *, commit: bool, offsets: Mapping[TopicPartition, int]
    ) -> None:
        producer = self.producer
        if not self.is_lost:
            if producer.state is ProducerState.ABORTABLE_ERROR:
                commit = False
            decision = Deciding(self._world.now(), self.name, number, commit, tuple(given), offsets)
            self._world.history.add(decision)
            if commit:
                producer.commit()
            else:
                self._carry_out(producer.abort())
            await self._until(lambda: producer.state in (*_ENDED, ProducerState.ABORTABLE_ERROR))
        if producer.state is ProducerState.ABORTABLE_ERROR:
            self._carry_out(producer.abort())
            await self._until(lambda: producer.state in _ENDED)

    def _over(self, number: int, fate: str) -> str:
        self._batches.clear()
        outcome = _OUTCOMES.get(fate, "unknown")
        self._world.history.add(Ended(self._world.now(), self.name, number, outcome))
        return fate

    def _give(self, partition: TopicPartition, values: tuple[bytes, ...]) -> int:
        batch_id = self._given
        self._given += 1
        now_ms = self._runtime.clock.now_ms()
        records = [RecordInput(key=None, value=value, timestamp_ms=now_ms) for value in values]
        self._batches[batch_id] = (partition, records)
        self._world.history.add(Given(self._world.now(), self.name, batch_id, *partition, values))
        self.producer.enqueue(partition, batch_id, len(records))
        return batch_id

    # Steps

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            await self._step()

    async def _until_stored(self) -> None:
        """Until every batch is, or the transaction cannot be committed."""
        producer = self.producer
        await self._until(
            lambda: producer.state is not ProducerState.IN_TRANSACTION or not any(producer.partitions())
        )

    async def _step(self) -> None:
        """One request to a coordinator, or as many with batches as may leave at once."""
        await self._pause()
        outgoing = self.producer.next_request()
        if outgoing is not None:
            await self._ask(outgoing)
            return
        requests = await self._requests()
        if requests:
            results = await asyncio.gather(*(self._produce(sends) for sends in requests))
            if not any(results):
                return
        await self._back_off()

    async def _step_impatiently(self) -> None:
        """A step that is not waited for: its requests may arrive after the end of their transaction."""
        step = asyncio.create_task(self._step(), name=f"{self.name} impatient")
        await self._runtime.tasks.sleep(self._runtime.dice.choice([0.0001, 0.0005, 0.003]))
        self._is_impatient = True
        self._leader.disconnect()
        await step
        self._is_impatient = False

    async def _back_off(self) -> None:
        if self._is_impatient:
            return
        await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_BACK_OFF_SECONDS))

    # Coordinators

    async def _find_coordinator(self) -> None:
        request = FindCoordinatorRequest(key=self.producer.transactional_id, key_type=_TRANSACTION_KEY)
        while True:
            try:
                found = await self._coordinator.ask(request, _FIND_COORDINATOR_VERSION)
            except DisconnectedError:
                found = None
            await self._pause()
            if found is not None and not found.error_code:
                return
            await self._back_off()

    async def _ask(self, outgoing: Outgoing) -> None:
        since = self._world.now()
        was = self.producer.producer_id, self.producer.producer_epoch
        try:
            response = await self._exchange(outgoing)
        except DisconnectedError:
            await self._pause()
            after = self.producer.lost(outgoing)
        else:
            await self._pause()
            after = self.producer.answered(outgoing, response)
        now = self.producer.producer_id, self.producer.producer_epoch
        if now != was:
            # EndTxn may answer with the next epoch before its markers are written; InitProducerId does not.
            is_introduced = isinstance(outgoing.request, InitProducerIdRequest)
            ends = self._world.broker.log_ends() if is_introduced else {}
            self._world.history.add(
                Took(self._world.now(), self.name, self.producer.transactional_id, since, *now, ends)
            )
        if self.is_lost:
            self._world.tell(f"{self.name} is lost: {self.producer.error.name}")
        if after is After.FIND_COORDINATOR:
            await self._find_coordinator()
        if after is not After.GO_ON:
            await self._back_off()

    async def _exchange(self, outgoing: Outgoing) -> Response:
        """The answer of a coordinator; raises `DisconnectedError`."""
        answer: Response = await self._coordinator.ask(outgoing.request, self._version(outgoing))
        return answer

    def _version(self, outgoing: Outgoing) -> int:
        versions = self._manners.versions
        match outgoing.request:
            case InitProducerIdRequest():
                return versions.init_producer_id
            case AddPartitionsToTxnRequest():
                return versions.add_partitions
            case AddOffsetsToTxnRequest():
                return versions.add_offsets
            case TxnOffsetCommitRequest():
                return versions.txn_offset_commit
            case EndTxnRequest():
                return versions.end_txn
            case _:
                raise TypeError(f"{outgoing.request} is not a request of transactions")

    # Batches

    async def _requests(self) -> list[list[Send[TopicPartition]]]:
        """The requests that may leave now, each with at most one batch per partition."""
        waiting = list(self.producer.partitions())
        if not waiting:
            return []
        try:
            if self._is_stale or any(one.topic not in self._leader.topics for one in waiting):
                await self._leader.refresh(sorted({one.topic for one in waiting}))
                self._is_stale = False
        except DisconnectedError:
            return []
        requests: list[list[Send[TopicPartition]]] = []
        while len(requests) < IN_FLIGHT_MAX:
            now_ms = self._runtime.clock.monotonic_ms()
            sends = [
                send
                for one in waiting
                if one.topic in self._leader.topics and (send := self.producer.send(one, now_ms)) is not None
            ]
            if not sends:
                break
            requests.append(sends)
        return requests

    async def _produce(self, sends: list[Send[TopicPartition]]) -> bool:
        """Send batches; True if some have to be sent again."""
        since = self._world.now()
        ids = {name: topic.topic_id for name, topic in self._leader.topics.items()}
        version = self._manners.versions.produce
        try:
            response = await self._leader.ask(self._produce_request(sends, ids), version)
        except DisconnectedError:
            answers = None
        else:
            names = {topic_id: name for name, topic_id in ids.items()}
            answers = {
                TopicPartition(
                    names[topic.topic_id] if version >= _BY_ID_SINCE else topic.name, one.index
                ): one
                for topic in response.responses
                for one in topic.partition_responses
            }
        await self._pause()
        again = False
        for send in sends:
            event: Lost[TopicPartition] | Answered[TopicPartition]
            if answers is None:
                event = Lost(send.partition, send.batch_id)
            else:
                answer = answers[send.partition]
                code = ErrorCode(answer.error_code)
                self._is_stale = self._is_stale or code is not ErrorCode.NONE
                event = Answered(send.partition, send.batch_id, code, answer.base_offset)
            decisions = self.producer.handle(event, self._runtime.clock.monotonic_ms())
            self._carry_out(decisions, since, ids.get(send.partition.topic), send.attempt)
            again = again or any(isinstance(one, Retry) for one in decisions)
        return again

    def _produce_request(self, sends: list[Send[TopicPartition]], ids: Mapping[str, bytes]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for send in sends:
            topic, partition = send.partition
            data = topics.setdefault(topic, TopicProduceData(name=topic, topic_id=ids[topic]))
            records = build_batch(
                self._batches[send.batch_id][1],
                producer_id=send.identity.producer_id,
                producer_epoch=send.identity.producer_epoch,
                base_sequence=send.base_sequence,
                transactional=True,
            )
            data.partition_data.append(PartitionProduceData(index=partition, records=records))
        return ProduceRequest(
            transactional_id=self.producer.transactional_id,
            acks=-1,
            timeout_ms=self._manners.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _carry_out(
        self, decisions: Sequence[object], since: float = 0.0, topic_id: bytes | None = None, attempt: int = 0
    ) -> None:
        now = self._world.now()
        for decision in decisions:
            match decision:
                case Settle(_partition, batch_id, base_offset):
                    self._world.history.add(
                        Settled(now, since, self.name, batch_id, topic_id, base_offset, attempt)
                    )
                case Fail(_partition, batch_id, code, maybe_stored):
                    self._world.history.add(GivenUp(now, self.name, batch_id, code.name, maybe_stored))
                case _:
                    pass  # A batch to be sent again comes again; the producer's state tells everything else.
