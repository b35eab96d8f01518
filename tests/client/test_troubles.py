"""No client waits in silence: within a second the log names what is missing and the way out, then less and less often.

Method: the pure bookkeeping on a clock of its own; then real clients in a simulation, whose virtual time says when each line
came, against nobody, against a broker that lacks something, and against one that comes back.
"""

import asyncio
import itertools
import logging
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import semel
from semel.client.admin.client import AsyncAdmin
from semel.client.consumer.consumer import AsyncConsumer
from semel.client.producer.producer import AsyncProducer
from semel.client.troubles import Kind, Troubles
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.core.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from semel.errors import ErrorCode
from semel.net.listener import Listener
from semel.runtime.bundle import Runtime
from support.broker.fake_broker import FakeBroker, led, metadata, unknown
from support.net.net_worlds import in_simulation

NOBODY = "127.0.0.1:9"
HERE = "127.0.0.1:9092"
Story = Callable[[Runtime], Coroutine[Any, Any, None]]


class Heard(logging.Handler):
    """What the log was told, and when."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[int, str]] = []
        self.now_ms: Callable[[], int] = lambda: 0

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((self.now_ms(), record.getMessage()))

    def of(self, words: str) -> list[tuple[int, str]]:
        return [one for one in self.lines if words in one[1]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler = Heard()
    logger = logging.getLogger("semel")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def told(heard: Heard, story: Story) -> None:
    async def run(runtime: Runtime) -> None:
        heard.now_ms = runtime.clock.monotonic_ms
        await story(runtime)

    in_simulation(run)


# The bookkeeping


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def troubles(clock: Clock, *, retry_backoff_ms: int = 100) -> Troubles:
    return Troubles(clock, who="me", retry_backoff_ms=retry_backoff_ms)


def test_a_trouble_is_said_within_a_second_and_then_ever_less_often(heard: Heard) -> None:
    clock = heard.now_ms = Clock()
    book = troubles(clock)
    for clock.now_ms in range(0, 300_000, 100):
        book.met(Kind.TOPIC, "orders", "topic orders does not exist", "create it")
    moments = [ms for ms, _ in heard.lines]
    assert moments[0] < 1000
    pauses = [round((after - before) / 1000) for before, after in itertools.pairwise(moments)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert heard.lines[0][1] == "me: topic orders does not exist: create it"
    assert heard.lines[1][1].endswith("[for 1 s now]")


def test_what_passes_at_once_is_not_said_and_what_is_over_is_said_once(heard: Heard) -> None:
    clock = Clock()
    book = troubles(clock)
    for clock.now_ms in range(0, 60_000, 600):  # Each of them passes before the next.
        book.met(Kind.CLUSTER, "c", "nobody listens")
        book.over(Kind.CLUSTER)
    assert heard.lines == []
    for clock.now_ms in range(60_000, 65_000, 100):
        book.met(Kind.CLUSTER, "c", "nobody listens")
    book.over(Kind.CLUSTER)
    book.over(Kind.CLUSTER)
    assert [text for _, text in heard.lines][-1] == "me: c can be reached again, after 4 s"
    assert len(heard.of("again")) == 1


def test_long_pauses_do_not_put_the_first_line_off(heard: Heard) -> None:
    troubles(Clock(), retry_backoff_ms=5000).met(Kind.CLUSTER, "c", "nobody listens")
    assert len(heard.lines) == 1


def test_many_of_a_kind_share_one_line_and_their_number_is_bounded(heard: Heard) -> None:
    clock = Clock()
    book = troubles(clock)
    for clock.now_ms in (0, 700):
        for number in range(1000):
            book.met(Kind.RECORDS, f"t-{number}", f"t-{number} is not stored")
    assert [text for _, text in heard.lines] == ["me: t-0 is not stored (and 99 more like it)"]
    assert sum(len(subjects) for subjects in book._kinds.values()) <= 100


def test_a_trouble_that_comes_back_after_long_is_a_new_one(heard: Heard) -> None:
    clock = heard.now_ms = Clock()
    book = troubles(clock)
    for began_ms in (
        0,
        1_000_000,
    ):  # The first is never said to be over: nobody asked for the topic any more.
        heard.lines.clear()
        for clock.now_ms in range(began_ms, began_ms + 20_000, 100):
            book.met(Kind.TOPIC, "orders", "topic orders does not exist")
        assert len(heard.lines) == 5


def test_brokers_are_not_spoken_of_while_the_cluster_is_out_of_reach(heard: Heard) -> None:
    clock = Clock()
    book = troubles(clock)
    for clock.now_ms in range(0, 3000, 100):
        book.met(Kind.BROKER, "b:1", "b:1: nobody listens")
        book.met(Kind.CLUSTER, "c", "no broker can be reached")
    assert heard.of("b:1") == []
    assert len(heard.of("no broker can be reached")) == 2


def test_the_last_error_is_one_of_the_call(heard: Heard) -> None:
    clock = Clock()
    book = troubles(clock)
    book.met(Kind.TOPIC, "t", "topic t does not exist")
    assert book.last(0) == book.last(1) == "; the last error: topic t does not exist"
    book.over(Kind.TOPIC, "t")
    assert book.last(0)
    assert not book.last(1)
    book.met(Kind.TOPIC, "t", "topic t does not exist")
    clock.now_ms = 10_000
    assert not book.last(9_000), "nobody has asked for it for long"
    assert heard.lines == []


# Nobody there


def test_a_consumer_of_nobody_says_so(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        async with AsyncConsumer(bootstrap_servers=NOBODY, group_id="g", runtime=runtime) as consumer:
            consumer.subscribe(["orders"])
            for _ in range(200):
                await consumer.poll(200)

    told(heard, story)
    lines = heard.of(f"no broker of {NOBODY} can be reached")
    assert lines[0][0] < 1000
    assert "start a broker there, or set bootstrap.servers" in lines[0][1]
    assert 5 <= len(lines) <= 7, "40 s: after 1, 2, 4, 8, 16 s"
    assert len(lines) == len(heard.lines), "three connections of one client, one line"


def test_a_loop_over_a_consumer_says_so_too(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        async with AsyncConsumer(bootstrap_servers=NOBODY, runtime=runtime) as consumer:
            consumer.assign([("orders", 0)])

            async def loop() -> None:
                async for _record in consumer:
                    raise AssertionError("records of nobody")

            task = runtime.tasks.spawn(loop(), name="loop")
            await runtime.tasks.sleep(1)
            assert heard.of(f"no broker of {NOBODY} can be reached")
            task.cancel()

    told(heard, story)


def test_every_timeout_of_a_consumer_names_the_last_error(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        async with AsyncConsumer(bootstrap_servers=NOBODY, group_id="g", runtime=runtime) as consumer:
            where = ("orders", 0)
            consumer.assign([where])
            calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
                lambda: consumer.position(where, timeout_ms=3000),
                lambda: consumer.committed([where], timeout_ms=3000),
                lambda: consumer.commit({where: 1}, timeout_ms=3000),
                lambda: consumer.list_topics(timeout_ms=3000),
                lambda: consumer.partitions_for("orders", timeout_ms=3000),
                lambda: consumer.end_offsets([where], timeout_ms=3000),
            ]
            for call in calls:
                with pytest.raises(semel.TimeoutException, match=f"no broker of {NOBODY} can be reached"):
                    await call()

    told(heard, story)


def test_a_producer_of_nobody_says_so_and_its_timeout_does(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        async with AsyncProducer(bootstrap_servers=NOBODY, max_block_ms=5000, runtime=runtime) as producer:
            with pytest.raises(semel.TimeoutException, match=f"nobody listens at {NOBODY}"):
                await producer.send("orders", b"x")

    told(heard, story)
    assert heard.of(f"no broker of {NOBODY} can be reached")[0][0] < 1000


def test_init_transactions_without_a_broker_says_so(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        settings: dict[str, str | int] = {
            "bootstrap.servers": NOBODY,
            "transactional.id": "x",
            "max.block.ms": 5000,
        }
        async with AsyncProducer(settings, runtime=runtime) as producer:
            with pytest.raises(semel.TimeoutException, match=f"nobody listens at {NOBODY}"):
                await producer.init_transactions()

    told(heard, story)
    assert heard.of(f"no broker of {NOBODY} can be reached")[0][0] < 1000


def test_a_producer_of_a_broker_that_never_answers_waits_no_longer_than_it_says(heard: Heard) -> None:
    """`max.block.ms` was counted between attempts, and one attempt takes `request.timeout.ms`: half a minute."""

    async def story(runtime: Runtime) -> None:
        listener = Listener(runtime, lambda _frame, _connection: asyncio.get_running_loop().create_future())
        await listener.start("127.0.0.1", 9092)
        settings: dict[str, str | int] = {"bootstrap.servers": HERE, "max.block.ms": 5000}
        calls: list[tuple[dict[str, str | int], Callable[[AsyncProducer], Coroutine[Any, Any, object]]]] = [
            (settings, lambda producer: producer.send("orders", b"x")),
            (settings, lambda producer: producer.partitions_for("orders")),
            ({**settings, "transactional.id": "x"}, lambda producer: producer.init_transactions()),
        ]
        for given, call in calls:
            began_ms = runtime.clock.monotonic_ms()
            async with AsyncProducer(given, runtime=runtime) as producer:
                with pytest.raises(semel.TimeoutException, match=rf"5000 ms.*{HERE} gave no answer"):
                    await call(producer)
                assert 4000 <= runtime.clock.monotonic_ms() - began_ms <= 5100
        # With next to no time of its own it gets a connection all the same, if there is one to be had.
        async with AsyncProducer({**settings, "max.block.ms": 0}, runtime=runtime) as producer:
            began_ms = runtime.clock.monotonic_ms()
            with pytest.raises(semel.TimeoutException, match="0 ms"):
                await producer.send("orders", b"x")
            assert 900 <= runtime.clock.monotonic_ms() - began_ms <= 1100
        await listener.close()

    told(heard, story)


def test_an_admin_client_raises_at_once_and_does_not_say_it_twice(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        async with AsyncAdmin(bootstrap_servers=NOBODY, runtime=runtime) as admin:
            with pytest.raises(semel.NetworkException, match=f"nobody listens at {NOBODY}"):
                await admin.create_topics(["orders"])
            assert runtime.clock.monotonic_ms() < 1000

    told(heard, story)
    assert heard.lines == []


# A broker that lacks something


class Lacking:
    """A broker without a topic, a coordinator or room on its disk, for as long as it is told."""

    def __init__(self) -> None:
        self.has_topic = True
        self.coordinator = ErrorCode.NONE
        self.produce = ErrorCode.NONE
        self.init = self.end = ErrorCode.NONE
        self.commit = ErrorCode.NONE
        self.broker = FakeBroker(self)

    def __call__(self, request: Request[Any]) -> Response | None:
        match request:
            case MetadataRequest():
                names = [one.name or "" for one in request.topics or []]
                return metadata(*(led(name) if self.has_topic else unknown(name) for name in names))
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(
                    node_id=1, host="127.0.0.1", port=9092, error_code=self.coordinator
                )
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=7, producer_epoch=0, error_code=self.init)
            case EndTxnRequest():
                return EndTxnResponse(error_code=self.end)
            case OffsetCommitRequest():
                part = OffsetCommitResponsePartition(partition_index=0, error_code=self.commit)
                return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])
            case ProduceRequest():
                return self._produced(request)
            case ListOffsetsRequest():
                return ListOffsetsResponse()
            case _:
                raise AssertionError(request)

    def _produced(self, request: ProduceRequest) -> ProduceResponse:
        message = None if not self.produce else "No space left on device: orders-0"
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=one.index, error_code=self.produce, error_message=message
                        )
                        for one in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )


def with_broker(heard: Heard, play: Callable[[Runtime, Lacking], Coroutine[Any, Any, None]]) -> None:
    async def story(runtime: Runtime) -> None:
        lacking = Lacking()
        listener = await lacking.broker.listen(runtime)
        await play(runtime, lacking)
        await listener.close()

    told(heard, story)


def test_a_consumer_of_a_missing_topic_says_so_and_says_when_it_is_there(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.has_topic = False
        async with AsyncConsumer(bootstrap_servers=HERE, runtime=runtime) as consumer:
            consumer.assign([("orders", 0)])
            await consumer.poll(900)
            (line,) = heard.of(f"topic orders does not exist at {HERE}")
            assert "create it, or correct its name" in line[1]
            with pytest.raises(semel.TimeoutException, match="topic orders does not exist"):
                await consumer.position(("orders", 0), timeout_ms=500)
            lacking.has_topic = True
            await consumer.poll(2000)
            assert len(heard.of("topic orders is there")) == 1

    with_broker(heard, play)


def test_a_consumer_without_a_coordinator_says_so(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.coordinator = ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with AsyncConsumer(bootstrap_servers=HERE, group_id="g", runtime=runtime) as consumer:
            consumer.subscribe(["orders"])
            await consumer.poll(1000)
            (line,) = heard.of("group g")
            assert "COORDINATOR_NOT_AVAILABLE" in line[1]
            assert len(heard.lines) == 1

    with_broker(heard, play)


def test_a_commit_that_is_put_off_until_it_is_too_late_names_the_reason(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.commit = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        async with AsyncConsumer(bootstrap_servers=HERE, group_id="g", runtime=runtime) as consumer:
            consumer.assign([("t", 0)])
            with pytest.raises(semel.TimeoutException, match="COORDINATOR_LOAD_IN_PROGRESS"):
                await consumer.commit({("t", 0): 5}, timeout_ms=3000)

    with_broker(heard, play)
    assert heard.of("COORDINATOR_LOAD_IN_PROGRESS")[0][0] < 1000


def test_a_pattern_without_topics_says_so(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.coordinator = ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with AsyncConsumer(bootstrap_servers=HERE, group_id="g", runtime=runtime) as consumer:
            consumer.subscribe(pattern=re.compile("orders-.*"))
            await consumer.poll(900)
            (line,) = heard.of("no topic of")
            assert "matches the pattern 'orders-.*'" in line[1]

    with_broker(heard, play)


def test_a_producer_of_a_missing_topic_says_so(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.has_topic = False
        async with AsyncProducer(bootstrap_servers=HERE, max_block_ms=3000, runtime=runtime) as producer:
            with pytest.raises(semel.TimeoutException, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await producer.send("orders", b"x")
        lines = heard.of(f"topic orders does not exist at {HERE}")
        assert lines[0][0] < 1000

    with_broker(heard, play)


def test_a_partition_that_is_not_there_is_spoken_of(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        async with AsyncProducer(bootstrap_servers=HERE, max_block_ms=3000, runtime=runtime) as producer:
            with pytest.raises(semel.TimeoutException, match="Partition 3 of topic orders"):
                await producer.send("orders", b"x", partition=3)
        assert heard.of("topic orders has the partitions 0 to 0, and no 3")[0][0] < 1000

    with_broker(heard, play)


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_an_expired_record_names_what_the_broker_said_last(heard: Heard, code: ErrorCode) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.produce = code
        settings: dict[str, str | int] = {
            "bootstrap.servers": HERE,
            "delivery.timeout.ms": 5000,
            "request.timeout.ms": 1000,
        }
        async with AsyncProducer({**settings, "linger.ms": 0}, runtime=runtime) as producer:
            future = await producer.send("orders", b"x")
            with pytest.raises(semel.TimeoutException) as expired:
                await future
        assert f"the last error: {code.name}: No space left on device: orders-0" in str(expired.value)
        line = heard.of("does not store records for orders-0")[0]
        assert line[0] < 1200
        assert f"{code.name}: No space left on device" in line[1]

    with_broker(heard, play)


def test_a_full_disk_that_gets_room_is_over(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.produce = ErrorCode.KAFKA_STORAGE_ERROR
        async with AsyncProducer(bootstrap_servers=HERE, linger_ms=0, runtime=runtime) as producer:
            future = await producer.send("orders", b"x")
            await runtime.tasks.sleep(3)
            lacking.produce = ErrorCode.NONE
            await future
        assert len(heard.of("orders-0 takes records again")) == 1

    with_broker(heard, play)


def test_a_record_whose_broker_is_gone_names_it_when_nobody_waits_any_longer(heard: Heard) -> None:
    async def story(runtime: Runtime) -> None:
        lacking = Lacking()
        listener = await lacking.broker.listen(runtime)
        settings: dict[str, str | int] = {"bootstrap.servers": HERE, "linger.ms": 0}
        settings |= {"delivery.timeout.ms": 5000, "request.timeout.ms": 1000}
        async with AsyncProducer(settings, runtime=runtime) as producer:
            await (await producer.send("orders", b"x"))
            await listener.close()
            future = await producer.send("orders", b"y")
            await runtime.tasks.sleep(2)
            assert "127.0.0.1:9092" in future._batch.trouble
            with pytest.raises(semel.TimeoutException, match=r"the last error: .*127\.0\.0\.1:9092"):
                await future

    told(heard, story)
    assert heard.of("no broker of")[0][0] < 1500


def test_a_record_that_is_closed_upon_names_the_last_error(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        lacking.produce = ErrorCode.KAFKA_STORAGE_ERROR
        producer = AsyncProducer(bootstrap_servers=HERE, linger_ms=0, runtime=runtime)
        future = await producer.send("orders", b"x")
        await producer.close(timeout=3)
        with pytest.raises(semel.KafkaException, match=r"closed before.*KAFKA_STORAGE_ERROR"):
            await future

    with_broker(heard, play)


def test_a_transaction_that_waits_for_its_coordinator_says_why(heard: Heard) -> None:
    async def play(runtime: Runtime, lacking: Lacking) -> None:
        settings: dict[str, str | int] = {
            "bootstrap.servers": HERE,
            "transactional.id": "x",
            "max.block.ms": 4000,
        }
        async with AsyncProducer(settings, runtime=runtime) as producer:
            lacking.init = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            with pytest.raises(semel.TimeoutException, match="COORDINATOR_LOAD_IN_PROGRESS"):
                await producer.init_transactions()
            assert heard.of("TransactionalId x")[0][0] < 1100
            lacking.init = ErrorCode.NONE
            await producer.init_transactions()
            assert heard.of("TransactionalId x goes on")

    with_broker(heard, play)
