"""The host keeps a shard equal to its log, answers only what is safe, and gets over whatever the log does.

Method: a shard as small as can be (names with numbers, and people who wait) on a real broker's partitions, on a simulated
host whose disk fails and whose clock jumps on command.
"""

import asyncio
import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from semel.broker import topics
from semel.broker.coordinators.java_hash import partition_for
from semel.core.coordination.outcome import Outcome, Ticket
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.group_rows import GroupMetadataValue
from semel.core.wire.messages.heartbeat import HeartbeatResponse
from semel.errors import ErrorCode, InvariantError
from semel.peers.kafka import KafkaHome
from semel.runtime.clock import SimulatedClock
from support.broker.admin_kit import Client, told
from support.broker.host_kit import (
    NOTHING,
    TOPIC,
    Toy,
    got,
    host_of,
    in_transaction,
    named,
    numbers,
    put,
    settled_host,
    wait,
    with_topic,
)


def test_an_answer_that_is_ready_costs_no_waiting() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        assert isinstance(host.ask("a", put("a", 1)), HeartbeatResponse)
        assert numbers(host) == {"a": 1}

    async def after(client: Client) -> None:
        host = host_of(client)
        host.start()
        await client.broker.runtime.tasks.sleep(1)
        assert numbers(host) == {"a": 1}

    told(story, after)


def test_whoever_waits_is_answered_by_a_later_outcome() -> None:
    async def story(client: Client) -> None:
        effects: list[str] = []
        host = host_of(client, effects)
        assert await got(host.ask("a", put("a", 1))) == HeartbeatResponse(throttle_time_ms=0)
        first, second = host.ask("a", wait), host.ask("a", wait)
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)
        assert not first.done()
        second.cancel()  # Its client has gone.
        assert isinstance(host.ask("a", put("b", 1)), HeartbeatResponse)
        assert await first == HeartbeatResponse(throttle_time_ms=1)
        await client.broker.runtime.tasks.sleep(0)
        assert effects == ["told 1", "told 3"]

    told(story)


def test_effects_begin_when_the_answer_has_left_and_before_the_next_request() -> None:
    async def story(client: Client) -> None:
        host, effects = await settled_host(client)
        seen: list[list[str]] = []
        client.broker.runtime.tasks.call_later(0, lambda: seen.append(list(effects)))
        assert isinstance(host.ask("a", put("a", 2)), HeartbeatResponse)
        assert effects == [], "the answer is held up by what nobody waits for"
        await client.broker.runtime.tasks.sleep(0.01)
        assert seen == [["told 1"]], "a timer, or a request, came before them"

    told(story)


def test_effects_of_a_dropped_shard_are_left_to_the_one_that_is_loaded() -> None:
    async def story(client: Client) -> None:
        host, effects = await settled_host(client)
        host.ask("a", put("a", 2))
        host.stop()
        await client.broker.runtime.tasks.sleep(0.01)
        assert effects == []

    told(story)


def test_answers_wait_for_the_disk_in_their_order() -> None:
    """With flush.messages=1 nothing is answered, not even a question that writes nothing, before the sync before it."""

    async def story(client: Client) -> None:
        effects: list[str] = []
        host = host_of(client, effects)
        await got(host.ask("a", put("a", 1)))
        order: list[str] = []

        def note(name: str, _answer: object) -> None:
            order.append(name)

        answers = [
            host.ask("a", put("a", 2)),
            host.ask("a", lambda toy, ticket, _now: toy.answer(ticket)),
            host.ask("a", put("b", 1)),
        ]
        for name, answer in zip("xyz", answers, strict=True):
            assert isinstance(answer, asyncio.Future)
            answer.add_done_callback(partial(note, name))
        log = client.partition(TOPIC).log
        assert log.high_watermark < log.log_end_offset
        await asyncio.gather(*(got(answer) for answer in answers))
        assert log.high_watermark == log.log_end_offset
        assert order == ["x", "y", "z"]
        assert effects == ["told 1"] * 4
        assert isinstance(host.ask("a", lambda toy, ticket, _now: toy.answer(ticket)), HeartbeatResponse)

    told(story, flush_messages="1")


def test_a_refused_append_drops_the_shard_and_loads_it_again() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))
        before = host.shards[0]
        waiting = host.ask("a", wait)
        client.disk.fail("write", errno.ENOSPC, path_part=TOPIC)
        assert host.ask("a", put("a", 2)) is ErrorCode.NOT_COORDINATOR
        assert await got(waiting) is ErrorCode.NOT_COORDINATOR
        client.disk.clear_faults()
        assert numbers(host) == {"a": 1}
        assert host.shards[0] is not before
        assert isinstance(host.ask("a", put("a", 3)), HeartbeatResponse)
        assert numbers(host) == {"a": 3}

    async def after(client: Client) -> None:
        assert numbers(host_of(client)) == {"a": 3}

    told(story, after)


@pytest.mark.parametrize("rows_only", [True, False])
def test_rows_that_are_too_large_are_refused_alone(rows_only: bool) -> None:
    """Unless deciding on them has changed the shard already: then it is loaded again, and whoever waits is told."""

    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))
        before = host.shards[0]

        def large(_toy: Toy, ticket: Ticket, _now_ms: int) -> Outcome[str]:
            rows = [named("a", 2, padding=30_000)] * 40
            return Outcome(rows=rows, replies=[(ticket, NOTHING)], rows_only=rows_only)

        waiting = host.ask("a", wait)
        assert isinstance(waiting, asyncio.Future)
        assert host.ask("a", large) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert waiting.done() is not rows_only
        assert numbers(host) == {"a": 1}
        assert (host.shards[0] is before) is rows_only

    told(story)


def test_rows_that_are_too_large_are_refused_before_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty megabytes of assignments would hold every client up while a batch is made of them, for nothing."""
    built: list[int] = []

    def counted(records: Sequence[RecordInput], **options: Any) -> bytearray:
        built.append(len(records))
        return build_batch(records, **options)

    monkeypatch.setattr("semel.broker.coordinators.host.build_batch", counted)

    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))

        def large(_toy: Toy, ticket: Ticket, _now_ms: int) -> Outcome[str]:
            rows = [named("a", 2, padding=30_000)] * 40
            return Outcome(rows=rows, replies=[(ticket, NOTHING)], rows_only=True)

        assert host.ask("a", large) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert built == [1]

    told(story)


def test_a_row_no_message_can_hold_is_refused_alone() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))
        assert host.ask("a", put("n" * 40_000, 2)) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert numbers(host) == {"a": 1}

    told(story)


def test_a_failed_sync_is_answered_as_not_known() -> None:
    async def story(client: Client) -> None:
        host = host_of(client)
        await got(host.ask("a", put("a", 1)))
        client.disk.fail("sync", errno.EIO, path_part=TOPIC)
        answers = [host.ask("a", put("a", 2)), host.ask("a", wait)]
        assert [await got(answer) for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 2
        client.disk.clear_faults()
        await client.broker.runtime.tasks.sleep(1)
        answer = await got(host.ask("a", put("a", 3)))
        assert answer in (ErrorCode.NOT_COORDINATOR, HeartbeatResponse(throttle_time_ms=1))

    told(story, flush_messages="1")


def test_a_shard_that_breaks_its_own_rules_is_loaded_again() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))
        waiting = host.ask("a", wait)

        def broken(toy: Toy, _ticket: Ticket, _now_ms: int) -> Outcome[str]:
            toy.numbers["a"] = 99
            raise InvariantError("on purpose")

        with pytest.raises(InvariantError):
            host.ask("a", broken)
        assert await got(waiting) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert numbers(host) == {"a": 1}

    told(story)


def test_a_long_log_is_loaded_beside_other_work() -> None:
    rows = 2000

    async def before(client: Client) -> None:
        host = await with_topic(client)
        for number in range(rows):
            host.ask("a", put(f"name-{number % 500}", number, padding=100))

    async def after(client: Client) -> None:
        host = host_of(client)
        assert host.ask("a", wait) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert host.look(lambda toy: toy.numbers) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        turns = 0
        while (
            host.ask("a", lambda toy, ticket, _now: toy.answer(ticket))
            is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ):
            await client.broker.runtime.tasks.sleep(0)
            turns += 1
        assert turns > 2
        assert numbers(host) == {f"name-{number % 500}": number for number in range(rows - 500, rows)}

    told(before, after)


def test_rows_of_transactions_count_from_their_marker_on_live_and_in_replay() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        for producer_id in (1, 2, 3):
            host.tell(0, partial(in_transaction, producer_id))
        assert numbers(host) == {}
        for producer_id, commit in ((1, True), (2, False)):
            code = host.append_marker(
                0, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, commit=commit
            )
            assert code is ErrorCode.NONE
        assert numbers(host) == {"by-1": 1}
        fenced = host.append_marker(0, producer_id=1, producer_epoch=-1, coordinator_epoch=0, commit=True)
        assert fenced is ErrorCode.INVALID_PRODUCER_EPOCH

    async def after(client: Client) -> None:
        host = host_of(client)
        assert numbers(host) == {"by-1": 1}
        assert list(host.shards[0].pending) == [3]

    told(story, after)


def test_time_in_a_shard_does_not_jump() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        clock = client.broker.runtime.clock
        assert isinstance(clock, SimulatedClock)
        begun_ms = host.now_ms()
        assert abs(begun_ms - clock.now_ms()) <= 1

        def in_ten_seconds(toy: Toy, ticket: Ticket, now_ms: int) -> Outcome[str]:
            toy.deadline_ms = now_ms + 10_000
            return toy.answer(ticket)

        host.ask("a", in_ten_seconds)
        clock.jump(3_600_000)
        await client.broker.runtime.tasks.sleep(9)
        assert host.shards[0].rung_at_ms == []
        await client.broker.runtime.tasks.sleep(1.1)
        assert host.shards[0].rung_at_ms == [begun_ms + 10_000]

    told(story)


def test_what_is_written_down_is_the_wall_clocks_time() -> None:
    """The shard's own time has not moved: written times are moved by the difference, and back when they are read."""
    hour_ms = 3_600_000

    async def story(client: Client) -> None:
        host = await with_topic(client)
        clock = client.broker.runtime.clock
        assert isinstance(clock, SimulatedClock)

        def stamp(name: str) -> Callable[[Toy, Ticket, int], Outcome[str]]:
            def operation(toy: Toy, ticket: Ticket, now_ms: int) -> Outcome[str]:
                row = named(name, 1)
                assert isinstance(row.value, GroupMetadataValue)
                row.value.current_state_timestamp = now_ms if name != "timeless" else -1
                return toy.answer(ticket, row, rows_only=False)

            return operation

        host.ask("a", stamp("before"))
        clock.jump(hour_ms)
        host.ask("a", stamp("after"))
        host.ask("a", stamp("timeless"))
        begun_ms = host.shards[0].times["before"]
        assert host.shards[0].times == {"before": begun_ms, "after": begun_ms, "timeless": -1}
        assert (
            await got(host.ask("a", put("x" * 40_000, 1, rows_only=False))) is ErrorCode.UNKNOWN_SERVER_ERROR
        )
        numbers(host)  # Loaded again, by the clock of now.
        assert host.shards[0].times == {"before": begun_ms - hour_ms, "after": begun_ms, "timeless": -1}

    async def after(client: Client) -> None:
        host = host_of(client)
        numbers(host)
        times = host.shards[0].times
        assert times["after"] == times["before"] + hour_ms
        assert times["timeless"] == -1

    told(story, after)


def test_a_deadline_that_moves_is_kept_where_it_is() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client, partitions=2)
        keys = ["a", "b"]
        assert sorted(host.partition_of(key) for key in keys) == [0, 1]
        tasks = client.broker.runtime.tasks

        def rings_in(milliseconds: int) -> Callable[[Toy, Ticket, int], Outcome[str]]:
            def operation(toy: Toy, ticket: Ticket, now_ms: int) -> Outcome[str]:
                toy.deadline_ms = now_ms + milliseconds
                return toy.answer(ticket)

            return operation

        host.ask("a", rings_in(1000))
        host.ask("b", rings_in(5000))
        await tasks.sleep(0.9)
        host.ask("a", rings_in(1000))  # As a heartbeat does.
        await tasks.sleep(0.9)
        assert [toy.rung_at_ms for toy in host.shards] == [[], []]
        await tasks.sleep(0.2)
        assert sorted(len(toy.rung_at_ms) for toy in host.shards) == [0, 1]
        host.ask("b", rings_in(100))
        await tasks.sleep(0.2)
        assert [len(toy.rung_at_ms) for toy in host.shards] == [1, 1]

    told(story)


def test_rows_that_are_refused_alone_stop_nobodys_time() -> None:
    """One client that asks for the impossible again and again must not keep the sessions of all others alive."""

    async def story(client: Client) -> None:
        host = await with_topic(client)

        def large(_toy: Toy, ticket: Ticket, _now_ms: int) -> Outcome[str]:
            rows = [named("a", 2, padding=30_000)] * 40
            return Outcome(rows=rows, replies=[(ticket, NOTHING)], rows_only=True)

        def rings_soon(toy: Toy, ticket: Ticket, now_ms: int) -> Outcome[str]:
            toy.deadline_ms = now_ms + 200
            return toy.answer(ticket)

        host.ask("a", rings_soon)
        for _ in range(10):
            assert host.ask("a", large) is ErrorCode.UNKNOWN_SERVER_ERROR
            await client.broker.runtime.tasks.sleep(0.1)
        assert len(host.shards[0].rung_at_ms) == 1

    told(story)


def test_what_is_overdue_on_a_full_disk_waits_between_its_attempts() -> None:
    """A shard that is loaded again finds its deadline passed; without a pause it would be refused and loaded for ever."""
    attempts: list[int] = []

    class Overdue(Toy):
        def loaded(self, now_ms: int) -> Outcome[str]:
            self.deadline_ms = None if "done" in self.numbers else now_ms
            return super().loaded(now_ms)

        def due(self, now_ms: int) -> Outcome[str]:
            attempts.append(now_ms)
            assert len(attempts) < 100
            self.deadline_ms = None
            return Outcome(rows=[named("done", 1)])

    async def story(client: Client) -> None:
        host = await with_topic(client)
        host._make_shard = lambda _index: Overdue()
        client.disk.fail("write", errno.ENOSPC, path_part=TOPIC, times=1000)
        host.start()
        await client.broker.runtime.tasks.sleep(10)
        assert 10 <= len(attempts) <= 21
        client.disk.clear_faults()
        await client.broker.runtime.tasks.sleep(1)
        assert numbers(host) == {"done": 1}

    told(story)


def test_stopping_answers_whoever_waits() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        waiting = host.ask("a", wait)
        host.stop()
        assert await got(waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert host.ask("a", wait) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    told(story)


def test_a_topic_that_is_deleted_takes_its_shards_along() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))
        await topics.delete_all(client.broker.parts.administration, [TOPIC])
        assert await got(host.ask("a", put("b", 2))) == HeartbeatResponse(throttle_time_ms=0)
        assert numbers(host) == {"b": 2}

    told(story)


@pytest.mark.java
def test_keys_belong_to_the_partitions_kafka_gives_them(kafka_home: KafkaHome, tmp_path: Path) -> None:
    """Against Java's own String.hashCode, the one without an absolute value included."""
    keys = ["", "a", "group", "Zürich", "\U0001f600 group", "polygenelubricants", "x" * 1000]
    program = tmp_path / "Hashes.java"
    program.write_text(
        "public class Hashes { public static void main(String[] keys) {"
        " for (String key : keys) System.out.println("
        " org.apache.kafka.common.utils.Utils.abs(key.hashCode()) % 50); } }",
        encoding="utf-8",
    )
    printed = kafka_home.run(str(program), *keys).split()
    assert [partition_for(key, 50) for key in keys] == [int(line) for line in printed]
    assert partition_for("polygenelubricants", 50) == 0
