"""A stream reads every offset once: whatever crashes, however batches are limited, whatever partitions come up.

Method: the real reader on an engine that calls it as Spark does (`source_engine`), with a broker in memory; any story of appends,
triggers and crashes. What the sink holds at the end is compared with what was appended after the start.
"""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.exceptions import IllegalArgumentException
from semel.spark.source.offsets import BEGAN
from semel.spark.source.ranges import DataLossException
from semel.types import TopicPartition
from support.spark.source_engine import Engine, MemoryBroker, Row, planned_with, rows_of, stream_reader

datasource = pytest.importorskip("pyspark.sql.streaming.datasource")

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    broker = MemoryBroker()
    broker.add("t", 0, 10)
    broker.add("t", 1, 5)
    with planned_with(broker):
        yield broker


def everything(broker: MemoryBroker, since: dict[TopicPartition, int] | None = None) -> list[Row]:
    return [
        (where, offset)
        for where, log in sorted(broker.logs.items())
        for offset in range((since or {}).get(where, 0), log.end)
    ]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 4), st.integers(0, 30)),
        st.just(("trigger",)),
        st.just(("crash",)),
        st.just(("plan", "crash")),
        st.just(("run", "crash")),
    ),
    max_size=30,
)


@given(
    steps=STEPS,
    starting=st.sampled_from(["earliest", "latest"]),
    maximum=st.none() | st.integers(1, 20),
    minimum=st.none() | st.integers(1, 20),
    parts=st.none() | st.integers(1, 9),
    cut=st.none() | st.integers(1, 7),
    subscribed=st.sampled_from([{"subscribe": "t"}, {"subscribePattern": "t.*"}]),
)
@pytest.mark.mission("STR-13")
def test_every_offset_is_read_once(
    steps: list[tuple[object, ...]],
    starting: str,
    maximum: int | None,
    minimum: int | None,
    parts: int | None,
    cut: int | None,
    subscribed: dict[str, str],
) -> None:
    """Partition 3 and topic t4 come up on the way; a crash may come before or after a planned or a finished batch."""
    broker = MemoryBroker()
    broker.add("t", 0, 10)
    broker.add("t", 1, 5)
    given_limits = {
        "maxOffsetsPerTrigger": maximum,
        "minOffsetsPerTrigger": minimum if maximum is None or minimum is None else min(minimum, maximum),
        "minPartitions": parts,
        "maxRecordsPerPartition": cut,
    }
    options = {name: str(value) for name, value in given_limits.items() if value is not None}
    with planned_with(broker):
        engine = Engine({**subscribed, "startingOffsets": starting, "maxTriggerDelay": "0ms", **options})
        begins = {} if starting == "earliest" else {T0: 10, T1: 5}
        assert engine.trigger() is not None  # A first batch is always run, be it empty.
        for step in steps:
            match step:
                case ("append", int(index), int(count)):
                    broker.add("t4" if index == 4 else "t", index, count)
                case ("trigger",):
                    engine.trigger()
                case ("crash",):
                    engine.crash()
                case ("plan", _):
                    engine.plan()
                    engine.crash()
                case _:
                    if engine.plan():
                        engine.run()
                    engine.crash()
        while engine.trigger() is not None:
            pass
        wanted = [
            row
            for row in everything(broker, begins)
            if row[0].topic == "t" or "subscribePattern" in subscribed
        ]
        assert sorted(engine.written) == wanted


@given(
    appended=st.lists(st.integers(0, 30), max_size=5),
    crash_after=st.sampled_from(["plan", "run"]),
    starting=st.sampled_from(["earliest", "latest"]),
)
@pytest.mark.mission("STR-13")
def test_the_first_batch_is_replayed_as_it_was(appended: list[int], crash_after: str, starting: str) -> None:
    """Spark asks for the initial offset again when it replays the first batch: by then "latest" is elsewhere."""
    broker = MemoryBroker()
    broker.add("t", 0, 10)
    with planned_with(broker):
        engine = Engine({"subscribe": "t", "startingOffsets": starting})
        engine.reader.initialOffset()
        broker.add("t", 0, 7)
        assert engine.plan()
        first = engine.run() if crash_after == "run" else None
        for count in appended:
            broker.add("t", 0, count)
            engine.crash()
        replayed = engine.run()
        assert first is None or replayed == first
        assert replayed == everything(
            MemoryBroker({T0: type(broker.logs[T0])(0, 17)}), {} if starting == "earliest" else {T0: 10}
        )
        engine.commit()
        while engine.trigger() is not None:
            pass
        assert sorted(engine.written) == everything(broker, {} if starting == "earliest" else {T0: 10})


def test_a_batch_without_news_is_no_batch(broker: MemoryBroker) -> None:
    engine = Engine({"subscribe": "t", "startingOffsets": "earliest"})
    assert len(engine.trigger() or ()) == 15
    assert BEGAN in json.loads(engine.offset_log[0])
    assert engine.trigger() is None
    broker.add("t", 1, 1)
    assert engine.trigger() == [(T1, 5)]
    assert BEGAN not in json.loads(engine.offset_log[1])
    assert engine.trigger() is None
    engine.crash()
    assert engine.trigger() is None


def test_the_same_offsets_twice_are_an_empty_batch(broker: MemoryBroker) -> None:
    """A watermark may make Spark run a batch without new offsets: the first one's start must not be read again."""
    engine = Engine({"subscribe": "t", "startingOffsets": "earliest"})
    engine.trigger()
    last = json.loads(engine.offset_log[0])
    assert engine.reader.partitions(last, last) == []


def test_a_checkpoint_of_the_connector_goes_on(broker: MemoryBroker) -> None:
    """Its offsets have no spaces and no beginning of a first batch."""
    engine = Engine({"subscribe": "t"})
    engine.offset_log, engine.committed = ['{"t":{"0":8,"1":5}}'], 1
    assert engine.trigger() == [(T0, 8), (T0, 9)]


def test_available_now_ends_where_the_log_ended(broker: MemoryBroker) -> None:
    engine = Engine(
        {
            "subscribe": "t",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "6",
            "minOffsetsPerTrigger": "5",
        },
        available_now=True,
    )
    assert engine.trigger() is not None
    before = everything(broker)
    broker.add("t", 0, 100)
    broker.add("t", 2, 100)
    batches = 1
    while engine.trigger() is not None:
        batches += 1
    assert sorted(engine.written) == before
    assert batches >= 3
    engine.crash()  # The next run takes the rest.
    while engine.trigger() is not None:
        pass
    assert sorted(engine.written) == everything(broker)


def test_all_that_is_available_passes_by_limits(broker: MemoryBroker) -> None:
    """Trigger.Once asks for everything, whatever the options say."""
    reader = stream_reader({"subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, datasource.ReadAllAvailable())
    assert rows_of(reader.partitions(start, end)) == everything(broker)


def test_limits_are_told_to_spark() -> None:
    assert stream_reader({"subscribe": "t"}).getDefaultReadLimit() == datasource.ReadAllAvailable()
    both = {"subscribe": "t", "maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "3"}
    assert stream_reader(both).getDefaultReadLimit() == datasource.ReadMaxRows(9)
    low = {"subscribe": "t", "minOffsetsPerTrigger": "3"}
    assert stream_reader(low).getDefaultReadLimit() == datasource.ReadMinRows(3)


def test_a_trigger_waits_for_its_minimum(broker: MemoryBroker) -> None:
    engine = Engine(
        {
            "subscribe": "t",
            "startingOffsets": "earliest",
            "minOffsetsPerTrigger": "4",
            "maxTriggerDelay": "1h",
        }
    )
    assert len(engine.trigger() or ()) == 15
    broker.add("t", 0, 3)
    assert engine.trigger() is None
    broker.add("t", 1, 1)
    assert len(engine.trigger() or ()) == 4


def test_progress_knows_the_end_of_the_log(broker: MemoryBroker) -> None:
    reader = stream_reader({"subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"})
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == {"t": {"0": 10, "1": 5}}


# Where a query starts


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest"}, {"0": 0, "1": 0}),
        ({}, {"0": 10, "1": 5}),
        ({"startingOffsets": '{"t": {"0": 3, "1": -1}}'}, {"0": 3, "1": 5}),
        ({"startingTimestamp": "4"}, {"0": 4, "1": 4}),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 9, "1": 0}}'}, {"0": 9, "1": 0}),
        ({"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "latest"}, {"0": 7, "1": 5}),
    ],
)
def test_where_a_query_starts(
    broker: MemoryBroker, options: dict[str, str], expected: dict[str, int]
) -> None:
    assert stream_reader({"subscribe": "t", **options}).initialOffset() == {"t": expected}


def test_a_time_after_the_last_record_is_an_error_unless_told_otherwise(broker: MemoryBroker) -> None:
    with pytest.raises(IllegalArgumentException, match="no record of t-1 is as young as the starting time 7"):
        stream_reader({"subscribe": "t", "startingTimestamp": "7"}).initialOffset()


def test_a_partition_is_assigned(broker: MemoryBroker) -> None:
    engine = Engine({"assign": '{"t": [1]}', "startingOffsets": "earliest"})
    assert engine.trigger() == [(T1, offset) for offset in range(5)]
    broker.add("t", 0, 5)
    assert engine.trigger() is None


def test_what_does_not_exist_is_named_with_what_was_meant(broker: MemoryBroker) -> None:
    broker.add("orders", 0)
    with pytest.raises(IllegalArgumentException, match=r"topic order does not exist .* did you mean orders"):
        stream_reader({"subscribe": "order"}).initialOffset()
    with pytest.raises(IllegalArgumentException, match=r"topic q does not exist .*semel topics create q"):
        stream_reader({"subscribe": "t,q"}).initialOffset()
    with pytest.raises(IllegalArgumentException, match="assign names partitions that do not exist: t-7"):
        stream_reader({"assign": '{"t": [0, 7]}'}).initialOffset()


def test_a_pattern_waits_for_its_topics(broker: MemoryBroker) -> None:
    engine = Engine({"subscribePattern": "^new-"})
    assert engine.trigger() == []
    broker.add("new-1", 0, 3)
    assert len(engine.trigger() or ()) == 3


# Losses


LOSSES = {
    "a partition is gone": lambda broker: broker.logs.pop(T1),
    "a topic was made anew": lambda broker: broker.logs.update({T0: type(broker.logs[T0])(0, 2)}),
    "a new partition begins late": lambda broker: broker.logs.update({T2: type(broker.logs[T0])(4, 9)}),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_ends_the_query_or_is_passed_over(broker: MemoryBroker, loss: str) -> None:
    strict, lenient = (
        Engine({"subscribe": "t", "startingOffsets": "earliest", "failOnDataLoss": word})
        for word in ("true", "false")
    )
    strict.trigger()
    lenient.trigger()
    LOSSES[loss](broker)
    with pytest.raises(DataLossException, match="failOnDataLoss"):
        strict.trigger()
    lenient.trigger()
    broker.add("t", 0, 2)
    end = broker.logs[T0].end
    assert (lenient.trigger() or [])[-2:] == [(T0, end - 2), (T0, end - 1)]


def test_a_start_beyond_the_end_is_a_loss(broker: MemoryBroker) -> None:
    engine = Engine({"subscribe": "t", "startingOffsets": '{"t": {"0": 99, "1": 0}}'})
    with pytest.raises(DataLossException, match="t-0 ends at 10, before 99"):
        engine.trigger()
