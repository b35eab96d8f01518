"""A consumer gives every record once, in order, from where it was told to begin; and says what it cannot read.

Method: the real broker and the real consumer in a simulation; batches are written straight into the log.
"""

import asyncio
from typing import Any

import pytest

from semel.client.values.consuming import ConsumerRecord
from semel.core.records.batch import TimestampType
from semel.core.records.build import RecordInput
from semel.exceptions import (
    CorruptRecordException,
    IllegalStateException,
    InvalidGroupIdException,
    InvalidTopicException,
    NoOffsetForPartitionException,
    OffsetOutOfRangeException,
    RecordDeserializationException,
    TimeoutException,
    WakeupException,
)
from semel.types import TopicPartition
from support.client.reading_kit import ReadingWorld, take, told, values

T0 = TopicPartition("t", 0)


@pytest.mark.mission("OFF-05", "OFF-16", "R-19")
def test_the_position_is_behind_the_last_record_and_moves_by_seek() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        for index in range(2):
            world.write("t", [b"%d-%d" % (index, n) for n in range(10)], index)
            world.write("t", [b"%d-%d" % (index, n) for n in range(10, 20)], index)
        async with world.consumer(max_poll_records=7) as consumer:
            consumer.assign([("t", 0), ("t", 1)])
            records = await take(consumer, 40)
            for index in range(2):
                mine = [record for record in records if record.partition == index]
                assert [record.offset for record in mine] == list(range(20))
                assert values(mine) == [b"%d-%d" % (index, n) for n in range(20)]
            consumer.assign([T0])
            consumer.seek(T0, 3)
            got = await consumer.poll(1_000)
            assert [record.offset for record in got] == [3, 4, 5, 6, 7, 8, 9]
            assert await consumer.position(T0) == 10
            assert got.next_offsets()[T0].offset == 10
            consumer.seek(("t", 0), 19)
            assert values(await consumer.poll(1_000)) == [b"0-19"]
            with pytest.raises(IllegalStateException, match="No current assignment for partition t-1"):
                consumer.seek(("t", 1), 0)

    told(story)


@pytest.mark.mission("OFF-14", "OFF-15", "READ-16")
def test_seeking_to_the_ends_goes_to_the_log_start_and_to_the_last_stable_offset() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(5)])
        world.transact("t", 100, [b"open"], None)
        world.write("t", [b"behind"])
        assert await world.broker.parts.partitions.delete_records(world.partition("t").log, 2)
        async with (
            world.consumer() as committed,
            world.consumer(isolation_level="read_uncommitted") as all_of_it,
        ):
            for consumer, end in ((committed, 5), (all_of_it, 7)):
                consumer.assign([T0])
                consumer.seek_to_end()
                assert await consumer.position(T0) == end
                assert await consumer.end_offsets([T0]) == {T0: end}
                consumer.seek_to_beginning([T0])
                assert await consumer.position(T0) == 2
                assert await consumer.beginning_offsets([T0]) == {T0: 2}
                assert (await take(consumer, 1))[0].offset == 2
            committed.seek_to_end([T0])
            assert len(await committed.poll(300)) == 0
            world.end("t", 100, commit=True)
            assert values(await take(committed, 2)) == [b"open", b"behind"]

    told(story)


@pytest.mark.mission("CFG-21")
@pytest.mark.parametrize("arrow", [False, True])
def test_read_committed_hides_what_was_aborted_and_waits_for_what_is_open(arrow: bool) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.transact("t", 100, [b"committed"], True)
        world.transact("t", 101, [b"aborted"], False)
        world.write("t", [b"plain"])
        world.transact("t", 102, [b"open"], None)
        world.write("t", [b"behind"])

        async def read(**settings: Any) -> list[Any]:
            async with world.consumer(**settings) as consumer:
                consumer.assign([T0])
                if not arrow:
                    return values(await consumer.poll(1_000))
                found: list[Any] = []
                while not found:
                    found = (await consumer.poll_arrow(1_000)).column("value").to_pylist()
                return found

        committed = [b"committed", b"plain"]
        everything = [b"committed", b"aborted", b"plain", b"open", b"behind"]
        assert await read() == committed
        assert await read(isolation_level="READ_COMMITTED") == committed
        assert await read(isolation_level="Read_Uncommitted") == everything

    told(story)


@pytest.mark.mission("CONS-13")
def test_a_poll_waits_for_its_time_and_the_broker_for_enough() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        clock = world.runtime.clock
        async with world.consumer(fetch_min_bytes=1_000, fetch_max_wait_ms=3_000) as consumer:
            consumer.assign([T0])
            await consumer.position(T0)
            since = clock.monotonic()
            assert not await consumer.poll(700)
            assert 0.7 <= clock.monotonic() - since < 0.8

            since = clock.monotonic()
            waiting = asyncio.ensure_future(consumer.poll(60_000))
            await world.runtime.tasks.sleep(0.1)
            world.write("t", [b"small"])
            found = await waiting
            assert values(found) == [b"small"]
            small_took = clock.monotonic() - since
            assert small_took > 2, "the broker was to wait for fetch.max.wait.ms"

            waiting = asyncio.ensure_future(consumer.poll(60_000))
            await world.runtime.tasks.sleep(0.1)
            since = clock.monotonic()
            world.write("t", [b"x" * 2_000])
            assert len(await waiting) == 1
            assert clock.monotonic() - since < 0.5, "there was enough at once"

    told(story)


def test_paused_partitions_wait_and_lose_nothing() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        for index in range(2):
            world.write("t", [b"%d-%d" % (index, n) for n in range(10)], index)
        async with world.consumer(max_poll_records=4) as consumer:
            consumer.assign([("t", 0), ("t", 1)])
            first = list(await consumer.poll(1_000))
            paused = first[0].topic_partition
            consumer.pause([paused])
            assert consumer.paused() == {paused}
            others = await take(consumer, 10)
            assert {record.topic_partition for record in others} == consumer.assignment() - {paused}
            assert not await consumer.poll(2_000)
            consumer.resume([paused])
            rest = await take(consumer, 6)
            assert [record.offset for record in (*first, *rest)] == list(range(10))

    told(story)


def test_what_is_fetched_ahead_is_bounded() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 4)
        for index in range(4):
            for _ in range(40):
                world.write("t", [b"x" * 5_000] * 10, index)
        async with world.consumer(max_partition_fetch_bytes=100_000, fetch_max_bytes=300_000) as consumer:
            consumer.assign([("t", index) for index in range(4)])
            total = 0
            most = 0
            while total < 1_600:
                total += len(await consumer.poll(1_000, max_records=20))
                await world.runtime.tasks.sleep(0.05)
                most = max(most, consumer._engine._buffer.size_bytes)
                for state in consumer._engine.subscription.partitions.values():
                    assert state.buffered_bytes < 100_000 + 150_000, "less than wanted, and one answer"
            assert 100_000 < most < 300_000 + 300_000, "fetched ahead, within fetch.max.bytes and one answer"

    told(story)


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", b"old"), ("latest", b"newest"), ("by_duration:PT1M", b"recent")]
)
def test_a_consumer_without_a_position_begins_where_it_is_told(reset: str, first: bytes) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        now_ms = world.runtime.clock.now_ms()
        world.write("t", [RecordInput(None, b"old", now_ms - 3_600_000)])
        world.write("t", [RecordInput(None, b"recent", now_ms - 10_000)])
        async with world.consumer(auto_offset_reset=reset, group_id="g") as consumer:
            consumer.assign([T0])
            await consumer.position(T0)
            world.write("t", [b"newest"])
            assert (await take(consumer, 1))[0].value == first

    told(story)


def test_a_span_without_records_means_the_end() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [RecordInput(None, b"old", world.runtime.clock.now_ms() - 3_600_000)])
        async with world.consumer(auto_offset_reset="by_duration:PT1M") as consumer:
            consumer.assign([T0])
            assert await consumer.position(T0) == 1

    told(story)


def test_without_a_reset_a_missing_position_and_one_out_of_range_are_errors() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"0", b"1", b"2"])
        async with world.consumer(auto_offset_reset="none", group_id="g") as consumer:
            consumer.assign([T0])
            with pytest.raises(
                NoOffsetForPartitionException, match=r"no reset policy for partitions: \[t-0\]"
            ):
                await consumer.poll(10_000)
            consumer.seek(T0, 1)
            assert values(await take(consumer, 2)) == [b"1", b"2"]
            consumer.seek(T0, 17)
            with pytest.raises(OffsetOutOfRangeException, match="t-0 has no offset 17"):
                await consumer.poll(10_000)
            consumer.seek(T0, 0)
            assert len(await take(consumer, 3)) == 3

    told(story)


def test_nothing_is_looked_for_while_the_user_may_still_seek() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"0", b"1", b"2"])
        async with world.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([T0])
            await consumer.end_offsets([T0])
            await world.runtime.tasks.sleep(5)  # Long enough to be found missing.
            consumer.seek(T0, 2)
            assert values(await take(consumer, 1)) == [b"2"]

    told(story)


def test_an_offset_out_of_range_is_reset() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"0", b"1", b"2"])
        async with world.consumer() as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 17)
            assert values(await take(consumer, 3)) == [b"0", b"1", b"2"]

    told(story)


@pytest.mark.mission("CFG-13")
@pytest.mark.parametrize(
    ("name", "content", "meant"),
    [
        ("org.apache.kafka.common.serialization.StringDeserializer", "größer".encode(), "größer"),
        ("StringDeserializer", b"text", "text"),
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\0" * 7 + b"\x2a", 42),
        ("ByteArrayDeserializer", b"\xff", b"\xff"),
        (lambda data: data[::-1], b"abc", b"cba"),
        (None, b"plain", b"plain"),
    ],
)
def test_keys_and_values_are_deserialized(name: Any, content: bytes, meant: Any) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [RecordInput(content, content, 1), RecordInput(None, None, 1)])
        async with world.consumer(key_deserializer=name, value_deserializer=name) as consumer:
            consumer.assign([T0])
            full, empty = await take(consumer, 2)
            assert (full.key, full.value) == (meant, meant)
            assert (empty.key, empty.value) == (None, None)
            assert (full.serialized_key_size, full.serialized_value_size) == (len(content), len(content))
            assert (empty.serialized_key_size, empty.serialized_value_size) == (-1, -1)

    told(story)


def test_a_record_that_cannot_be_deserialized_stops_in_front_of_it() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"good", b"\xff\xfe", b"also good"])
        async with world.consumer(value_deserializer="StringDeserializer") as consumer:
            consumer.assign([T0])
            assert values(await consumer.poll(1_000)) == ["good"]
            for _ in range(2):  # It stays where it is until the user moves it.
                with pytest.raises(
                    RecordDeserializationException, match="t-0 at offset 1 cannot be"
                ) as caught:
                    await consumer.poll(1_000)
                assert (caught.value.topic_partition, caught.value.offset) == (T0, 1)
                assert await consumer.position(T0) == 1
            consumer.seek(T0, 2)
            assert values(await consumer.poll(1_000)) == ["also good"]

    told(story)


def test_a_damaged_batch_stops_in_front_of_it_and_can_be_sought_past() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"good"])
        world.write("t", [b"damaged"])
        world.write("t", [b"good again"])
        file = world.partition("t").log.active.file
        content = bytes(file.read_at(0, file.size()))
        file.write_at(content.index(b"damaged"), b"Damaged")
        async with world.consumer() as consumer:
            consumer.assign([T0])
            assert values(await take(consumer, 1)) == [b"good"]
            for _ in range(2):
                with pytest.raises(CorruptRecordException, match=r"t-0 from offset 1 on: .*checksum"):
                    await consumer.poll(5_000)
            consumer.seek(T0, 2)
            assert values(await take(consumer, 1)) == [b"good again"]
        async with world.consumer(check_crcs=False) as trusting:
            trusting.assign([T0])
            assert values(await take(trusting, 3)) == [b"good", b"Damaged", b"good again"]

    told(story)


@pytest.mark.mission("CONS-17")
def test_records_carry_everything_as_objects_and_as_columns() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", message_timestamp_type="CreateTime")
        await world.topic("stamped", message_timestamp_type="LogAppendTime")
        headers = (("h", b"1"), ("h", None))
        world.write("t", [RecordInput(b"k", b"v", 1_234, headers), RecordInput(None, b"", 5_678)])
        world.write("stamped", [RecordInput(b"k", None, 1_234)])
        stamped_ms = world.runtime.clock.now_ms()
        async with world.consumer() as consumer:
            consumer.assign([("t", 0), ("stamped", 0)])
            records = sorted(await take(consumer, 3))
            assert records == [
                ("stamped", 0, 0, stamped_ms, TimestampType.LOG_APPEND_TIME, b"k", None, (), 0, 1, -1),
                ("t", 0, 0, 1_234, TimestampType.CREATE_TIME, b"k", b"v", headers, 0, 1, 1),
                ("t", 0, 1, 5_678, TimestampType.CREATE_TIME, None, b"", (), 0, -1, 0),
            ]
            consumer.seek_to_beginning()
            rows: list[dict[str, Any]] = []
            while len(rows) < 3:
                batch = await consumer.poll_arrow(1_000)
                assert batch.schema.names == [
                    "topic", "partition", "offset", "timestamp", "key", "value", "headers"
                ]  # fmt: skip
                rows += batch.to_pylist()
            rows.sort(key=lambda row: (row["topic"], row["offset"]))
            assert [(row["topic"], row["offset"], row["key"], row["value"]) for row in rows] == [
                ("stamped", 0, b"k", None),
                ("t", 0, b"k", b"v"),
                ("t", 1, None, b""),
            ]
            assert [row["timestamp"].timestamp() for row in rows] == [stamped_ms / 1000, 1.234, 5.678]
            assert rows[1]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
            assert rows[2]["headers"] is None

    told(story)


def test_a_loop_can_be_left_and_entered_again_without_loss_or_repeat() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 3)
        for index in range(3):
            world.write("t", [b"%d-%d" % (index, n) for n in range(100)], index)
        async with world.consumer(group_id="g") as consumer:
            consumer.assign([("t", index) for index in range(3)])
            found: list[ConsumerRecord] = []
            while len(found) < 300:
                count = 0
                async for record in consumer:
                    found.append(record)
                    count += 1
                    if count == 37 or len(found) == 300:
                        break
                mine = {one.topic_partition: one.offset + 1 for one in found}
                for where, offset in mine.items():
                    assert await consumer.position(where) == offset
                await consumer.commit()
                committed = await consumer.committed(mine)
                assert {where: at and at.offset for where, at in committed.items()} == mine
            assert len(set(found)) == 300
            assert not await consumer.poll(100)

    told(story)


def test_a_wakeup_ends_a_poll_once() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        async with world.consumer() as consumer:
            consumer.assign([T0])
            waiting = asyncio.ensure_future(consumer.poll(3_600_000))
            await world.runtime.tasks.sleep(1)
            consumer.wakeup()
            with pytest.raises(WakeupException):
                await waiting
            world.write("t", [b"x"])
            assert len(await take(consumer, 1)) == 1
            consumer.wakeup()  # Before the call it is to end.
            with pytest.raises(WakeupException):
                await consumer.end_offsets([T0])
            assert await consumer.end_offsets([T0]) == {T0: 1}

    told(story)


@pytest.mark.mission("CFG-20")
def test_without_a_group_there_is_no_subscription_and_no_commit() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        async with world.consumer() as consumer:
            with pytest.raises(IllegalStateException, match="not subscribed to any topics"):
                await consumer.poll(0)
            with pytest.raises(InvalidGroupIdException, match=r"you must provide a valid group\.id"):
                consumer.subscribe(["t"])
            consumer.assign([T0])
            with pytest.raises(InvalidGroupIdException, match=r"group\.id"):
                await consumer.commit()
            with pytest.raises(InvalidGroupIdException, match=r"group\.id"):
                consumer.group_metadata()

    told(story)


def test_offsets_are_found_by_time() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        world.write("t", [RecordInput(None, b"x", 1_000 + 10 * n) for n in range(10)])
        async with world.consumer() as consumer:
            found = await consumer.offsets_for_times({("t", 0): 1_035, ("t", 1): 0})
            assert found[T0] == (4, 1_040, 0)
            assert found[TopicPartition("t", 1)] is None
            assert (await consumer.offsets_for_times({T0: 2_000}))[T0] is None
            with pytest.raises(TimeoutException):
                await consumer.end_offsets([("absent", 0)], timeout_ms=500)

    told(story, auto_create_topics_enable="false")


def test_a_fetch_session_says_only_what_is_new() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 5)
        for index in range(5):
            world.write("t", [b"x"], index)
        async with world.consumer() as consumer:
            consumer.assign([("t", index) for index in range(5)])
            await take(consumer, 5)
            assert len(world.broker.parts.read.sessions) == 1
            (session,) = world.broker.parts.read.sessions._sessions.values()
            epoch = session.epoch
            world.write("t", [b"y"], 3)
            assert [record.partition for record in await take(consumer, 1)] == [3]
            await consumer.poll(2_000)
            assert session.epoch > epoch, "the session went on"
            offsets = {key.partition: of.fetch_offset for key, of in session.partitions.items()}
            assert offsets == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1}
            consumer.pause([("t", 0)])
            await consumer.poll(2_000)
            assert sorted(key.partition for key in session.partitions) == [1, 2, 3, 4]
            consumer.resume([("t", 0)])
            world.write("t", [b"z"], 0)
            assert [record.partition for record in await take(consumer, 1)] == [0]
            assert len(world.broker.parts.read.sessions) == 1, "it is still the same session"

    told(story)


def test_a_seek_does_not_wait_for_a_fetch_that_waits() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        world.write("t", [b"first"])
        clock = world.runtime.clock
        async with world.consumer(fetch_max_wait_ms=60_000) as consumer:
            consumer.assign([T0])
            await take(consumer, 1)
            assert not await consumer.poll(5_000), "a fetch waits at the broker now"
            since = clock.monotonic()
            consumer.seek(T0, 0)
            assert values(await take(consumer, 1)) == [b"first"]
            assert clock.monotonic() - since < 0.5
            assert not await consumer.poll(5_000)
            world.write("t", [b"other"], 1)
            consumer.assign([T0, ("t", 1)])
            assert values(await take(consumer, 1)) == [b"other"], "nor does a new assignment"
            assert clock.monotonic() - since < 6

    told(story)


def test_a_partition_at_its_end_does_not_hold_up_one_with_much_to_read() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        world.write("t", [b"end"], 1)
        for _ in range(200):
            world.write("t", [b"x" * 10_000] * 5)
        clock = world.runtime.clock
        settings = {
            "fetch_max_wait_ms": 60_000,
            "max_partition_fetch_bytes": 200_000,
            "fetch_max_bytes": 400_000,
        }
        async with world.consumer(**settings) as consumer:
            consumer.assign([T0, ("t", 1)])
            since = clock.monotonic()
            rows = 0
            while rows < 1_001:
                rows += (await consumer.poll_arrow(30_000)).num_rows
            assert clock.monotonic() - since < 5, "no fetch waited for the partition that is at its end"

    told(story)


def test_a_topic_made_anew_is_read_from_its_beginning() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"old"] * 10)
        async with world.consumer() as consumer:
            consumer.assign([T0])
            await take(consumer, 10)
            await world.delete("t")
            await world.topic("t")
            world.write("t", [b"new"])
            assert values(await take(consumer, 1)) == [b"new"]

    told(story, auto_create_topics_enable="false")


def test_a_name_no_topic_can_have_is_said_by_the_next_poll() -> None:
    async def story(world: ReadingWorld) -> None:
        async with world.consumer(group_id="g") as consumer:
            consumer.subscribe(["not a name"])
            await world.runtime.tasks.sleep(10)
            with pytest.raises(InvalidTopicException, match="'not a name'"):
                await consumer.poll(10_000)
            assert len(consumer._engine.waiting.failures) <= 1, "one error, however often it was met"

    told(story)
