"""What the producer does about each answer, and about none: retries, order, epochs, time-outs, memory.

Method: the real producer in a simulation, on virtual time, against a broker that answers by script (`fake_broker`) and keeps
every batch it was sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

import semel
from semel.client.partitioner import partition_for_key
from semel.client.producer.future import SendFuture
from semel.client.producer.producer import AsyncProducer
from semel.core.records import batch as batches
from semel.core.records.batch import BatchHeader
from semel.core.records.build import iter_records
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from support.broker.fake_broker import FakeBroker, led, metadata, unknown
from support.net.net_worlds import in_simulation

LOSE = "the connection ends before the answer"
BUSY = ErrorCode.NOT_ENOUGH_REPLICAS
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
Answer = ErrorCode | str


class Script:
    """Answers Produce as it is told, and then with success; knows topics of some partitions."""

    def __init__(self, *answers: Answer, partitions: int = 1) -> None:
        self.answers = deque(answers)
        self.partitions = partitions
        self.sent: list[tuple[int, BatchHeader, list[bytes | None]]] = []
        self.ends: dict[int, int] = {}
        self.request_sizes: list[int] = []
        """Bytes of records in every Produce."""
        self.producer_ids = 0
        self.missing = 0
        """How often a topic is not known yet."""
        self.log_append_time_ms = -1
        self.broker = FakeBroker(self)

    def __call__(self, request: Request[Any]) -> Response | None:
        match request:
            case MetadataRequest():
                return metadata(*(self._topic(one.name or "") for one in request.topics or []))
            case InitProducerIdRequest():
                self.producer_ids += 1
                return InitProducerIdResponse(producer_id=100 + self.producer_ids, producer_epoch=0)
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=9092)
            case AddPartitionsToTxnRequest():
                return AddPartitionsToTxnResponse(
                    results_by_topic_v3_and_below=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(partition_index=one)
                                for one in topic.partitions
                            ],
                        )
                        for topic in request.v3_and_below_topics
                    ]
                )
            case EndTxnRequest():
                return EndTxnResponse()
            case ProduceRequest():
                self.request_sizes.append(
                    sum(
                        len(one.records or b"")
                        for topic in request.topic_data
                        for one in topic.partition_data
                    )
                )
                return self._produce(request)
            case _:
                raise AssertionError(request)

    def _topic(self, name: str) -> MetadataResponseTopic:
        if self.missing:
            self.missing -= 1
            return unknown(name)
        topic = led(name)
        topic.partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(self.partitions)
        ]
        return topic

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        answer: Answer = self.answers.popleft() if self.answers else ErrorCode.NONE
        responses = []
        for topic in request.topic_data:
            results = []
            for one in topic.partition_data:
                data = bytes(one.records or b"")
                header = batches.read_header(data)
                values = [record.value for record in iter_records(data, 0, header)]
                self.sent.append((one.index, header, values))
                base = self.ends.get(one.index, 0)
                code = answer if isinstance(answer, ErrorCode) else ErrorCode.NONE
                if code is ErrorCode.NONE:
                    self.ends[one.index] = base + header.records_count
                results.append(
                    PartitionProduceResponse(
                        index=one.index,
                        error_code=code,
                        base_offset=-1 if code else base,
                        log_append_time_ms=self.log_append_time_ms,
                    )
                )
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
            )
        return None if answer == LOSE else ProduceResponse(responses=responses)

    @property
    def values(self) -> list[list[bytes | None]]:
        return [values for _partition, _header, values in self.sent]

    @property
    def sequences(self) -> list[tuple[int, int]]:
        """(epoch, base sequence) of every batch that came."""
        return [(header.producer_epoch, header.base_sequence) for _partition, header, _values in self.sent]


Story = Callable[[AsyncProducer, Runtime], Coroutine[Any, Any, None]]


def tell(script: Script, story: Story, **settings: Any) -> None:
    """A story of a producer of this broker; it is closed at the end."""

    async def run(runtime: Runtime) -> None:
        listener = await script.broker.listen(runtime)
        given = {"bootstrap_servers": "127.0.0.1:9092", "client_id": "c", "linger_ms": 0, **settings}
        producer = AsyncProducer(runtime=runtime, **given)
        await story(producer, runtime)
        await producer.close()
        await runtime.tasks.sleep(1)  # What nobody answers may still be on its way.
        await listener.close()

    in_simulation(run)


async def sent(producer: AsyncProducer, *values: bytes) -> list[SendFuture]:
    """Records, each in a batch of its own."""
    futures = []
    for value in values:
        futures.append(await producer.send("t", value, partition=0))
        await producer.flush()
    return futures


# Retries


@pytest.mark.parametrize("answer", [BUSY, MOVED, LOSE, ErrorCode.REQUEST_TIMED_OUT])
def test_what_may_pass_is_sent_again_under_the_same_sequence(answer: Answer) -> None:
    script = Script(ErrorCode.NONE, answer, answer)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        await sent(producer, b"first")
        (future,) = await sent(producer, b"v")
        assert (await future).partition == 0
        assert producer.metrics()["record-retry-total"] == 2

    tell(script, story)
    assert script.values == [[b"first"], [b"v"], [b"v"], [b"v"]]
    assert script.sequences == [(0, 0), (0, 1), (0, 1), (0, 1)]


@pytest.mark.mission("PROD-04", "CFG-18")
def test_retries_their_pauses_and_the_time_for_delivery_are_bounded() -> None:
    script = Script(*[BUSY] * 4)

    async def retried(producer: AsyncProducer, runtime: Runtime) -> None:
        since = runtime.clock.monotonic_ms()
        (future,) = await sent(producer, b"v")
        with pytest.raises(semel.NotEnoughReplicasException, match="after 4 attempts"):
            await future
        took = runtime.clock.monotonic_ms() - since
        assert 0.8 * (50 + 100 + 200) <= took <= 1.2 * (50 + 100 + 200) + 50, (
            "50 ms, and twice that each time"
        )

    tell(script, retried, retries=3, retry_backoff_ms=50)
    assert len(script.sent) == 4

    script = Script(*[BUSY] * 1000)

    async def timed_out(producer: AsyncProducer, runtime: Runtime) -> None:
        since = runtime.clock.monotonic_ms()
        (future,) = await sent(producer, b"v")
        with pytest.raises(semel.TimeoutException, match="2000 ms has passed"):
            await future
        assert 2000 <= runtime.clock.monotonic_ms() - since < 2100

    tell(script, timed_out, delivery_timeout_ms=2000, request_timeout_ms=1000)
    assert 4 <= len(script.sent) < 10


def test_what_nobody_takes_expires_without_having_been_sent() -> None:
    async def run(runtime: Runtime) -> None:
        script = Script()
        listener = await script.broker.listen(runtime)
        producer = AsyncProducer(
            bootstrap_servers="127.0.0.1:9092",
            runtime=runtime,
            delivery_timeout_ms=3000,
            request_timeout_ms=1000,
            linger_ms=0,
        )
        await producer._engine.topics.fetch("t", None, 1000)
        await listener.close()
        producer._engine.cluster.close()
        future = await producer.send("t", b"v", partition=0)
        with pytest.raises(semel.TimeoutException, match="without having been sent"):
            await future
        await producer.close()

    in_simulation(run)


@pytest.mark.mission("IDEM-25", "R-02")
def test_a_missing_sequence_fails_its_batch_and_the_producer_goes_on_under_a_new_epoch() -> None:
    script = Script(ErrorCode.NONE, OUT_OF_ORDER)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        first, lost, third = await sent(producer, b"1", b"2", b"3")
        assert (await first).offset == 0
        with pytest.raises(semel.OutOfOrderSequenceException):
            await lost
        assert (await third).offset == 1

    tell(script, story)
    assert script.sequences == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.mission("IDEM-24")
def test_with_the_fatal_policy_a_missing_sequence_is_the_end_of_the_producer() -> None:
    script = Script(ErrorCode.NONE, OUT_OF_ORDER)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        _first, lost = await sent(producer, b"1", b"2")
        with pytest.raises(semel.OutOfOrderSequenceException):
            await lost
        with pytest.raises(semel.IllegalStateException, match="cannot go on"):
            await producer.send("t", b"3")

    tell(script, story, sequence_error_policy="fatal")
    assert len(script.sent) == 2

    transactional = Script(ErrorCode.NONE, OUT_OF_ORDER)

    async def in_a_transaction(producer: AsyncProducer, _runtime: Runtime) -> None:
        await producer.init_transactions()
        await producer.begin_transaction()
        _first, lost = await sent(producer, b"1", b"2")
        with pytest.raises(semel.OutOfOrderSequenceException):
            await lost
        for call in (
            lambda: producer.send("t", b"3"),
            producer.commit_transaction,
            producer.begin_transaction,
            producer.abort_transaction,
        ):
            with pytest.raises(semel.IllegalStateException, match="cannot go on"):
                await call()

    tell(transactional, in_a_transaction, sequence_error_policy="fatal", transactional_id="id")


@pytest.mark.parametrize(
    ("code", "kind", "goes_on"),
    [
        (OUT_OF_ORDER, semel.OutOfOrderSequenceException, True),
        (ErrorCode.INVALID_PRODUCER_EPOCH, semel.InvalidProducerEpochException, True),
        (ErrorCode.PRODUCER_FENCED, semel.ProducerFencedException, False),
        (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            semel.TransactionalIdAuthorizationException,
            False,
        ),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_a_block_says_whether_its_producer_goes_on(
    code: ErrorCode, kind: type[semel.KafkaException], goes_on: bool, waits: bool
) -> None:
    script = Script(ErrorCode.NONE, code)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        await producer.init_transactions()

        async def block() -> None:
            async with producer.transaction():
                await (await producer.send("t", b"1"))
                second = await producer.send("t", b"2")
                if waits:
                    await second

        with pytest.raises(kind) as raised:
            await block()
        assert (raised.value.abortable, raised.value.fatal) == (goes_on, not goes_on)
        assert producer.is_ready is goes_on
        if goes_on:
            async with producer.transaction():
                await producer.send("t", b"3")

    tell(script, story, transactional_id="id")


def test_a_block_ends_with_what_ended_its_producer() -> None:
    script = Script(ErrorCode.NONE, OUT_OF_ORDER)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        await producer.init_transactions()

        async def block() -> None:
            async with producer.transaction():
                await (await producer.send("t", b"1"))
                await producer.send("t", b"2")

        with pytest.raises(semel.OutOfOrderSequenceException) as raised:
            await block()
        assert (raised.value.abortable, raised.value.fatal) == (False, True)
        with pytest.raises(semel.IllegalStateException, match="cannot go on"):
            await producer.begin_transaction()

    tell(script, story, sequence_error_policy="fatal", transactional_id="id")


def test_a_batch_nobody_can_write_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Arguments are checked before; here something gets past them."""
    script = Script(partitions=2)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        (first,) = await sent(producer, b"1")
        known = producer._engine.topics.get("t")
        assert known is not None
        for partition in (0, 1):
            unwritable: Any = 1.5
            bad = producer._engine.outbox.append(known, partition, None, b"bad", unwritable, ())
            after = await producer.send("t", b"after", partition=partition)
            other = await producer.send("t", b"other", partition=1 - partition)
            assert bad is not None
            for lost in (bad, after):  # They are in one batch.
                with pytest.raises(semel.InvalidRecordException, match="cannot be written: TypeError"):
                    await lost
            assert (await other).offset >= 0
        assert [(await one).offset for one in await sent(producer, b"2", b"3")] == [2, 3]
        assert (await first).offset == 0

    tell(script, story, linger_ms=5)
    assert [b"bad"] not in script.values
    numbers = [(header.producer_epoch, header.base_sequence) for at, header, _ in script.sent if at == 0]
    assert numbers == [(0, 0), (1, 0), (2, 0), (2, 1)], "what was not sent leaves no gap"
    assert "cannot be written" in caplog.text


@pytest.mark.mission("IDEM-22")
def test_a_duplicate_is_a_success_without_an_offset_that_only_metrics_show() -> None:
    script = Script(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        (future,) = await sent(producer, b"v")
        stored = await future
        assert (stored.offset, stored.has_offset) == (-1, False)
        assert producer.metrics()["record-error-total"] == 1

    tell(script, story)


def test_a_batch_the_broker_finds_too_large_goes_in_two_and_every_record_knows_its_place() -> None:
    script = Script(ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE)
    told = list[int]()

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        await sent(producer, b"first")
        producer._engine.outbox.accumulator._linger_ms = 50
        futures = [
            await producer.send(
                "t", b"%d" % n, partition=0, callback=lambda m, _e: told.append(m.offset if m else -9)
            )
            for n in range(4)
        ]
        assert [(await future).offset for future in futures] == [1, 2, 3, 4]
        assert producer.metrics()["batch-split-total"] == 2

    tell(script, story)
    assert script.values == [[b"first"], [b"0", b"1", b"2", b"3"], [b"0", b"1"], [b"0"], [b"1"], [b"2", b"3"]]
    assert [sequence for _epoch, sequence in script.sequences] == [0, 1, 1, 1, 2, 3]
    assert sorted(told) == [1, 2, 3, 4]


def test_no_request_is_larger_than_it_may_be() -> None:
    """Neither one of batches that a commit hands over together, nor one of batches that are sent again."""
    partitions, size = 20, 1_000
    script = Script(LOSE, BUSY, LOSE, partitions=partitions)

    async def in_a_transaction(producer: AsyncProducer, _runtime: Runtime) -> None:
        await producer.init_transactions()
        async with producer.transaction():
            for index in range(partitions):
                await producer.send("t", b"x" * size, partition=index)

    async def sent_again(producer: AsyncProducer, _runtime: Runtime) -> None:
        await sent(producer, b"first")
        for index in range(partitions):
            await producer.send("t", b"x" * size, partition=index)
        script.answers.extend([BUSY] * 5)
        await producer.flush()

    for story, more in ((in_a_transaction, {"transactional_id": "x"}), (sent_again, {})):
        script.request_sizes.clear()
        tell(script, story, max_request_size=5_000, linger_ms=1_000, delivery_timeout_ms=60_000, **more)
        assert size < max(script.request_sizes) <= 5_000, "they are put together, as far as that is allowed"


def test_one_record_that_is_too_large_fails() -> None:
    script = Script(ErrorCode.MESSAGE_TOO_LARGE)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        failed, fine = await sent(producer, b"v", b"w")
        with pytest.raises(semel.RecordTooLargeException):
            await failed
        assert (await fine).offset == 0

    tell(script, story)


def test_a_close_that_is_cancelled_ends_the_producer_all_the_same() -> None:
    script = Script(*[BUSY] * 1_000)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        told: list[BaseException | None] = []
        waiting = await producer.send("t", b"v", callback=lambda _metadata, error: told.append(error))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.close(), 1)
        assert waiting.done(), "somebody waits for it for ever"
        assert len(told) == 1
        with pytest.raises(semel.KafkaException, match="closed before the records were stored"):
            await waiting
        assert producer._engine._task is not None
        assert producer._engine._task.done(), "it goes on sending"

    tell(script, story)


def test_times_of_the_broker_are_told() -> None:
    script = Script()
    script.log_append_time_ms = 777

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        future = await producer.send("t", b"v", timestamp=5)
        assert (await future).timestamp == 777

    tell(script, story)


@pytest.mark.parametrize("acks", [0, 1])
def test_without_idempotence_nothing_is_numbered(acks: int) -> None:
    script = Script()

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        (future,) = await sent(producer, b"v")
        assert (await future).offset == (-1 if acks == 0 else 0)

    tell(script, story, acks=acks, enable_idempotence=False)
    assert script.sequences == [(-1, -1)]
    assert script.producer_ids == 0


# Identity


@pytest.mark.mission("IDEM-15")
def test_the_producer_id_is_fetched_by_the_sender_when_there_is_something_to_send() -> None:
    script = Script()

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        producer._start()
        await runtime.tasks.sleep(5)
        assert script.producer_ids == 0, "making it does not ask for anything"
        await sent(producer, b"v")
        kinds = [type(one) for one in script.broker.asked]
        assert kinds.index(InitProducerIdRequest) < kinds.index(ProduceRequest)

    tell(script, story)
    assert script.producer_ids == 1

    transactional = Script()

    async def refused(producer: AsyncProducer, runtime: Runtime) -> None:
        producer._start()
        await runtime.tasks.sleep(5)
        with pytest.raises(semel.IllegalStateException, match="init_transactions first"):
            await producer.send("t", b"v")

    tell(transactional, refused, transactional_id="id")
    assert transactional.producer_ids == 0


@pytest.mark.mission("CFG-10", "CFG-31", "TXN-11")
def test_transactions_need_a_transactional_id() -> None:
    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        for call in (
            producer.init_transactions,
            producer.begin_transaction,
            lambda: producer.send_offsets_to_transaction({("t", 0): 1}, "g"),
            producer.commit_transaction,
            producer.abort_transaction,
        ):
            with pytest.raises(semel.IllegalStateException) as refused:
                await call()
            assert (
                str(refused.value)
                == "Transactional method invoked on a non-transactional producer: set transactional.id."
            )

    tell(Script(), story)


# Topics


def test_a_topic_is_waited_for_and_missed_after_max_block_ms() -> None:
    script = Script()
    script.missing = 3

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        (future,) = await sent(producer, b"v")
        assert (await future).offset == 0
        script.missing = 10**6
        since = runtime.clock.monotonic_ms()
        with pytest.raises(semel.TimeoutException, match="Topic other not present in metadata after 2000 ms"):
            await producer.send("other", b"v")
        assert 1000 < runtime.clock.monotonic_ms() - since <= 2000
        with pytest.raises(
            semel.TimeoutException, match="Partition 7 of topic t with partition count 1 is not present"
        ):
            await producer.send("t", b"v", partition=7)

    tell(script, story, max_block_ms=2000)


def test_what_cannot_be_a_record_is_refused_at_once() -> None:
    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        for arguments, kind, text in (
            ({"partition": -1}, semel.IllegalArgumentException, "Invalid partition: -1"),
            ({"timestamp": -5}, semel.IllegalArgumentException, "Invalid timestamp: -5"),
            ({"headers": [("h", 3)]}, semel.IllegalArgumentException, "a header is a pair"),
            ({"value": 3}, semel.SerializationException, "neither bytes nor text"),
            ({"value": b"x" * (1 << 21)}, semel.RecordTooLargeException, "max.request.size allows"),
            ({"headers": {"h": b"x" * (1 << 21)}}, semel.RecordTooLargeException, "max.request.size allows"),
        ):
            with pytest.raises(kind, match=text):
                await producer.send("t", **cast("dict[str, Any]", {"value": b"v", **arguments}))
        with pytest.raises(semel.IllegalArgumentException, match="invalid topic name"):
            await producer.send("", b"v")

    async def known(producer: AsyncProducer, runtime: Runtime) -> None:
        await producer.partitions_for("t")
        await story(producer, runtime)

    for told in (story, known):
        script = Script()
        tell(script, told)
        assert not script.sent


# Memory and batches


async def fill(producer: AsyncProducer, futures: list[SendFuture]) -> None:
    for _ in range(100):
        futures.append(await producer.send("t", b"x" * 80, partition=0))  # noqa: PERF401 - what came before a failure counts


@pytest.mark.mission("CFG-15")
def test_a_full_buffer_blocks_for_max_block_ms_and_then_raises() -> None:
    script = Script(*[BUSY] * 100)

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        futures = list[SendFuture]()
        since = runtime.clock.monotonic_ms()
        with pytest.raises(semel.BufferExhaustedException, match="Total memory: 1000 bytes"):
            await fill(producer, futures)
        assert 500 <= runtime.clock.monotonic_ms() - since < 600
        assert len(futures) == 9
        assert producer.metrics()["buffer-exhausted-total"] == 1
        script.answers.clear()
        await producer.send("t", b"x" * 80, partition=0)
        for future in futures:
            await future

    tell(script, story, buffer_memory=1000, max_block_ms=500)


@pytest.mark.mission("CFG-14", "CFG-16", "R-10")
def test_batches_wait_for_linger_ms_at_most_and_hold_batch_size_at_most() -> None:
    default = semel.ProducerConfig.of(bootstrap_servers="localhost:9092")
    assert (default.linger_ms, default.batch_size, default.buffer_memory) == (5, 16384, 33554432)
    script = Script()

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        assert (producer.config["linger.ms"], producer.config["batch.size"]) == (300, 500)
        await producer._engine.topics.fetch("t", None, 1000)
        since = runtime.clock.monotonic_ms()
        future = await producer.send("t", b"alone", partition=0)
        await future
        assert 300 <= runtime.clock.monotonic_ms() - since < 400
        since = runtime.clock.monotonic_ms()
        futures = [await producer.send("t", b"x" * 90, partition=0) for _ in range(9)]
        await futures[7]
        assert runtime.clock.monotonic_ms() - since < 300, "full batches leave by themselves"
        assert not futures[8].done()
        await futures[8]

    tell(script, story, linger_ms=300, batch_size=500)
    assert [len(values) for values in script.values] == [1, 4, 4, 1]
    assert all(header.size_bytes <= 500 for _partition, header, _values in script.sent)


@pytest.mark.mission("PROD-07")
def test_a_callback_is_called_once_with_one_of_two_also_on_close() -> None:
    script = Script(ErrorCode.NONE, ErrorCode.INVALID_RECORD, *[BUSY] * 1000)
    told: list[tuple[bytes, bool, bool]] = []

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        def callback(name: bytes) -> Callable[[Any, Any], None]:
            return lambda metadata, error: told.append((name, metadata is not None, error is not None))

        for name in (b"stored", b"refused"):
            await producer.send("t", name, partition=0, callback=callback(name))
            await producer.flush()
        await producer.send("t", b"bad", partition=0, callback=lambda *_: 1 / 0)
        await producer.send("t", b"unfinished", partition=0, callback=callback(b"unfinished"))
        await runtime.tasks.sleep(1)
        await producer.close(timeout=0.5)
        with pytest.raises(semel.IllegalStateException, match="has been closed"):
            await producer.send("t", b"late")

    tell(script, story)
    assert told == [(b"stored", True, False), (b"refused", False, True), (b"unfinished", False, True)]


@pytest.mark.mission("PROD-01", "R-13")
def test_a_partition_that_is_named_wins_then_the_key_then_the_sticky_one() -> None:
    script = Script(partitions=7)

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        named = await (await producer.send("t", b"v", key=b"k", partition=2))
        keyed = await (await producer.send("t", b"v", key=b"k"))
        sticky = {(await (await producer.send("t", b"v"))).partition for _ in range(5)}
        assert named.partition == 2
        assert keyed.partition == partition_for_key(b"k", 7)
        assert len(sticky) == 1, "until batch.size bytes went there"

    tell(script, story)
