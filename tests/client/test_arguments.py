"""A wrong argument is refused by its name, and nothing ends with it: the client's next call works.

Method: objects of every kind are thrown at every argument of real clients on a real broker. Each call returns, or raises one of the
client's own exceptions; after it a good record goes through, or a good question is answered.
"""

import asyncio
import contextlib
import decimal
import re
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semel
from semel import aio
from semel.client import arguments
from semel.words import a, kind, shown
from support.compat.compat_kit import ThreadBroker, stored, values

pytestmark = pytest.mark.filterwarnings("ignore:.*has no time zone")
TIMEOUT = 30
TOPIC = "orders"
PLACE = (TOPIC, 0)
CALLS = settings(
    max_examples=150,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Unspeakable:
    """Has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class NoNumber:
    """Says it is a number, and is none."""

    def __index__(self) -> int:
        raise RuntimeError("no number")

    def __float__(self) -> float:
        raise RuntimeError("no number")


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


ODDITIES: tuple[Any, ...] = (
    *(Unspeakable(), NoNumber(), object(), released(), Ellipsis, NotImplemented, int, str, len),
    *(np.int64(3), np.int64(-3), np.uint64(2**64 - 1), np.float64(1.5), np.bool_(True), np.array([1, 2])),
    *(np.str_("text"), np.bytes_(b"bytes"), np.datetime64("2026-01-01")),
    *(decimal.Decimal("1.5"), decimal.Decimal("NaN"), Fraction(1, 3), 1j, uuid.UUID(int=7)),
    *(date(2026, 1, 1), timedelta(1), datetime(2026, 1, 1, tzinfo=UTC)),
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
    *("", " ", "\ud800", "a b", ".", "x" * 250, "0", "orders", b"orders", bytearray(b"x"), memoryview(b"x")),
    *(2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**70, -1, -(2**70), True, False, float("nan"), float("inf"), -0.0),
    *(("orders", 0), ("orders", "0"), ("orders", -1), ("orders",), (0, "orders"), [("orders", 0)], [None]),
    *({("orders", 0): 0}, {("orders", 0): "0"}, {"orders": 0}, {("orders", 0): None}, {"h": 1}, {"h": "v"}, {1: b""}),
    *([("h", b"v")], [("h",)], [("\ud800", b"v")], [(b"h", b"v")], ["ab"], {"h": bytearray(b"v")}, {"h": released()}),
    *({("orders", 0): (0,)}, {("orders", 0): (0, 5)}, {("orders", 0): semel.OffsetAndMetadata(-1)}),
    *(semel.OffsetAndMetadata(0, "\ud800"), semel.OffsetAndMetadata(True), semel.TopicPartition("orders", 0)),
)  # fmt: skip


class Odd:
    """A value that has a text, whatever it is."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Odd({shown(self.value)})"


anything: st.SearchStrategy[Odd] = st.one_of(
    st.integers(0, len(ODDITIES) - 1).map(ODDITIES.__getitem__),  # Not by themselves: some have no hash.
    st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.complex_numbers(),
    st.text() | st.binary() | st.dates() | st.times() | st.timedeltas() | st.uuids() | st.fractions(),
    st.datetimes() | st.datetimes(timezones=st.just(UTC)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
).map(Odd)  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    settings = {
        "num_partitions": "1",
        "auto_create_topics_enable": "false",
        "offsets_topic_num_partitions": "1",
    }
    with ThreadBroker(tmp_path_factory.mktemp("data"), **settings) as running:
        with semel.Admin(bootstrap_servers=running.bootstrap) as admin:
            admin.create_topics([TOPIC])
        yield running


@pytest.fixture
def directory(broker: ThreadBroker) -> Path:
    return broker.directory


def refusal(call: Callable[..., Any], *given: Any, **named: Any) -> semel.KafkaException | None:
    """What the call refuses, if it does; anything but the client's own exceptions fails the test."""
    try:
        call(*given, **named)
    except semel.KafkaException as error:
        return error
    return None


# Producers

SEND = ("topic", "value", "key", "partition", "timestamp", "headers", "callback")


@pytest.fixture(scope="module")
def sending(broker: ThreadBroker) -> Iterator[semel.Producer]:
    # What waits for a partition or a topic nobody has is not waited for long.
    with semel.Producer(bootstrap_servers=broker.bootstrap, max_block_ms=20) as one:
        eventually_known(one)
        yield one


def eventually_known(producer: semel.Producer) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            producer.send(TOPIC, b"first").result(TIMEOUT)
            return
        except semel.TimeoutException:
            assert time.monotonic() < deadline, "the topic is there"


@CALLS
@given(name=st.sampled_from(SEND), odd=anything)
def test_whatever_is_sent_the_next_record_goes_through(sending: semel.Producer, name: str, odd: Odd) -> None:
    refusal(sending.send, **{"topic": TOPIC, "value": b"odd", name: odd.value})
    sending.flush()
    assert sending.send(TOPIC, b"good", partition=0).result(TIMEOUT).offset >= 0


@CALLS
@given(odd=st.dictionaries(st.sampled_from(SEND), anything, min_size=2, max_size=4))
def test_the_same_of_many_arguments_at_once(sending: semel.Producer, odd: dict[str, Odd]) -> None:
    given = {name: one.value for name, one in odd.items()}
    refusal(sending.send, **{"topic": TOPIC, **given})
    assert sending.send(TOPIC, b"good", partition=0).result(TIMEOUT).offset >= 0


def test_the_same_on_asyncio(broker: ThreadBroker) -> None:
    with asyncio.Runner() as runner:

        async def made() -> aio.Producer:
            one = aio.Producer(bootstrap_servers=broker.bootstrap, max_block_ms=TIMEOUT * 1000)
            await (await one.send(TOPIC, b"first"))
            return one

        producer = runner.run(made())
        producer._engine.config = semel.ProducerConfig.of(bootstrap_servers=broker.bootstrap, max_block_ms=20)

        @CALLS
        @given(name=st.sampled_from(SEND), odd=anything)
        def story(name: str, odd: Odd) -> None:
            async def send() -> int:
                with contextlib.suppress(semel.KafkaException):
                    await producer.send(**{"topic": TOPIC, "value": b"odd", name: odd.value})
                await producer.flush()  # A time far ahead is refused with its whole batch.
                return (await (await producer.send(TOPIC, b"good", partition=0))).offset

            assert runner.run(send()) >= 0

        story()
        runner.run(producer.close())


ACCEPTED = r"(whole number|milliseconds|a text|bytes|pair|callable|letters)"


@pytest.mark.parametrize(
    ("name", "odd", "text"),
    [
        ("timestamp", 1763482000.25, r"timestamp=1763482000\.25 is a float: .*int\(seconds \* 1000\)"),
        ("timestamp", "2026-01-01", r"timestamp='2026-01-01' is a str: .*fromisoformat"),
        ("timestamp", date(2026, 1, 1), "a day has no time"),
        ("timestamp", True, "timestamp=True is a bool"),
        ("timestamp", -5, "Invalid timestamp: -5"),
        ("timestamp", 2**63, "Invalid timestamp: 9223372036854775808"),
        ("partition", "0", "partition='0' is a str: it must be a whole number"),
        ("partition", 0.0, r"partition=0\.0 is a float"),
        ("partition", -1, "Invalid partition: -1"),
        ("partition", 2**31, "partition=2147483648: it must be a whole number"),
        ("topic", 7, "topic=7: invalid topic name: expected a non-empty str, got an int"),
        ("topic", ["orders"], r"topic=\['orders'\]: invalid topic name: .*got a list"),
        ("topic", "", "topic='': invalid topic name: expected a non-empty str"),
        ("topic", "not a name", "topic='not a name': invalid topic name: .*letters"),
        ("key", 7, r"key=7: an int is neither bytes nor text: .*key\.serializer"),
        ("value", {"a": 1}, r"value=\{'a': 1\}: a dict is neither bytes nor text: .*value\.serializer"),
        ("value", "\ud800", "value=.*not text UTF-8 can write"),
        ("headers", "till", "headers='till' is a str: it must be a mapping"),
        ("headers", {"till": "3"}, r"a header is a pair of text and bytes \(or None\), not \('till', '3'\)"),
        ("headers", [("till",)], r"a pair of text and bytes .* not \('till',\)"),
        ("headers", {"\ud800": b"3"}, "headers: name=.*not text UTF-8 can write"),
        ("callback", "print", "callback='print' is a str: it must be a callable"),
    ],
)
def test_a_record_is_refused_by_the_argument_s_name_and_value(
    broker: ThreadBroker, sending: semel.Producer, name: str, odd: Any, text: str
) -> None:
    given = {"topic": TOPIC, "value": b"odd", name: odd}
    with pytest.raises(semel.KafkaException, match=text):
        sending.send(**given)

    async def story() -> int:
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            with pytest.raises(semel.KafkaException, match=text):
                await producer.send(**given)
            return (await (await producer.send(TOPIC, b"good"))).offset

    assert asyncio.run(story()) >= 0
    assert sending.send(TOPIC, b"good").result(TIMEOUT).offset >= 0


def test_what_is_like_a_number_or_like_bytes_is_taken(broker: ThreadBroker, sending: semel.Producer) -> None:
    told = sending.send(
        np.str_(TOPIC),
        memoryview(b"view"),
        np.bytes_(b"key"),
        np.int32(0),  # type: ignore[arg-type]
        np.int64(1000),  # type: ignore[arg-type]
        {"h": bytearray(b"v"), "n": None, "ü": memoryview(b"w")},
    ).result(TIMEOUT)
    assert (told.partition, told.timestamp) == (0, 1000)
    last = stored(broker.directory, TOPIC)[-1]
    assert (last.key, last.value) == (b"key", b"view")
    assert last.headers == (("h", b"v"), ("n", None), ("ü", b"w"))
    assert sending.send(TOPIC, "text", headers=iter([("h", b"v")])).result(TIMEOUT).offset > told.offset


def test_a_bad_record_in_a_transaction_leaves_the_producer_and_the_transaction_alone(
    broker: ThreadBroker,
) -> None:
    with semel.Producer(bootstrap_servers=broker.bootstrap, transactional_id="bad-records") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(TOPIC, b"with")
            assert refusal(producer.send, TOPIC, b"never", timestamp=1.5) is not None
            assert refusal(producer.send_offsets_to_transaction, {PLACE: "5"}, "g") is not None
            assert refusal(producer.send_offsets_to_transaction, {PLACE: 5}, None) is not None
            for group in ("", "\ud800", "g" * 2**15):
                assert refusal(producer.send_offsets_to_transaction, {PLACE: 5}, group) is not None
            producer.send_offsets_to_transaction({PLACE: np.int64(5)}, "g")
        remark = semel.OffsetAndMetadata(5, "x" * 5000)
        with pytest.raises(semel.OffsetMetadataTooLarge) as refused, producer.transaction():
            producer.send_offsets_to_transaction({PLACE: remark}, "g")
        assert (refused.value.abortable, refused.value.fatal) == (True, False)
        with producer.transaction():
            producer.send(TOPIC, b"after")
    sent = [one for one in values(broker.directory, TOPIC) if one in (b"with", b"never", b"after")]
    assert sent == [b"with", b"after"]


@CALLS
@given(offsets=anything, group=anything)
def test_whatever_offsets_are_sent_the_transaction_goes_on(
    transactional: semel.Producer, offsets: Odd, group: Odd
) -> None:
    with transactional.transaction():
        refusal(transactional.send_offsets_to_transaction, {PLACE: 1}, group.value)
        refused = refusal(transactional.send_offsets_to_transaction, offsets.value, "g")
        transactional.send(TOPIC, b"good")
        if isinstance(refused, semel.ApiException | semel.CommitFailedException):  # The broker said no.
            transactional.abort_transaction()
            transactional.begin_transaction()


@pytest.fixture(scope="module")
def transactional(broker: ThreadBroker) -> Iterator[semel.Producer]:
    with semel.Producer(bootstrap_servers=broker.bootstrap, transactional_id="odd-offsets") as one:
        one.init_transactions()
        yield one


def test_other_arguments_of_producers_are_refused_before_anything_is_done(broker: ThreadBroker) -> None:
    settings: dict[str, Any] = {
        "transactional.id": "others",
        "linger.ms": 60_000,
        "delivery.timeout.ms": 120_000,
    }
    with semel.Producer(settings, bootstrap_servers=broker.bootstrap) as producer:
        refused_before_anything(producer)


def refused_before_anything(producer: semel.Producer) -> None:
    producer.init_transactions()
    producer.begin_transaction()
    sent = producer.send(TOPIC, b"kept")
    for call, text in (
        (lambda: producer.close("soon"), "timeout='soon' is a str: it must be a number of seconds"),  # type: ignore[arg-type]
        (lambda: producer.close(float("nan")), "timeout=nan"),
        (lambda: producer.close(True), "timeout=True is a bool"),
        (lambda: sent.result("soon"), "timeout='soon' is a str"),  # type: ignore[arg-type]
        (lambda: sent.exception("soon"), "timeout='soon' is a str"),  # type: ignore[arg-type]
        (lambda: producer.partitions_for(7), "topic=7: invalid topic name: .*got an int"),  # type: ignore[arg-type]
        (lambda: producer.partitions_for("a b"), "topic='a b': invalid topic name"),
        (lambda: producer.join_transaction("7", 0), "producer_id='7' is a str"),  # type: ignore[arg-type]
        (lambda: producer.join_transaction(7, 2**15), "producer_epoch=32768"),
        (lambda: producer.complete_transaction(7), "prepared_txn_state=7 is an int"),  # type: ignore[arg-type]
        (lambda: producer.send_offsets_to_transaction([PLACE], "g"), r"offsets=\[.* is a list: .* a mapping"),  # type: ignore[arg-type]
        (lambda: producer.send_offsets_to_transaction({"orders": 1}, "g"), "offsets='orders' is not a partition"),  # type: ignore[arg-type]
        (lambda: producer.send_offsets_to_transaction({PLACE: -1}, "g"), r"offsets\[orders-0\]: -1 is not an offset"),
        (lambda: producer.send_offsets_to_transaction({PLACE: 1.0}, "g"), r"offsets\[orders-0\]=1\.0 is a float"),
        (lambda: producer.send_offsets_to_transaction({PLACE: 1}, 7), "group_metadata=7 is an int"),
    ):  # fmt: skip
        with pytest.raises(semel.KafkaException, match=text):
            call()
    producer.commit_transaction()
    assert sent.result(0).offset >= 0
    producer.close(float("inf"))


# The application's own code


def test_code_of_the_application_that_fails_ends_nothing_but_its_record(
    broker: ThreadBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_given: Any) -> Any:
        raise LookupError("mine")

    def ending(*_given: Any) -> None:
        raise SystemExit(3)

    def giving(found: Any) -> Callable[..., Any]:
        return lambda *_given: found

    async def awaited(*_given: Any) -> None:
        pass

    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 50}
    with semel.Producer(settings) as producer:
        mates = [
            producer.send(TOPIC, b"%d" % n, callback=one) for n, one in enumerate((failing, ending, awaited))
        ]
        told = list[int]()
        mates.append(
            producer.send(
                TOPIC,
                b"last",
                callback=lambda metadata, _error: told.append(metadata.offset if metadata else -1),
            )
        )
        assert [one.result(TIMEOUT).offset for one in mates] == sorted(one.result(0).offset for one in mates)
        assert producer.send(TOPIC, b"good").result(TIMEOUT).offset > told[0]
    said = [record.getMessage() for record in caplog.records if "callback of send" in record.getMessage()]
    assert said[:2] == ["a callback of send failed"] * 2
    assert "nobody awaits it" in said[2]

    for name, code, error, text in (
        ("value.serializer", failing, LookupError, "mine"),
        ("value.serializer", giving("text"), semel.SerializationException, "value.serializer gave a str for b'odd'"),
        ("value.serializer", giving(7), semel.SerializationException, "gave an int"),
        ("key.serializer", failing, LookupError, "mine"),
        ("partitioner.class", failing, LookupError, "mine"),
        ("partitioner.class", giving("0"), semel.IllegalArgumentException, "partition='0' is a str"),
        ("partitioner.class", giving(0.0), semel.IllegalArgumentException, "is a float"),
        ("partitioner.class", giving(None), semel.IllegalArgumentException, "is None"),
        ("partitioner.class", giving(7), semel.IllegalArgumentException, "chose partition 7"),
    ):  # fmt: skip
        with semel.Producer({**settings, name: code}) as producer:
            with pytest.raises(error, match=re.escape(text)):
                producer.send(TOPIC, b"odd", key=b"odd")
            if name == "value.serializer":
                assert producer.send(TOPIC, None, partition=0).result(TIMEOUT).offset >= 0
            else:
                assert producer.send(TOPIC, b"good", partition=0).result(TIMEOUT).offset >= 0


# Consumers

READING: dict[str, Callable[[semel.Consumer, Any], Any]] = {
    "subscribe": lambda one, odd: one.subscribe(odd),
    "subscribe to a pattern": lambda one, odd: one.subscribe(pattern=odd),
    "subscribe with a listener": lambda one, odd: one.subscribe([TOPIC], listener=odd),
    "subscribe with a callable": lambda one, odd: one.subscribe([TOPIC], on_assign=odd),
    "assign": lambda one, odd: one.assign(odd),
    "assign one": lambda one, odd: one.assign([odd]),
    "assign a number": lambda one, odd: one.assign([(TOPIC, odd)]),
    "poll": lambda one, odd: one.poll(odd if not isinstance(odd, int | float) or odd < 1 else 1),
    "poll some": lambda one, odd: one.poll(0, odd),
    "poll columns": lambda one, odd: one.poll_arrow(0, odd),
    "seek": lambda one, odd: one.seek(odd, 0),
    "seek to": lambda one, odd: one.seek(PLACE, odd),
    "seek to the beginning": lambda one, odd: one.seek_to_beginning(odd),
    "seek to the end": lambda one, odd: one.seek_to_end(odd),
    "position": lambda one, odd: one.position(odd),
    "pause": lambda one, odd: one.pause(odd),
    "resume": lambda one, odd: one.resume(odd),
    "commit": lambda one, odd: one.commit(odd),
    "commit at": lambda one, odd: one.commit({PLACE: odd}),
    "commit beside": lambda one, odd: one.commit_async({PLACE: 0}, odd if not callable(odd) else None),
    "committed": lambda one, odd: one.committed(odd),
    "beginning": lambda one, odd: one.beginning_offsets(odd),
    "end": lambda one, odd: one.end_offsets(odd),
    "times": lambda one, odd: one.offsets_for_times(odd),
    "time": lambda one, odd: one.offsets_for_times({PLACE: odd}),
    "partitions": lambda one, odd: one.partitions_for(odd),
    "lag": lambda one, odd: one.current_lag(odd),
    "rebalance": lambda one, odd: one.enforce_rebalance(odd),
}


@pytest.fixture(scope="module")
def reading(broker: ThreadBroker) -> Iterator[semel.Consumer]:
    with semel.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(TOPIC, b"to be read").result(TIMEOUT)
    with semel.Consumer(
        bootstrap_servers=broker.bootstrap,
        group_id="odd",
        enable_auto_commit=False,
        default_api_timeout_ms=100,
        request_timeout_ms=100,
    ) as one:
        yield one


@CALLS
@given(call=st.sampled_from(sorted(READING)), odd=anything)
def test_whatever_a_consumer_is_given_it_reads_on(reading: semel.Consumer, call: str, odd: Odd) -> None:
    reading.unsubscribe()
    if not call.startswith(("subscribe", "assign")):
        reading.assign([PLACE])
    refusal(READING[call], reading, odd.value)
    reading.unsubscribe()
    reading.assign([PLACE])
    reading.seek_to_beginning()
    deadline = time.monotonic() + TIMEOUT
    while not refused_or_read(reading):
        assert time.monotonic() < deadline, "the record is there"


def refused_or_read(reading: semel.Consumer) -> bool:
    """Whether a record came; errors of what was asked before may come first."""
    try:
        return bool(reading.poll(1000, 1))
    except semel.KafkaException:
        return False


def test_arguments_of_consumers_are_refused_by_name(broker: ThreadBroker) -> None:
    with semel.Consumer(bootstrap_servers=broker.bootstrap, group_id="names") as one:
        one.assign([PLACE])
        odd: Any
        for call, odd, text in (
            ("subscribe", 7, "topics=7 is an int: it must be a topic's name, or a list of names"),
            ("subscribe", [7], "cannot contain null or empty topic: 7 is not a name"),
            ("subscribe to a pattern", "(", "pattern='(' is not a regular expression"),
            (
                "subscribe to a pattern",
                b"x",
                "pattern=b'x' is bytes: it must be a regular expression of text",
            ),
            ("subscribe with a callable", 7, "on_assign=7 is an int: it must be a callable of partitions"),
            ("assign", 7, "partitions=7 is an int: it must be a list of partitions"),
            ("assign", "orders", "partitions='orders' is a str"),
            ("assign", [("orders", "0")], "partitions: partition='0' is a str"),
            ("assign", [("orders", True)], "partitions: partition=True is a bool"),
            (
                "assign",
                ["orders"],
                "partitions='orders' is not a partition: use TopicPartition(topic, partition)",
            ),
            ("poll", "1", "timeout_ms='1' is a str: it must be a number of milliseconds"),
            ("poll", None, "timeout_ms=None is None"),
            ("poll some", "1", "max_records='1' is a str"),
            ("seek to", "5", "offset='5' is a str: it must be an offset"),
            ("seek to", 5.0, "offset=5.0 is a float"),
            ("seek to", -1, "offset: -1 is not an offset"),
            ("commit", [PLACE], "offsets=[('orders', 0)] is a list: it must be a mapping"),
            ("commit at", 5.0, "offsets[orders-0]=5.0 is a float"),
            ("commit at", semel.OffsetAndMetadata(1, 7), "offsets[orders-0]: metadata=7 is an int"),  # type: ignore[arg-type]
            ("commit beside", 7, "callback=7 is an int"),
            ("time", 5.5, "timestamps[orders-0]=5.5 is a float"),
            ("time", -5, "The target time for partition orders-0 is -5. The target time cannot be negative."),
            ("partitions", 7, "topic=7: invalid topic name: expected"),
            ("rebalance", 7, "reason=7 is an int"),
        ):
            with pytest.raises(semel.IllegalArgumentException, match=re.escape(text)):
                READING[call](one, odd)
        with pytest.raises(semel.IllegalArgumentException, match="timeout_ms='1' is a str"):
            one.commit(timeout_ms="1")  # type: ignore[arg-type]
        with pytest.raises(semel.IllegalArgumentException, match="timeout_ms='1' is a str"):
            one.close("1")  # type: ignore[arg-type]
        one.seek(PLACE, np.int64(0))  # type: ignore[arg-type]
        one.commit({PLACE: (1, "remark")})  # type: ignore[dict-item]
        assert one.committed([PLACE])[semel.TopicPartition(*PLACE)] == semel.OffsetAndMetadata(1, "remark")


# Admin clients

ASKING: dict[str, Callable[[semel.Admin, Any], Any]] = {
    "describe topics": lambda one, odd: one.describe_topics(odd),
    "create": lambda one, odd: one.create_topics(odd, validate_only=True),
    "create one": lambda one, odd: one.create_topics([semel.NewTopic(odd)], validate_only=True),
    "create many": lambda one, odd: one.create_topics([semel.NewTopic("new", odd)], validate_only=True),
    "create with settings": lambda one, odd: one.create_topics(
        [semel.NewTopic("new", configs={"retention.ms": odd})], validate_only=True
    ),
    "wait": lambda one, odd: one.create_topics("new", validate_only=True, timeout_ms=odd if not isinstance(odd, int | float) else 1),
    "partitions": lambda one, odd: one.create_partitions(odd, validate_only=True),
    "more partitions": lambda one, odd: one.create_partitions({TOPIC: odd}, validate_only=True),
    "offsets": lambda one, odd: one.list_offsets(odd),
    "offset": lambda one, odd: one.list_offsets({PLACE: odd}),
    "offset at": lambda _one, odd: semel.OffsetSpec.for_timestamp(odd),
    "records": lambda one, odd: one.delete_records({PLACE: odd}),
    "elect": lambda one, odd: one.elect_leaders(odd),
    "moves": lambda one, odd: one.list_partition_reassignments(odd),
    "settings": lambda one, odd: one.describe_configs(odd),
    "setting": lambda one, odd: one.describe_configs([odd]),
    "change": lambda one, odd: one.incremental_alter_configs(odd, validate_only=True),
    "groups": lambda one, odd: one.describe_consumer_groups(odd),
    "group's offsets": lambda one, odd: one.list_consumer_group_offsets("g", odd),
    "alter": lambda one, odd: one.alter_consumer_group_offsets("nobody's", odd),
    "alter at": lambda one, odd: one.alter_consumer_group_offsets("nobody's", {PLACE: odd}),
    "transactions": lambda one, odd: one.describe_transactions(odd),
    "old": lambda one, odd: one.list_transactions(older_than_ms=odd),
    "abort": lambda one, odd: one.abort_transaction(odd, 0),
    "abort at": lambda one, odd: one.abort_transaction(PLACE, odd),
    "producers": lambda one, odd: one.describe_producers(odd),
    "copies": lambda one, odd: one.describe_replica_log_dirs(odd),
    "directories": lambda one, odd: one.alter_replica_log_dirs(odd),
    "features": lambda one, odd: one.update_features(odd, validate_only=True),
    "users": lambda one, odd: one.describe_user_scram_credentials(odd),
}  # fmt: skip


@pytest.fixture(scope="module")
def asking(broker: ThreadBroker) -> Iterator[semel.Admin]:
    with semel.Admin(
        bootstrap_servers=broker.bootstrap, default_api_timeout_ms=200, request_timeout_ms=200
    ) as one:
        yield one


@CALLS
@given(call=st.sampled_from(sorted(ASKING)), odd=anything)
def test_whatever_an_admin_client_is_asked_it_answers_the_next(
    asking: semel.Admin, call: str, odd: Odd
) -> None:
    refusal(ASKING[call], asking, odd.value)
    deadline = time.monotonic() + TIMEOUT
    while refusal(asking.describe_topics, TOPIC) is not None:
        assert time.monotonic() < deadline, "the broker answers"


def test_arguments_of_admin_clients_are_refused_by_name(asking: semel.Admin) -> None:
    odd: Any
    for call, odd, text in (
        ("describe topics", 7, "topics=7 is an int: it must be a name, or a list of names"),
        ("create", [7], "topics=7 is an int"),
        ("create many", "3", "new: num_partitions='3' is a str: it must be a whole number"),
        ("create with settings", 7, "new: retention.ms=7 is an int: it must be text"),
        ("more partitions", "3", "counts[orders]='3' is a str"),
        ("partitions", ["orders"], "counts=['orders'] is a list: it must be a mapping"),
        ("offset", "latest", "specs[orders-0]='latest' is a str: it must be an OffsetSpec"),
        ("offset at", 1.5, "timestamp_ms=1.5 is a float"),
        ("records", "5", "before_offsets[orders-0]='5' is a str"),
        ("settings", "orders", "resources='orders' is a str: it must be a ConfigResource"),
        ("setting", "orders", "'orders' is not a resource"),
        ("alter at", 1.5, "offsets[orders-0]=1.5 is a float"),
        ("abort", "orders", "topic_partition='orders' is not a partition"),
        ("producers", [("orders", "0")], "topic_partitions: partition='0' is a str"),
    ):
        with pytest.raises(semel.IllegalArgumentException, match=re.escape(text)):
            ASKING[call](asking, odd)


# Constructors


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (semel.Producer, "Producer"),
        (semel.Consumer, "Consumer"),
        (semel.Admin, "Admin"),
        (aio.Producer, "Producer"),
        (aio.Consumer, "Consumer"),
        (aio.Admin, "Admin"),
    ],
)
def test_an_address_alone_is_no_settings_and_the_error_shows_them(client: Any, name: str) -> None:
    with pytest.raises(
        TypeError, match=re.escape(f"""{name}({{"bootstrap.servers": "host:9092"}})""")
    ) as refused:
        client("host:9092")
    assert isinstance(refused.value, semel.ConfigException)
    assert f"{name}('host:9092'): settings are a mapping or keywords, not a str" in str(refused.value)
    for odd in (7, ["host:9092"], b"host:9092"):
        with pytest.raises(TypeError, match=re.escape(f"not {kind(odd)}")):
            client(odd)
    with pytest.raises(semel.ConfigException, match="7 is not a setting name"):
        client({7: "host:9092"})


def test_a_pool_says_the_same() -> None:
    with pytest.raises(
        TypeError, match=re.escape("""TransactionalProducerPool({"bootstrap.servers": "host:9092"})""")
    ):
        semel.TransactionalProducerPool("host:9092", prefix="p")  # type: ignore[arg-type]


# Words


@pytest.mark.parametrize(
    ("noun", "said"),
    [
        ("int", "an int"),
        ("str", "a str"),
        ("admin client", "an admin client"),
        ("UUID", "a UUID"),
        ("object", "an object"),
        ("ndarray", "an ndarray"),
        ("Exception", "an Exception"),
        ("", "a "),
    ],
)
def test_a_noun_has_its_article(noun: str, said: str) -> None:
    assert a(noun) == said


def test_what_has_no_text_or_a_long_one_is_shown_all_the_same() -> None:
    assert shown(Unspeakable()) == "<Unspeakable>"
    assert shown("x" * 1000) == "'" + "x" * 79 + "…"
    assert (kind(None), kind(b""), kind(7)) == ("None", "bytes", "an int")


def test_texts_of_settings_have_their_articles() -> None:
    with pytest.raises(semel.ConfigException, match="of a producer, not of an admin client"):
        semel.AdminConfig.of(bootstrap_servers="h:1", linger_ms=5)
    with pytest.raises(semel.ConfigException, match="is not a setting of an admin client"):
        semel.AdminConfig.of(bootstrap_servers="h:1", nonsense=5)


def test_waits_are_whole_milliseconds_and_never_too_long() -> None:
    assert [arguments.wait_ms(one) for one in (5, 0.2, np.float64(1.5), 0)] == [5, 1, 2, 0]
    for negative in (-3, -0.5, float("-inf")):
        with pytest.raises(semel.IllegalArgumentException, match="from 0 on"):
            arguments.wait_ms(negative)
    assert arguments.wait_ms(float("inf")) > 10**12
    assert arguments.seconds(float("inf")) is None
    assert arguments.seconds(None) is None
