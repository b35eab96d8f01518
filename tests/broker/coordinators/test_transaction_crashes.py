"""A broker that dies at any moment of a transaction leaves it whole or leaves nothing of it, and never stuck.

Goal:   0 lost, 0 torn, 0 aborted read, and the last stable offset moves on: whatever disk operation the broker died at.
Method: a producer writes to two partitions and commits a group's offset in one transaction, on a simulated host; a dry run
        counts the disk operations of that. Then the same is told once per operation, with the process killed (or the power
        cut, with `flush.messages=1`) at that very one. The next broker must have finished what was decided; a reader of
        committed records must find all or nothing, all of it if the producer was told so; the next owner of the id
        must be able to do it again. Both protocols.

        Between two operations an answer may leave. So a second story is listed append by append, and the process is killed right
        after each, before anybody hears of it. It also has an owner fenced with an open transaction, one that takes too long, a
        transaction that its next owner keeps, an id whose epochs run out, and one that is forgotten.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.core.coordination.outcome import Outcome
from semel.core.records import batch
from semel.core.records.batch import BatchHeader
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.core.records.visibility import CommittedOnly
from semel.core.transactions import rows as transaction_rows
from semel.core.transactions.coordinator.decision import TransactionEffect
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.transaction import EPOCH_LAST, Transaction
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.errors import DisconnectedError, ErrorCode
from semel.log.partition_log import PartitionLog
from semel.net.connection import Connection, connect
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import NO_PRODUCER_ID

BROKER, CLIENT = "10.0.0.1", "10.0.0.2"
PORT = 9092
ID, TOPIC, GROUP = "orders-1", "orders", "workers"
PARTITIONS = 2
SETTINGS = {
    "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
    "log.dirs": "data",
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
ORDER: Final = ("before", "disturbed", "kept", "at the last epoch", "after", "after all")
"""What may be read in the end, in this order."""
RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
R = TypeVar("R", bound=Response)
Protocol = Literal["v1", "v2"]


class RefusedError(Exception):
    """The broker said no, and not only for now."""


@dataclass
class Known:
    """What the world outside the broker knows."""

    told: list[str] = field(default_factory=list)
    """The transactions the producer was told are committed."""
    seen: list[tuple[str, ...]] = field(default_factory=list)


@dataclass
class Producer:
    """As much of a transactional producer as the story needs."""

    connection: Connection
    runtime: Runtime
    protocol: Protocol
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)

    async def ask(self, request: Request[R], version: int) -> R:
        return await self.connection.send(request, version, timeout_ms=20_000)

    async def settled(self, request: Request[R], version: int) -> R:
        """Ask until the answer is one for good."""
        while True:
            answer = await self.ask(request, version)
            codes = set(codes_in(answer))
            if not codes & RETRIED:
                if codes - {ErrorCode.NONE}:
                    raise RefusedError(f"{codes} to {request}")
                return answer
            await self.runtime.tasks.sleep(0.05)

    async def introduce(self, *, two_phase: bool = False, keep: bool = False) -> None:
        await self.settled(FindCoordinatorRequest(coordinator_keys=[ID], key_type=1), 5)
        await self.settled(FindCoordinatorRequest(coordinator_keys=[GROUP], key_type=0), 5)
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=60_000,
            enable_2pc=two_phase,
            keep_prepared_txn=keep,
        )
        answer = await self.settled(request, 6 if two_phase else 5)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    async def write(self, value: str) -> None:
        if self.protocol == "v1":
            await self.settled(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=ID,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.producer_epoch,
                    v3_and_below_topics=[
                        AddPartitionsToTxnTopic(name=TOPIC, partitions=list(range(PARTITIONS)))
                    ],
                ),
                3,
            )
        data = [
            PartitionProduceData(
                index=index,
                records=build_batch(
                    [RecordInput(None, value.encode(), self.runtime.clock.now_ms())],
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    base_sequence=self.sequences.get(index, 0),
                    transactional=True,
                ),
            )
            for index in range(PARTITIONS)
        ]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        await self.settled(
            ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=topics),
            11 if self.protocol == "v1" else 12,
        )
        for index in range(PARTITIONS):
            self.sequences[index] = self.sequences.get(index, 0) + 1

    async def commit_offset(self, offset: int) -> None:
        if self.protocol == "v1":
            await self.settled(
                AddOffsetsToTxnRequest(
                    transactional_id=ID,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    group_id=GROUP,
                ),
                3,
            )
        position = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        await self.settled(
            TxnOffsetCommitRequest(
                transactional_id=ID,
                group_id=GROUP,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[position])],
            ),
            4 if self.protocol == "v1" else 5,
        )

    async def end(self, *, commit: bool) -> None:
        answer = await self.settled(
            EndTxnRequest(
                transactional_id=ID,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                committed=commit,
            ),
            4 if self.protocol == "v1" else 5,
        )
        if self.protocol == "v2":
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()

    async def read(self, index: int) -> tuple[list[str], bool]:
        """What a reader of committed records sees, and whether nothing is left open."""
        wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        answer = await self.settled(
            FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                max_bytes=1 << 20,
                isolation_level=1,
                topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
            ),
            11,
        )
        (one,) = answer.responses[0].partitions
        aborted = [(each.producer_id, each.first_offset) for each in one.aborted_transactions or ()]
        shows, data, values = CommittedOnly(aborted), bytes(one.records or b""), []
        for position, header in batch.headers(data):
            if shows(data, position, header) and not header.is_control:
                values += [(record.value or b"").decode() for record in iter_records(data, position, header)]
        return values, one.last_stable_offset == one.high_watermark

    async def committed_offset(self) -> int:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        answer = await self.settled(OffsetFetchRequest(groups=[group], require_stable=True), 8)
        return answer.groups[0].topics[0].partitions[0].committed_offset


def codes_in(message: object) -> list[ErrorCode]:
    """Every error code anywhere in an answer."""
    if isinstance(message, list):
        return [code for one in message for code in codes_in(one)]
    if not hasattr(message, "__slots__") or isinstance(message, str | bytes):
        return []
    found = []
    for name in dir(message):
        if name.endswith("error_code"):
            found.append(ErrorCode(getattr(message, name)))
        elif not name.startswith("_") and isinstance(getattr(message, name), list):
            found += codes_in(getattr(message, name))
    return found


class World:
    """A broker that dies as planned and comes back, and a producer that goes on."""

    def __init__(self, protocol: Protocol, *, flush: bool, **settings: str) -> None:
        self.simulation = Simulation(7)
        self.protocol: Protocol = protocol
        self.host = self.simulation.host(BROKER)
        flushed = {"log.flush.interval.messages": "1"} if flush else {}
        own = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.of(SETTINGS | flushed | own)
        self.broker: Broker | None = None
        self.known = Known()
        self.operations = 0
        self.deaths = 0

    async def serve(self, runtime: Runtime) -> None:
        self.broker = Broker(self.config, runtime)
        await self.broker.start()
        await asyncio.get_running_loop().create_future()

    async def connect(self, runtime: Runtime) -> Producer:
        while True:
            try:
                connection = await connect(runtime, BROKER, PORT, timeout_ms=1000)
                return Producer(connection, runtime, self.protocol)
            except DisconnectedError:
                await runtime.tasks.sleep(0.05)

    async def set_up(self, runtime: Runtime) -> Producer:
        producer = await self.connect(runtime)
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        await producer.ask(CreateTopicsRequest(topics=[topic]), 7)
        await self.transact(producer, "before", 1)
        return producer

    async def transact(self, producer: Producer, value: str, offset: int, *, commit: bool = True) -> None:
        if producer.producer_id < 0:
            await producer.introduce()
        await producer.write(value)
        await producer.commit_offset(offset)
        await producer.end(commit=commit)
        if commit:
            self.known.told.append(value)

    async def story(self, runtime: Runtime) -> None:
        """The transaction that is disturbed, and another after it."""
        producer = await self.set_up(runtime)
        before = self.host.disk.counters.operations
        if self.crash_at is not None:
            self.host.disk.crash_at_operation(self.crash_at, death=self.death)
        try:
            await self.disturbed(producer)
        except DisconnectedError:
            producer = await self.connect(runtime)
        self.operations = self.host.disk.counters.operations - before
        for attempt in ("after", "after all"):  # The planned death may come as late as here, once.
            try:
                await producer.introduce()
                await self.transact(producer, attempt, 3)
                await self.check(producer)
                return
            except DisconnectedError:
                producer = await self.connect(runtime)
        raise AssertionError("the broker died twice")

    async def disturbed(self, producer: Producer) -> None:
        await self.transact(producer, "aborted", 50, commit=False)
        await self.transact(producer, "disturbed", 2)

    async def check(self, producer: Producer) -> None:
        for _ in range(100):  # Markers follow the answer; five seconds are plenty on this disk.
            read = [await producer.read(index) for index in range(PARTITIONS)]
            if all(is_all for _found, is_all in read):
                break
            await producer.runtime.tasks.sleep(0.05)
        else:
            raise AssertionError("the last stable offset hangs")
        values = [found for found, _is_all in read]
        assert values[0] == values[1], f"torn: {values}"
        assert values[0] == [one for one in ORDER if one in values[0]]
        assert set(self.known.told) <= set(values[0]), f"told {self.known.told}, found {values[0]}"
        assert await producer.committed_offset() == 3

    crash_at: int | None = None
    death: Literal["kill", "power cut"] = "kill"

    def run(self, crash_at: int | None = None, death: Literal["kill", "power cut"] = "kill") -> None:
        self.crash_at, self.death = crash_at, death

        async def main() -> None:
            self.host.start(self.serve)
            story = self.simulation.host(CLIENT).start(self.story)
            while not story.done():
                dead = asyncio.ensure_future(self.host.until_dead())
                await asyncio.wait([story, dead], return_when=asyncio.FIRST_COMPLETED)
                if not story.done():
                    self.deaths += 1
                    self.host.start(self.serve)
                dead.cancel()
            await story

        self.simulation.run(main())


@pytest.mark.mission("TXP-12")
@pytest.mark.parametrize("protocol", ["v1", "v2"])
@pytest.mark.parametrize("death", ["kill", "power cut"])
def test_a_death_at_any_operation_leaves_all_or_nothing(
    protocol: Protocol, death: Literal["kill", "power cut"]
) -> None:
    flush = death == "power cut"  # Without syncs a power cut may take what was acknowledged, as in Kafka.
    dry = World(protocol, flush=flush)
    dry.run()
    assert dry.known.told == ["before", "disturbed", "after"]
    assert dry.operations >= 12  # Rows, data and markers of two transactions.
    for number in range(dry.operations):
        world = World(protocol, flush=flush)
        world.run(number, death)
        assert world.deaths == 1


class ByAppend(World):
    """Lists the appends of a longer story, and dies right after the one it is told to."""

    def __init__(self, protocol: Protocol, *, die_after: int | None = None) -> None:
        super().__init__(
            protocol,
            flush=False,
            transaction_two_phase_commit_enable="true",
            transactional_id_expiration_ms="120000",
            transaction_remove_expired_transaction_cleanup_interval_ms="30000",
        )
        self.appends: list[str] = []
        self.die_after = die_after
        self.is_listening = False

    def appended(self, log: PartitionLog, data: bytes, header: BatchHeader) -> None:
        if not self.is_listening:
            return
        self.appends.append(what_is(log, data, header))
        if len(self.appends) - 1 == self.die_after:
            self.host.disk.crash_at_operation(0, death="kill")
            log.active.file.truncate(log.active.size_bytes)  # Changes nothing, and never returns.

    async def disturbed(self, producer: Producer) -> None:
        self.is_listening = True
        await super().disturbed(producer)
        await producer.write("of a zombie")
        await producer.commit_offset(60)
        await producer.introduce()
        await producer.write("too slow")
        await producer.commit_offset(70)
        while not (await producer.read(0))[1]:  # Until its time is up; of the simulated kind.
            await producer.runtime.tasks.sleep(5)
        await producer.settled(FindCoordinatorRequest(coordinator_keys=[ID], key_type=1), 5)
        await self.keep(producer)
        await self.use_up(producer)
        asked = DescribeTransactionsRequest(transactional_ids=[ID])
        while (await producer.ask(asked, 0)).transaction_states[0].error_code == ErrorCode.NONE:
            await producer.runtime.tasks.sleep(5)  # Until it is forgotten.
        await producer.introduce()
        self.is_listening = False

    async def keep(self, producer: Producer) -> None:
        """What one owner left open, the next one commits."""
        await producer.introduce(two_phase=True)
        await producer.write("kept")
        await producer.commit_offset(4)
        await producer.introduce(two_phase=True, keep=True)
        await producer.end(commit=True)
        self.known.told.append("kept")

    async def use_up(self, producer: Producer) -> None:
        """Begin anew at the last epoch but one; the end (v2) or the next introduction gives another producer id."""
        await producer.introduce()
        self.is_listening = False
        assert self.broker is not None
        assert self.broker.parts.transactions.host.tell(0, _at_the_last_but_one) is ErrorCode.NONE
        self.is_listening = True
        await producer.introduce()
        before = producer.producer_id
        assert producer.producer_epoch == EPOCH_LAST
        await self.transact(producer, "at the last epoch", 5)
        if self.protocol == "v1":
            await producer.introduce()
        assert (producer.producer_id == before, producer.producer_epoch) == (False, 0)


def _at_the_last_but_one(shard: TransactionShard, _now_ms: int) -> Outcome[TransactionEffect]:
    known = shard.get(ID)
    assert known is not None
    return Outcome(rows=[transaction_rows.row_of(known._replace(producer_epoch=EPOCH_LAST - 1))])


def what_is(log: PartitionLog, data: bytes, header: BatchHeader) -> str:
    """An append in words: `orders: records`, `__transaction_state: PrepareCommit`."""
    topic = log.topic_partition.topic
    if header.is_control:
        return f"{topic}: marker"
    if topic != transaction_rows.TOPIC:
        return f"{topic}: records"
    rows = [transaction_rows.FORMAT.decode(record) for record in iter_records(data, 0, header)]
    found = [_row_in_words(transaction_rows.transaction_of(row)) for row in rows if row is not None]
    return f"{topic}: " + ", ".join(found)


def _row_in_words(row: Transaction | None) -> str:
    if row is None:
        return "forgotten"
    if row.is_kept:
        return f"{row.state.name}, kept"
    changes = row.next_producer_id != NO_PRODUCER_ID or row.previous_producer_id not in (
        NO_PRODUCER_ID,
        row.producer_id,
    )
    return f"{row.state.name}, another producer id" if changes else row.state.name


@pytest.mark.mission("TXP-12")
@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_a_kill_after_any_append_leaves_all_or_nothing(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds: list[ByAppend] = []
    write = PartitionLog._write

    def write_and_tell(log: PartitionLog, data: bytes, header: BatchHeader, *rest: Any) -> Any:
        refused = write(log, data, header, *rest)  # type: ignore[arg-type]  # a buffer, as it came
        worlds[-1].appended(log, bytes(data), header)
        return refused

    monkeypatch.setattr(PartitionLog, "_write", write_and_tell)
    worlds.append(ByAppend(protocol))
    worlds[0].run()
    points = worlds[0].appends
    assert worlds[0].known.told == ["before", "disturbed", "kept", "at the last epoch", "after"]
    kinds = Counter(points)
    state = f"{transaction_rows.TOPIC}: "
    assert kinds["orders: records"] == kinds["orders: marker"] == 6 * PARTITIONS
    assert kinds["__consumer_offsets: records"] == kinds["__consumer_offsets: marker"] == 6
    commits = [point for point in points if point.startswith(state + "PREPARE_COMMIT")]
    assert len(commits) == 3
    assert kinds[state + "COMPLETE_ABORT"] == 3
    assert kinds[state + "ONGOING"] >= 6
    assert kinds[state + "EMPTY"] >= 1
    assert kinds[state + "ONGOING, kept"] == kinds[state + "PREPARE_COMMIT, kept"] == 1
    assert kinds[state + "forgotten"] == 1
    rotations = ("EMPTY",) if protocol == "v1" else ("PREPARE_COMMIT", "COMPLETE_COMMIT")
    for rotation in rotations:
        assert kinds[f"{state}{rotation}, another producer id"] == 1
    for number, point in enumerate(points):
        worlds.append(ByAppend(protocol, die_after=number))
        worlds[-1].run()
        assert worlds[-1].deaths == 1, point
        assert worlds[-1].appends[: number + 1] == points[: number + 1]
