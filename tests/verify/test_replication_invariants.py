"""The judgement of a replicated cluster says what is broken, and nothing where nothing is.

Method: sightings written by hand, right ones first; then one thing is made wrong at a time, and the sentence must name the invariant, the
partition and both values.
"""

from dataclasses import replace

import pytest

from semel.core.idempotence.producer_window import ProducerEntry
from semel.core.replication.epochs import EpochEnd
from semel.verify.history.events import Given, Place, Settled, Unsure
from semel.verify.history.run import History
from semel.verify.simulation import replication_invariants
from semel.verify.simulation.replicas import (
    BatchSeen,
    Ends,
    EndSeen,
    LackSeen,
    Led,
    MovedAlone,
    NewsGoneBack,
    ReplicaSeen,
    Sightings,
    StateSeen,
)

_PLACE = Place(b"t" * 16, 0)
_FIRST = BatchSeen(0, 2, 0, 80, 0xA)
_SECOND = BatchSeen(2, 3, 1, 70, 0xB)
_OTHER = BatchSeen(2, 3, 1, 70, 0xC)
_PRODUCER = ProducerEntry(7, 0, -1, 1000, None, b"")


def _state(
    at: float, leader: int, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)
) -> StateSeen:
    return StateSeen(at, "orders", _PLACE, replicas, (), leader, epoch, isr, epoch)


def _replica(
    at: float, broker: int, leads_in: int | None, *batches: BatchSeen, high_watermark: int = 2
) -> ReplicaSeen:
    end = batches[-1].next_offset if batches else 0
    return ReplicaSeen(at, broker, "orders", _PLACE, leads_in, 0, end, high_watermark, batches, (_PRODUCER,))


def _end(at: float, offset: int, leader: int) -> EndSeen:
    return EndSeen(at, at - 0.1, "reader", "orders", _PLACE, leader, committed=False, offset=offset)


def _right() -> tuple[History, Sightings]:
    """Broker 1 led, then broker 2; the batch at 0 was acknowledged in epoch 0."""
    history = History()
    history.add(Unsure("orders", 0.0, 0.5, _PLACE.topic_id))
    history.add(Given(1.0, "producer.1", 0, "orders", 0, (b"a", b"b")))
    history.add(Settled(1.2, 1.1, "producer.1", 0, _PLACE.topic_id, 0, 1))
    seen = Sightings(
        states=[_state(0.5, 1, 0, (1, 2, 3)), _state(2.0, 2, 1, (2, 3)), _state(4.0, 2, 1, (2, 3, 1))],
        led=[Led(0.6, 1, "orders", _PLACE, 0, 0.1, 0.2), Led(2.1, 2, "orders", _PLACE, 1, 0.1, 0.2)],
        looks=[
            _replica(1.5, 1, 0, _FIRST),
            _replica(1.5, 2, None, _FIRST, high_watermark=0),
            _replica(3.0, 2, 1, _FIRST, _SECOND),
            _replica(3.0, 3, None, _FIRST, _SECOND),
        ],
        ends=[_end(1.4, 2, 1), _end(3.0, 2, 2), _end(5.0, 3, 2)],
        last=[
            _replica(9.0, one, 1 if one == 2 else None, _FIRST, _SECOND, high_watermark=3)
            for one in (1, 2, 3)
        ],
    )
    return history, seen


def _broken(history: History, seen: Sightings) -> str:
    return "\n".join(one.why for one in replication_invariants.judge(history, seen))


def test_nothing_is_broken_where_everything_is_right() -> None:
    assert _broken(*_right()) == ""


def test_a_leader_that_lacks_what_was_acknowledged_breaks_i1() -> None:
    history, seen = _right()
    seen.looks[2] = _replica(3.0, 2, 1, high_watermark=0)
    assert (
        "I1: orders-0 on broker 2 leads in epoch 1, and offset 0, of which producer.1 (batch 0) was told"
        in _broken(history, seen)
    )


def test_a_record_that_was_acknowledged_later_is_not_missed_on_an_earlier_leader() -> None:
    history, seen = _right()
    seen.looks[2] = _replica(1.15, 2, 1, high_watermark=0)
    assert _broken(history, seen) == ""


def test_a_deposed_leader_needs_nothing_that_was_acknowledged_after_its_time() -> None:
    history, seen = _right()
    seen.states.insert(1, _state(1.0, 3, 1, (1, 2, 3)))
    seen.states[2:] = [_state(1.1, 2, 2, (2, 3)), _state(4.0, 2, 2, (2, 3, 1))]
    seen.led[1:] = [Led(1.05, 3, "orders", _PLACE, 1, 0.1, 0.2), Led(2.1, 2, "orders", _PLACE, 2, 0.1, 0.2)]
    seen.looks[2:] = [_replica(3.0, 3, 1, high_watermark=0)]
    assert _broken(history, seen) == ""


def test_a_committed_batch_that_changes_breaks_i2() -> None:
    history, seen = _right()
    seen.looks.append(_replica(3.5, 3, None, _FIRST, _OTHER, high_watermark=3))
    text = _broken(history, seen)
    assert "I2: offset 2 of orders-0 on broker 1" in text
    assert "0xb" in text
    assert "0xc" in text


def test_what_lies_above_the_high_watermark_may_differ_meanwhile() -> None:
    history, seen = _right()
    seen.looks.append(_replica(2.5, 1, 0, _FIRST, _OTHER, high_watermark=2))
    assert _broken(history, seen) == ""


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (_replica(9.0, 3, None, _FIRST, high_watermark=2), "they end at 2 and 3, high watermarks 2 and 3"),
        (
            _replica(9.0, 3, None, _FIRST, _SECOND, high_watermark=2),
            "they end at 3 and 3, high watermarks 2 and 3",
        ),
        (
            _replica(9.0, 3, None, _FIRST, _OTHER, high_watermark=2),
            "offset 2 is in the batch [2, 3) of epoch 1",
        ),
    ],
)
def test_replicas_that_differ_in_the_end_break_i2(last: ReplicaSeen, text: str) -> None:
    history, seen = _right()
    seen.last[2] = last
    assert f"I2: in the end orders-0 on broker 3 is not as on broker 1: {text}" in _broken(history, seen)


def test_a_member_of_the_isr_that_lacks_what_is_committed_breaks_i1() -> None:
    history, seen = _right()
    seen.lacks.append(LackSeen(3.0, 3, "orders", _PLACE, (2, 3), EpochEnd(1, 3), EpochEnd(0, 2)))
    assert (
        "I1: orders-0 is committed up to 3, the last record of epoch 1; broker 3 is in the ISR [2, 3], its log ends at 2"
        in _broken(history, seen)
    )


def test_a_leader_that_commits_with_too_few_breaks_i4() -> None:
    history, seen = _right()
    seen.moved_alone.append(MovedAlone(3.0, 2, "orders", _PLACE, (2,), Ends(2, 2), Ends(2, 3)))
    assert "I4: broker 2 leads orders-0 with the ISR [2], below min.insync.replicas" in _broken(history, seen)


def test_a_leader_by_an_order_for_its_former_life_breaks_i3() -> None:
    history, seen = _right()
    seen.led[1] = Led(2.1, 2, "orders", _PLACE, 1, alive_since=2.05, ordered_at=2.0)
    assert (
        "I3: orders-0 in epoch 1 is led by broker 2, which was started at 2.0500 s: that was ordered before"
        in _broken(history, seen)
    )


def test_a_leader_whose_time_was_over_breaks_i3() -> None:
    history, seen = _right()
    seen.led.append(Led(5.0, 2, "orders", _PLACE, 1, 0.1, 0.2, again=True))
    assert "I3: orders-0 in epoch 1 is led by broker 2 again: its time was over" in _broken(history, seen)


def test_metadata_that_goes_back_breaks_i3() -> None:
    history, seen = _right()
    seen.went_back.append(NewsGoneBack(3.0, 3, "orders", _PLACE, before=1, now=0))
    assert "I3: broker 3 believes that orders-0 is led in epoch 0, and knew epoch 1 before" in _broken(
        history, seen
    )


def test_two_leaders_of_one_epoch_and_one_that_nobody_named_break_i3() -> None:
    history, seen = _right()
    seen.led.append(Led(2.2, 3, "orders", _PLACE, 1, 0.1, 0.2))
    seen.led.append(Led(2.3, 3, "orders", _PLACE, 5, 0.1, 0.2))
    text = _broken(history, seen)
    assert "I3: orders-0 in epoch 1 is led by broker 3 and by 2" in text
    assert "I3: orders-0 in epoch 5 is led by broker 3, ZooKeeper names nobody" in text


def test_epochs_that_go_back_in_a_log_break_i3() -> None:
    history, seen = _right()
    seen.looks.append(_replica(3.5, 3, None, _SECOND, BatchSeen(3, 4, 0, 70, 0xD), high_watermark=0))
    assert "I3: orders-0 on broker 3 has epoch 0 at offset 3 behind epoch 1 at 2" in _broken(history, seen)


def test_an_end_that_goes_back_breaks_i4_unless_it_was_asked_for_before() -> None:
    history, seen = _right()
    late = replace(_end(5.5, 2, 2), since=4.9)
    seen.ends.append(late)
    assert _broken(history, seen) == ""
    seen.ends.append(_end(6.0, 2, 2))
    assert "I4: broker 2 told reader that orders-0 may be read up to 2; it was 3 at 5.0000 s" in _broken(
        history, seen
    )


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (_state(5.0, 1, 2, (2, 3)), "I5: broker 1 leads orders-0, version 2, and is not in its ISR [2, 3]"),
        (_state(5.0, -1, 2, ()), "I5: the ISR of orders-0, version 2 is empty"),
        (
            _state(5.0, 1, 2, (1, 4)),
            "I5: the ISR [1, 4] of orders-0, version 2 is not among its replicas [1, 2, 3]",
        ),
        (_state(5.0, 1, 2, (1, 1)), "names a broker twice: [1, 1]"),
    ],
)
def test_states_that_cannot_be_break_i5(state: StateSeen, text: str) -> None:
    history, seen = _right()
    seen.states.append(state)
    assert text in _broken(history, seen)


def test_producers_that_replicas_of_the_same_know_differently_break_i6() -> None:
    history, seen = _right()
    seen.last[1] = replace(seen.last[1], producers=(replace(_PRODUCER, producer_epoch=1),))
    assert "I6: orders-0 on broker 2 ends at 3 and knows the producers [7] otherwise than broker" in _broken(
        history, seen
    )
