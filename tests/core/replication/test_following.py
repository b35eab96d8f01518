"""What a follower makes of its leader's answers, and where it cuts its log.

Method: tables; the cut is also held against Kafka's cases of KIP-101 and KIP-279.
"""

import pytest

from semel.core.replication.epochs import NO_EPOCH_END, EpochEnd, EpochStart, epoch_end, led_epoch_end
from semel.core.replication.following import (
    BACKOFF_MS,
    Append,
    Ask,
    AskEnds,
    Following,
    StartAt,
    Step,
    Told,
    Truncate,
    Wait,
    truncation,
    visible_offset,
)
from semel.errors import ErrorCode

ENTRIES = [EpochStart(1, 0), EpochStart(3, 10), EpochStart(6, 15)]
END = 20


def following() -> Following:
    one = Following()
    assert one.become(leader_id=2, leader_epoch=7, partition_epoch=4)
    return one


def asked(one: Following, *, end: int = END, now_ms: int = 0) -> Ask | None:
    return one.ask(log_end_offset=end, log_start_offset=0, latest_epoch=6, now_ms=now_ms)


def told(one: Following, ask: Ask | None, answer: Told, *, end: int = END, now_ms: int = 0) -> Step:
    assert ask is not None
    return one.told(ask, answer, entries=ENTRIES, log_end_offset=end, high_watermark=12, now_ms=now_ms)


@pytest.mark.parametrize(
    ("leader_end", "cut"),
    [
        (EpochEnd(6, 18), Truncate(18, True)),
        (EpochEnd(6, 25), Truncate(20, True)),
        (EpochEnd(3, 12), Truncate(12, True)),
        (EpochEnd(3, 18), Truncate(15, True)),  # The leader wrote more in epoch 3 than came here.
        (EpochEnd(5, 17), Truncate(15, False)),  # Epoch 5 is not known here: KIP-279 asks again.
        (EpochEnd(2, 12), Truncate(10, False)),
        (EpochEnd(0, 0), Truncate(0, True)),
        (NO_EPOCH_END, Truncate(12, True)),
        (EpochEnd(-1, 14), Truncate(14, True)),  # A leader without epochs.
    ],
)
def test_where_a_log_is_cut(leader_end: EpochEnd, cut: Truncate) -> None:
    assert truncation(ENTRIES, leader_end, log_end_offset=END, high_watermark=12) == cut


def test_a_log_without_epochs_is_cut_where_the_leader_says() -> None:
    assert truncation([], EpochEnd(3, 7), log_end_offset=9, high_watermark=2) == Truncate(7, True)


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        (Told(high_watermark=19, log_start_offset=2), Append(19, 2)),
        (Told(diverging=EpochEnd(3, 12)), Truncate(12, True)),
        (Told(ErrorCode.OFFSET_OUT_OF_RANGE), AskEnds()),
        (Told(ErrorCode.UNKNOWN_LEADER_EPOCH), Wait()),
        (Told(ErrorCode.NOT_LEADER_OR_FOLLOWER), Wait()),
        (Told(ErrorCode.FENCED_LEADER_EPOCH), Wait()),
        (Told(ErrorCode.CORRUPT_MESSAGE), Wait()),
    ],
)
def test_what_an_answer_means(answer: Told, step: Step) -> None:
    one = following()
    assert told(one, asked(one), answer) == step


def test_an_error_is_followed_by_a_pause() -> None:
    one = following()
    told(one, asked(one), Told(ErrorCode.UNKNOWN_TOPIC_ID), now_ms=5)
    assert asked(one, now_ms=BACKOFF_MS + 4) is None
    assert asked(one, now_ms=BACKOFF_MS + 5) is not None


def test_a_fenced_follower_asks_nothing_until_it_is_told_more() -> None:
    one = following()
    told(one, asked(one), Told(ErrorCode.FENCED_LEADER_EPOCH))
    assert asked(one, now_ms=1 << 40) is None
    assert not one.become(leader_id=2, leader_epoch=7, partition_epoch=5), "the same epoch is no news"
    assert asked(one, now_ms=1 << 40) is None
    assert one.become(leader_id=3, leader_epoch=8, partition_epoch=6)
    assert asked(one) == Ask(8, END, 6, 0)


def test_an_answer_to_an_earlier_question_counts_no_more() -> None:
    one = following()
    first = asked(one, end=END - 1)
    second = asked(one)
    assert asked(one) is second, "the same question is asked once"
    assert told(one, first, Told(high_watermark=1)) is None
    assert told(one, second, Told(high_watermark=1), end=END - 1) is None, "the log has been cut meanwhile"
    assert told(one, second, Told(high_watermark=1)) is None, "nor does the same answer count twice"
    third = asked(one)
    one.become(leader_id=3, leader_epoch=8, partition_epoch=6)
    assert told(one, third, Told(high_watermark=1)) is None


def test_older_metadata_changes_nothing() -> None:
    one = following()
    assert not one.become(leader_id=9, leader_epoch=9, partition_epoch=3)
    assert (one.leader_id, one.leader_epoch) == (2, 7)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(0, 15, Truncate(15, True)), (0, 20, None), (0, 30, None), (20, 30, None), (25, 30, StartAt(25))],
)
def test_where_to_go_on_after_a_fetch_that_was_out_of_range(start: int, end: int, step: Step) -> None:
    found = following().ends(leader_start_offset=start, leader_end_offset=end, log_end_offset=END)
    assert found == step


def test_a_followers_high_watermark_is_the_leaders_as_far_as_its_log_reaches() -> None:
    found = [visible_offset(high, log_start_offset=5, log_end_offset=9) for high in (-1, 5, 7, 9, 12)]
    assert found == [5, 5, 7, 9, 9]


def test_the_leader_of_an_epoch_that_wrote_nothing_yet_knows_where_it_began() -> None:
    assert epoch_end(ENTRIES, 8, END) == NO_EPOCH_END
    found = [led_epoch_end(ENTRIES, epoch, END, 8) for epoch in (0, 1, 4, 6, 7, 8, 9)]
    assert found == [(0, 0), (1, 10), (3, 15), (6, 20), (6, 20), (8, 20), NO_EPOCH_END]
    assert led_epoch_end([], 3, 0, 4) == (3, 0)
