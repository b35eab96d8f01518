"""Fetched records are handed out once, in order, in pieces of any size, by kernels or without, and can be given back.

Method: random logs of plain, compressed, transactional and control batches, cut into answers at random; the reference is the plain
list of records a reader may see.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.client.fetch_buffer import DamagedRecordsError, FetchBuffer
from semel.core.client.fetched import Decoding, Piece, end_of
from semel.core.client.reset import EARLIEST
from semel.core.client.subscription import Subscription
from semel.core.records.batch import TimestampType
from semel.core.records.build import RecordInput, build_batch
from semel.core.records.control import build_marker
from semel.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Log:
    """Batches of one partition, what a reader of committed records sees, and which transactions were aborted."""

    def __init__(self, dice: random.Random) -> None:
        self.batches: list[bytes] = []
        self.shown: list[tuple[int, bytes | None]] = []
        self.aborted: list[tuple[int, int]] = []
        self.end = 0
        for number in range(dice.randint(1, 12)):
            kind = dice.choice(["plain", "compressed", "committed", "aborted", "stamped"])
            self._add(number, kind, dice)

    def _add(self, number: int, kind: str, dice: random.Random) -> None:
        records = [
            RecordInput(
                None, b"%d-%d" % (number, index), 1_000 + index, (("h", b"%d" % index),) * (index % 2)
            )
            for index in range(dice.randint(1, 9))
        ]
        options: dict[str, Any] = {"base_offset": self.end, "partition_leader_epoch": number // 4}
        if kind == "compressed":
            options["compression"] = dice.randint(1, 4)
        if kind == "stamped":
            options |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time_ms": 9_999}
        if kind in ("committed", "aborted"):
            options |= {"producer_id": number, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        self.batches.append(bytes(build_batch(records, **options)))
        if kind == "aborted":
            self.aborted.append((number, self.end))
        else:
            self.shown += [(self.end + index, one.value) for index, one in enumerate(records)]
        self.end += len(records)
        if kind in ("committed", "aborted"):
            self.batches.append(
                bytes(
                    build_marker(
                        producer_id=number,
                        producer_epoch=0,
                        coordinator_epoch=0,
                        commit=kind == "committed",
                        timestamp_ms=1,
                        base_offset=self.end,
                    )
                )
            )
            self.end += 1


def buffer_for(*partitions: TopicPartition) -> tuple[Subscription, FetchBuffer]:
    subscription = Subscription()
    subscription.assign(partitions)
    for where in partitions:
        subscription.seek(where, 0)
    buffer = FetchBuffer(
        subscription, fetch_max_bytes=1_000_000, max_partition_fetch_bytes=500, check_crcs=True
    )
    return subscription, buffer


def seen(pieces: list[Piece]) -> list[tuple[int, bytes | None]]:
    found = []
    for piece in pieces:
        lists = piece.lists()
        found += list(zip(lists.offsets, lists.values, strict=True))
        assert piece.columns().column(0).to_pylist() == lists.offsets
    return found


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), decoding=st.sampled_from(list(Decoding)))
def test_every_record_once_and_in_order(seed: int, decoding: Decoding) -> None:
    dice = random.Random(seed)
    log = Log(dice)
    subscription, buffer = buffer_for(A)
    state = subscription.state(A)
    whole = b"".join(log.batches)
    starts = {0: 0}
    position = offset = 0
    for one in log.batches:
        position, offset = position + len(one), end_of(one) or 0
        starts[offset] = position
    found: list[tuple[int, bytes | None]] = []
    while subscription.state(A).position != log.end:
        if A in buffer.wants().wanted and state.fetch_offset < log.end:
            start = starts[state.fetch_offset]
            size = dice.randint(1, 900)
            first = next(end for end in sorted(starts.values()) if end > start)
            answer = whole[
                start : max(first, start + size)
            ]  # At least one whole batch, often a part of another.
            buffer.add(A, state.turn, state.fetch_offset, answer, log.aborted)
        pieces = buffer.take(dice.choice([1, 3, 1000, None]), decoding=decoding)
        got = seen(pieces)
        if pieces and dice.random() < 0.3:
            kept = dice.randint(0, len(got))
            rest, left = [], kept
            for piece in pieces:
                if left >= piece.count:
                    left -= piece.count
                else:
                    rest.append(piece.split(left)[1] if left else piece)
                    left = 0
            buffer.give_back(rest)
            got = got[:kept]
            assert state.position == (rest[0].offset_at(0) if rest else state.position)
        found += got
    assert found == log.shown
    assert buffer.size_bytes == 0 or not seen(buffer.take(None, decoding=decoding))


def half_looked_at() -> tuple[Subscription, FetchBuffer, list[Piece]]:
    """Ten records of leader epoch 3 were handed out; the user has looked at four, and these are the others."""
    subscription, buffer = buffer_for(A)
    assert subscription.led_under(A, 3)
    batch = build_batch([RecordInput(None, b"%d" % n, 1) for n in range(10)], partition_leader_epoch=3)
    buffer.add(A, subscription.state(A).turn, 0, bytes(batch), [])
    (piece,) = buffer.take(None, decoding=Decoding.PLAIN)
    assert subscription.state(A).position == 10
    return subscription, buffer, [piece.split(4)[1]]


def test_what_was_not_looked_at_is_given_back_whoever_leads_by_then() -> None:
    subscription, buffer, rest = half_looked_at()
    assert not subscription.led_under(A, 4), "the position is to be checked"
    buffer.give_back(rest)
    state = subscription.state(A)
    assert (state.position, state.fetch_offset, state.is_unchecked) == (4, 4, True)
    subscription.checked(A, state.turn, 4)
    again = build_batch([RecordInput(None, b"%d" % n, 1) for n in range(10)], partition_leader_epoch=3)
    buffer.add(A, state.turn, 4, bytes(again), [])
    assert [offset for offset, _ in seen(buffer.take(None, decoding=Decoding.PLAIN))] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(("common", "position"), [(6, 4), (4, 4), (2, 2)])
def test_what_was_not_looked_at_of_a_log_that_was_cut_off(common: int, position: int) -> None:
    subscription, buffer, rest = half_looked_at()
    assert not subscription.led_under(A, 4)
    subscription.cut_off(A, common, 3, 4)
    buffer.give_back(rest)
    assert subscription.state(A).position == subscription.state(A).fetch_offset == position


def test_what_was_not_looked_at_of_a_log_that_does_not_have_the_position() -> None:
    subscription, buffer, rest = half_looked_at()
    subscription.lose_position(A, EARLIEST)
    subscription.found(A, subscription.state(A).turn, 7)
    buffer.give_back(rest)
    assert subscription.state(A).position == 4


@pytest.mark.parametrize("how", ["seek", "reset"])
def test_who_seeks_gets_nothing_of_the_rest(how: str) -> None:
    subscription, buffer, rest = half_looked_at()
    if how == "seek":
        subscription.seek(A, 8)
    else:
        subscription.reset(A, EARLIEST)
    buffer.give_back(rest)
    assert subscription.state(A).position == (8 if how == "seek" else None)


def test_who_stamped_a_record_and_its_leader_epoch_follow_its_batch() -> None:
    for decoding in (Decoding.KERNELS, Decoding.PLAIN):
        subscription, buffer = buffer_for(A)
        stamped = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time_ms": 5}
        first = build_batch([RecordInput(None, b"1", 1)] * 2, partition_leader_epoch=3)
        second = build_batch(
            [RecordInput(None, b"2", 1)],
            base_offset=2,
            partition_leader_epoch=4,
            **stamped,  # type: ignore[arg-type]
        )
        buffer.add(A, subscription.state(A).turn, 0, bytes(first + second), [])
        (piece,) = buffer.take(None, decoding=decoding)
        assert piece.shared() == ([0, 0, 1], [3, 3, 4])
        assert piece.lists().timestamps == [1, 1, 5]
        assert subscription.state(A).leader_epoch == 4


def test_a_position_has_the_leader_epoch_of_the_batch_before_it_also_of_a_hidden_one() -> None:
    """Else a marker that the next leader wrote would make the position look like one that the log has lost."""
    records = build_batch([RecordInput(None, b"1", 1)] * 2, partition_leader_epoch=3)
    marker = build_marker(
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        commit=True,
        timestamp_ms=1,
        base_offset=2,
        partition_leader_epoch=4,
    )
    for decoding in (Decoding.KERNELS, Decoding.PLAIN):
        for answers in ([bytes(records + marker)], [bytes(records), bytes(marker)]):
            subscription, buffer = buffer_for(A)
            state = subscription.state(A)
            for data, offset in zip(answers, (0, 2), strict=False):
                buffer.add(A, state.turn, offset, data, [])
            (first,) = buffer.take(1, decoding=decoding)
            assert (state.position, state.leader_epoch, first.last_leader_epoch) == (1, 3, 3)
            pieces = buffer.take(None, decoding=decoding)
            assert (state.position, state.leader_epoch) == (3, 4)
            assert [(piece.next_offset, piece.last_leader_epoch) for piece in pieces] == [(3, 4)]


def test_what_was_asked_for_before_a_seek_is_thrown_away() -> None:
    subscription, buffer = buffer_for(A, B)
    turn = subscription.state(A).turn
    data = bytes(build_batch([RecordInput(None, b"x", 1)]))
    buffer.add(A, turn, 0, data, [])
    subscription.seek(A, 0)
    buffer.add(A, turn, 0, data, [])
    assert buffer.take(None, decoding=Decoding.PLAIN) == []
    buffer.add(A, subscription.state(A).turn, 0, data, [])
    buffer.add(A, subscription.state(A).turn, 0, data, [])  # An answer that came twice.
    assert len(seen(buffer.take(None, decoding=Decoding.PLAIN))) == 1


def test_a_large_chunk_waits_for_kernels_and_what_follows_it_waits_too() -> None:
    subscription, buffer = buffer_for(A)
    turn = subscription.state(A).turn
    large = bytes(build_batch([RecordInput(None, b"x" * 300_000, 1)]))
    buffer.add(A, turn, 0, large, [])
    subscription.state(A).buffered_bytes = 0
    buffer.add(A, turn, 1, bytes(build_batch([RecordInput(None, b"small", 1)], base_offset=1)), [])
    assert buffer.take(None, decoding=Decoding.PLAIN_WHILE_SMALL) == []
    assert [offset for offset, _ in seen(buffer.take(None, decoding=Decoding.KERNELS))] == [0, 1]


@pytest.mark.parametrize("decoding", [Decoding.KERNELS, Decoding.PLAIN])
def test_bytes_without_a_whole_batch_are_said_to_be_so(decoding: Decoding) -> None:
    subscription, buffer = buffer_for(A)
    data = bytes(build_batch([RecordInput(None, b"x" * 500, 1)]))
    buffer.add(A, subscription.state(A).turn, 0, data[:200], [])
    with pytest.raises(DamagedRecordsError, match=r"a-0 from offset 0 on: .*no whole batch"):
        buffer.take(None, decoding=decoding)
