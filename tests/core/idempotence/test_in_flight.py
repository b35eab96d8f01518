"""The producer's queue: which batch leaves next, under which sequence, and what each outcome means.

Method: stories of one partition with the sends and decisions written out; a table of every place a batch can be in with
every event. The same queue against a broker over a lossy link: `test_order_over_a_lossy_link`.
"""

import copy

import pytest

from semel.core.idempotence.delivery import (
    Answered,
    Decision,
    EpochBumped,
    Event,
    Expired,
    Fail,
    Identity,
    Lost,
    NeedAbort,
    NeedProducerId,
    Retry,
    Send,
    Settle,
)
from semel.core.idempotence.in_flight import REST_MS, InFlight
from semel.errors import ConfigError, ErrorCode, InvariantError

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
BUSY = ErrorCode.NOT_ENOUGH_REPLICAS  # Retriable, and nothing was stored.
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER  # Retriable, and nobody knows.


class Story:
    """One producer told step by step; batch ids are given, sequences are read off."""

    def __init__(
        self, *, in_flight_max: int = 5, idempotent: bool = True, transactional: bool = False, epoch: int = 0
    ) -> None:
        self.queue: InFlight[str] = InFlight(
            in_flight_max=in_flight_max, idempotent=idempotent, transactional=transactional
        )
        self.now_ms = 1
        self.queue.use_identity(77, epoch)

    def enqueue(self, *batch_ids: int, count: int = 10, to: str = "p") -> None:
        for batch_id in batch_ids:
            self.queue.enqueue(to, batch_id, count)

    def sends(self, to: str = "p") -> list[tuple[int, int]]:
        """(batch id, base sequence) of everything that may leave now."""
        return [(one.batch_id, one.base_sequence) for one in self.sent(to)]

    def sent(self, to: str = "p") -> list[Send[str]]:
        sends = []
        while (send := self.queue.send(to, self.now_ms)) is not None:
            sends.append(send)
        return sends

    def handle(self, event: Event[str]) -> list[Decision[str]]:
        return self.queue.handle(event, self.now_ms)

    def ack(self, *batch_ids: int, to: str = "p") -> None:
        for batch_id in batch_ids:
            assert self.handle(Answered(to, batch_id, base_offset=batch_id)) == [
                Settle(to, batch_id, batch_id)
            ]

    def error(self, batch_id: int, code: ErrorCode, to: str = "p") -> list[Decision[str]]:
        return self.handle(Answered(to, batch_id, code))

    def lose(self, *batch_ids: int, to: str = "p") -> None:
        for batch_id in batch_ids:
            retry = Retry(to, batch_id, ErrorCode.NETWORK_EXCEPTION)
            assert self.handle(Lost(to, batch_id)) == [retry]


def running(story: Story | None = None) -> Story:
    """A story in which batch 0 is acknowledged, so that five may leave."""
    story = Story() if story is None else story
    story.enqueue(0)
    assert story.sends() == [(0, 0)]
    story.ack(0)
    return story


def test_sequences_count_records_and_five_batches_leave() -> None:
    story = running()
    story.enqueue(1, 2, count=3)
    story.enqueue(3, count=500)
    story.enqueue(4, 5, 6, count=1)
    assert story.sends() == [(1, 10), (2, 13), (3, 16), (4, 516), (5, 517)]
    story.ack(1)
    assert story.sends() == [(6, 518)]


def test_the_first_batch_of_a_partition_travels_alone() -> None:
    """A broker that does not know the producer takes any sequence: the second batch must not come first."""
    story = Story()
    story.enqueue(1, 2, 3)
    assert story.sends() == [(1, 0)]
    assert story.error(1, BUSY) == [Retry("p", 1, BUSY)]
    assert story.sends() == [(1, 0)]
    story.ack(1)
    assert story.sends() == [(2, 10), (3, 20)]


def test_after_a_long_rest_the_first_batch_travels_alone_again() -> None:
    story = running()
    story.now_ms += REST_MS
    story.enqueue(1, 2, 3)
    assert story.sends() == [(1, 10), (2, 20), (3, 30)]
    story.ack(1, 2, 3)
    story.now_ms += REST_MS + 1
    story.enqueue(4, 5)
    assert story.sends() == [(4, 40)]


def test_without_an_identity_nothing_leaves() -> None:
    queue: InFlight[str] = InFlight()
    queue.enqueue("p", 1, 1)
    assert queue.send("p", 0) is None
    assert queue.send("q", 0) is None
    queue.use_identity(5, 0)
    assert queue.send("p", 0) == Send("p", 1, Identity(5, 0), 0, 1)


@pytest.mark.parametrize("in_flight_max", [1, 2, 3, 4, 5])
def test_no_more_than_the_limit_leaves(in_flight_max: int) -> None:
    story = running(Story(in_flight_max=in_flight_max))
    story.enqueue(*range(1, 9))
    assert len(story.sends()) == in_flight_max


def test_limits_that_cannot_be_are_refused_with_a_way_out() -> None:
    for in_flight_max in (0, 6):
        with pytest.raises(ConfigError, match=f"max.in.flight.requests.per.connection={in_flight_max}"):
            InFlight(in_flight_max=in_flight_max)
    with pytest.raises(ConfigError, match=r"transactional\.id is set"):
        InFlight(idempotent=False, transactional=True)
    InFlight(in_flight_max=100, idempotent=False)


# Retries.


@pytest.mark.mission("ORD-03")
def test_a_retried_batch_goes_back_to_its_place_by_sequence() -> None:
    for order in ((2, 3, 4), (4, 3, 2), (3, 2, 4), (2, 4, 3)):
        story = running()
        story.enqueue(1, 2, 3, 4, 5)
        assert [batch_id for batch_id, _ in story.sends()] == [1, 2, 3, 4, 5]
        story.enqueue(6)
        story.lose(*order)
        story.ack(1, 5)
        resent = []
        while sends := story.sends():
            assert len(sends) == 1, "one at a time while retries are pending"
            resent += sends
            story.ack(sends[0][0])
        assert resent == [(2, 20), (3, 30), (4, 40), (6, 60)]


@pytest.mark.mission("ORD-04")
def test_while_a_retry_is_pending_nothing_new_leaves_and_other_partitions_are_not_slowed() -> None:
    story = running()
    story.enqueue(100, to="q")
    assert story.sends("q") == [(100, 0)]
    story.ack(100, to="q")
    story.enqueue(1, 2, 3)
    assert story.sends() == [(1, 10), (2, 20), (3, 30)]
    story.ack(1)
    assert story.error(2, BUSY) == [Retry("p", 2, BUSY)]
    story.enqueue(4, 5)
    story.enqueue(101, 102, 103, 104, 105, to="q")
    assert story.sends("q") == [(101, 10), (102, 20), (103, 30), (104, 40), (105, 50)]
    assert story.sends() == [(2, 20)]
    assert story.sends() == [], "batch 2 is on its way: nothing else leaves"
    assert story.error(3, OUT_OF_ORDER) == [Retry("p", 3, OUT_OF_ORDER)]
    assert story.sends() == []
    story.ack(2)
    assert story.sends() == [(3, 30)], "then its successor, alone"
    story.ack(3)
    assert story.sends() == [(4, 40), (5, 50)], "and back to normal"


def test_an_out_of_order_answer_to_a_batch_that_is_not_the_next_is_only_a_retry() -> None:
    story = running()
    story.enqueue(1, 2, 3)
    assert len(story.sends()) == 3
    assert story.error(3, OUT_OF_ORDER) == [Retry("p", 3, OUT_OF_ORDER)]
    assert story.error(2, OUT_OF_ORDER) == [Retry("p", 2, OUT_OF_ORDER)]
    assert story.error(1, BUSY) == [Retry("p", 1, BUSY)]
    for batch_id, sequence in ((1, 10), (2, 20), (3, 30)):
        assert story.sends() == [(batch_id, sequence)]
        story.ack(batch_id)


def test_answers_may_come_in_any_order() -> None:
    story = running()
    story.enqueue(1, 2, 3)
    assert len(story.sends()) == 3
    story.ack(3, 1, 2)
    story.enqueue(4)
    assert story.sends() == [(4, 40)]


def test_a_duplicate_is_a_success() -> None:
    story = running()
    story.enqueue(1, 2)
    assert len(story.sends()) == 2
    story.lose(1, 2)
    assert story.sends() == [(1, 10)]
    assert story.handle(Answered("p", 1, base_offset=4242)) == [Settle("p", 1, 4242)]
    assert story.sends() == [(2, 20)]
    assert story.error(2, ErrorCode.DUPLICATE_SEQUENCE_NUMBER) == [Settle("p", 2, -1)]


def test_sequences_wrap_to_zero() -> None:
    story = Story()
    story.enqueue(1, count=2**31 - 5)
    assert story.sends() == [(1, 0)]
    story.ack(1)
    story.enqueue(2, 3)
    assert story.sends() == [(2, 2**31 - 5), (3, 5)]
    assert story.error(3, OUT_OF_ORDER) == [Retry("p", 3, OUT_OF_ORDER)]
    story.ack(2)
    assert story.sends() == [(3, 5)]


# Gaps and new epochs.


def test_a_gap_on_the_broker_fails_the_batch_and_bumps_the_epoch() -> None:
    """Everything before it is acknowledged, yet the broker waits for something else: it has lost records."""
    story = running()
    story.enqueue(1, 2)
    assert len(story.sends()) == 2
    assert story.error(1, OUT_OF_ORDER) == [Fail("p", 1, OUT_OF_ORDER, maybe_stored=False)]
    assert story.sends() == []
    assert story.error(2, OUT_OF_ORDER) == [Retry("p", 2, OUT_OF_ORDER), EpochBumped(Identity(77, 1))]
    assert story.sent() == [Send("p", 2, Identity(77, 1), 0, 1)]
    story.ack(2)
    story.enqueue(3)
    assert story.sends() == [(3, 10)]


def test_a_refused_batch_leaves_a_gap_and_those_behind_it_get_new_sequences_in_order() -> None:
    story = running()
    story.enqueue(1, 2, 3, 4)
    assert len(story.sends()) == 4
    story.ack(1)
    assert story.error(2, TOO_LARGE) == [Fail("p", 2, TOO_LARGE, maybe_stored=False)]
    assert story.error(4, OUT_OF_ORDER) == [Retry("p", 4, OUT_OF_ORDER)]
    story.enqueue(5)
    assert story.sends() == []
    assert story.error(3, OUT_OF_ORDER) == [Retry("p", 3, OUT_OF_ORDER), EpochBumped(Identity(77, 1))]
    assert story.sent() == [Send("p", 3, Identity(77, 1), 0, 1)]
    story.ack(3)
    assert story.sends() == [(4, 10), (5, 20)]


def test_what_may_be_stored_is_not_given_another_sequence() -> None:
    """Batch 2 was lost on the way and may be stored, batch 1 before it failed in an unknown way."""
    story = running()
    story.enqueue(1, 2)
    assert len(story.sends()) == 2
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert story.error(1, unknown) == [Fail("p", 1, unknown, maybe_stored=True)]
    story.lose(2)
    story.enqueue(3)
    assert story.sends() == [(2, 20)], "as it was: only so can a copy be recognised"
    assert story.error(2, OUT_OF_ORDER) == [
        Fail("p", 2, OUT_OF_ORDER, maybe_stored=True),
        EpochBumped(Identity(77, 1)),
    ]
    assert story.sent() == [Send("p", 3, Identity(77, 1), 0, 1)]


def test_a_later_acknowledgement_resolves_what_was_unknown() -> None:
    story = running()
    story.enqueue(1, 2)
    assert len(story.sends()) == 2
    story.lose(1)
    assert story.handle(Expired("p", 1)) == [Fail("p", 1, ErrorCode.REQUEST_TIMED_OUT, maybe_stored=True)]
    story.enqueue(3)
    assert story.sends() == [], "until the sequence of batch 1 is resolved"
    story.ack(2)
    assert story.sends() == [(3, 30)], "batch 2 was stored, so batch 1 was: no gap, no new epoch"


def test_an_expired_batch_in_flight_is_resolved_by_its_late_answer() -> None:
    for code, following in ((ErrorCode.NONE, (77, 0, 20)), (BUSY, (77, 1, 0)), (None, (77, 1, 0))):
        story = running()
        story.enqueue(1)
        assert len(story.sends()) == 1
        assert story.handle(Expired("p", 1)) == [Fail("p", 1, ErrorCode.REQUEST_TIMED_OUT, maybe_stored=True)]
        story.enqueue(2)
        assert story.sends() == []
        decisions = story.handle(Lost("p", 1) if code is None else Answered("p", 1, code))
        assert decisions == ([] if code is ErrorCode.NONE else [EpochBumped(Identity(77, 1))])
        (send,) = story.sent()
        assert (*send.identity, send.base_sequence) == following
        with pytest.raises(InvariantError, match="no such batch"):
            story.handle(Expired("p", 1))


def test_a_batch_that_expires_before_it_was_sent_takes_no_sequence_with_it() -> None:
    story = running()
    story.enqueue(1, 2)
    assert story.handle(Expired("p", 1)) == [Fail("p", 1, ErrorCode.REQUEST_TIMED_OUT, maybe_stored=False)]
    assert story.sends() == [(2, 10)]


def test_a_gap_behind_a_batch_does_not_concern_it() -> None:
    story = running()
    story.enqueue(1, 2, 3)
    assert len(story.sends()) == 3
    story.error(1, BUSY)
    assert story.error(2, TOO_LARGE) == [Fail("p", 2, TOO_LARGE, maybe_stored=False)]
    assert story.error(3, OUT_OF_ORDER) == [Retry("p", 3, OUT_OF_ORDER)]
    assert story.sends() == [(1, 10)], "still in its epoch"
    assert story.handle(Answered("p", 1, base_offset=5)) == [Settle("p", 1, 5), EpochBumped(Identity(77, 1))]
    assert story.sent() == [Send("p", 3, Identity(77, 1), 0, 1)]


def test_a_batch_is_not_stored_behind_later_ones() -> None:
    """Batch 2 is acknowledged while 1 is refused: only a broker that had forgotten the producer does that."""
    story = running()
    story.enqueue(1, 2)
    assert len(story.sends()) == 2
    story.error(1, BUSY)
    story.ack(2)
    assert story.sends() == [(1, 10)]
    assert story.error(1, OUT_OF_ORDER)[0] == Fail("p", 1, OUT_OF_ORDER, maybe_stored=False)


def test_retries_that_run_out_leave_a_gap_or_a_doubt() -> None:
    for code, maybe_stored in ((BUSY, False), (MOVED, True)):
        story = running()
        story.enqueue(1)
        assert len(story.sends()) == 1
        assert story.handle(Answered("p", 1, code, retries_left=False)) == [
            Fail("p", 1, code, maybe_stored),
            EpochBumped(Identity(77, 1)),
        ]


def test_other_partitions_keep_their_epoch_until_they_are_idle() -> None:
    story = running()
    story.enqueue(100, 101, to="q")
    assert story.sends("q") == [(100, 0)]
    story.ack(100, to="q")
    assert story.sends("q") == [(101, 10)]
    story.enqueue(1)
    assert len(story.sends()) == 1
    assert story.error(1, TOO_LARGE) == [
        Fail("p", 1, TOO_LARGE, maybe_stored=False),
        EpochBumped(Identity(77, 1)),
    ]
    story.enqueue(102, to="q")
    assert story.sent("q") == [Send("q", 102, Identity(77, 0), 20, 1)], "not slowed, not changed"
    story.ack(101, 102, to="q")
    story.enqueue(103, to="q")
    assert story.sent("q") == [Send("q", 103, Identity(77, 1), 0, 1)]


def test_a_partition_takes_the_epoch_another_has_bumped() -> None:
    story = running()
    story.enqueue(100, to="q")
    story.enqueue(1)
    assert (len(story.sends("q")), len(story.sends())) == (1, 1)
    assert story.error(1, TOO_LARGE)[1] == EpochBumped(Identity(77, 1))
    assert story.error(100, TOO_LARGE, to="q") == [Fail("q", 100, TOO_LARGE, maybe_stored=False)]
    story.enqueue(101, to="q")
    assert story.sent("q") == [Send("q", 101, Identity(77, 1), 0, 1)]


def test_an_exhausted_epoch_asks_for_a_new_producer_id() -> None:
    story = running(Story(epoch=32767))
    story.enqueue(1, 2)
    assert len(story.sends()) == 2
    assert story.error(1, TOO_LARGE) == [Fail("p", 1, TOO_LARGE, maybe_stored=False)]
    assert story.error(2, OUT_OF_ORDER) == [Retry("p", 2, OUT_OF_ORDER), NeedProducerId()]
    story.enqueue(100, to="q")
    assert story.sends() == story.sends("q") == []
    story.queue.use_identity(78, 0)
    assert story.sent() == [Send("p", 2, Identity(78, 0), 0, 1)]
    assert story.sent("q") == [Send("q", 100, Identity(78, 0), 0, 1)]


# Transactions.


def test_a_missing_batch_means_an_abort_and_the_coordinator_bumps_the_epoch() -> None:
    story = running(Story(transactional=True))
    story.enqueue(1, 2, 3)
    assert len(story.sends()) == 3
    assert story.error(1, TOO_LARGE) == [Fail("p", 1, TOO_LARGE, maybe_stored=False), NeedAbort(TOO_LARGE)]
    assert story.error(2, OUT_OF_ORDER) == [Retry("p", 2, OUT_OF_ORDER)]
    story.enqueue(4)
    story.enqueue(100, to="q")
    assert story.sends() == story.sends("q") == []
    aborted = ErrorCode.TRANSACTION_ABORTABLE
    assert story.queue.abandon(aborted) == [
        Fail("p", 2, aborted, maybe_stored=False),
        Fail("p", 4, aborted, maybe_stored=False),
        Fail("q", 100, aborted, maybe_stored=False),
    ]
    assert story.error(3, OUT_OF_ORDER) == [Retry("p", 3, OUT_OF_ORDER)]
    assert story.queue.abandon(aborted) == [Fail("p", 3, aborted, maybe_stored=False)]
    assert list(story.queue.partitions()) == []
    story.queue.use_identity(77, 1)
    story.enqueue(5)
    assert story.sent() == [Send("p", 5, Identity(77, 1), 0, 1)]


def test_a_doubt_that_cannot_be_resolved_means_an_abort_too() -> None:
    story = running(Story(transactional=True))
    story.enqueue(1)
    assert len(story.sends()) == 1
    assert story.handle(Lost("p", 1, retries_left=False)) == [
        Fail("p", 1, ErrorCode.NETWORK_EXCEPTION, maybe_stored=True),
        NeedAbort(ErrorCode.NETWORK_EXCEPTION),
    ]


# Without idempotence.


def test_without_idempotence_a_retry_comes_first_but_holds_nobody_up() -> None:
    story = Story(idempotent=False)
    story.enqueue(1, 2, 3, 4, 5, 6)
    assert story.sends() == [(1, -1), (2, -1), (3, -1), (4, -1), (5, -1)]
    assert story.error(2, BUSY) == [Retry("p", 2, BUSY)]
    assert story.sends() == [(2, -1)]
    story.ack(1)
    assert story.sends() == [(6, -1)]
    assert story.error(3, TOO_LARGE) == [Fail("p", 3, TOO_LARGE, maybe_stored=False)]
    assert story.handle(Expired("p", 4)) == [Fail("p", 4, ErrorCode.REQUEST_TIMED_OUT, maybe_stored=True)]
    assert story.handle(Answered("p", 4, base_offset=3)) == [], "its user has been told already"
    story.ack(5, 6, 2)
    assert story.queue.abandon(BUSY) == []
    assert list(story.queue.partitions()) == []


# Every place with every event.

EVENTS: dict[str, Event[str]] = {
    "stored": Answered("p", 1, base_offset=9),
    "duplicate": Answered("p", 1, ErrorCode.DUPLICATE_SEQUENCE_NUMBER),
    "busy": Answered("p", 1, BUSY),
    "moved": Answered("p", 1, MOVED),
    "refused": Answered("p", 1, TOO_LARGE),
    "out of order": Answered("p", 1, OUT_OF_ORDER),
    "lost": Lost("p", 1),
    "expired": Expired("p", 1),
}
EXPECTED: dict[str, dict[str, str]] = {
    "queued": dict.fromkeys(EVENTS, "illegal") | {"expired": "fail"},
    "sent": {
        "stored": "settle",
        "duplicate": "settle",
        "busy": "retry",
        "moved": "retry",
        "refused": "fail",
        "out of order": "fail",
        "lost": "retry",
        "expired": "fail",
    },
    "waiting": dict.fromkeys(EVENTS, "illegal") | {"expired": "fail"},
    "sent again": {
        "stored": "settle",
        "duplicate": "settle",
        "busy": "retry",
        "moved": "retry",
        "refused": "fail",
        "out of order": "fail",
        "lost": "retry",
        "expired": "fail",
    },
    "sent, expired": dict.fromkeys(EVENTS, "nothing") | {"expired": "illegal"},
    "settled": dict.fromkeys(EVENTS, "illegal"),
    "failed": dict.fromkeys(EVENTS, "illegal"),
}


def story_in(place: str) -> Story:
    story = running()
    story.enqueue(1)
    if place == "queued":
        return story
    assert story.sends() == [(1, 10)]
    if place in ("waiting", "sent again"):
        story.lose(1)
    if place == "sent again":
        assert story.sends() == [(1, 10)]
    if place == "sent, expired":
        story.handle(Expired("p", 1))
    if place == "settled":
        story.ack(1)
    if place == "failed":
        story.error(1, TOO_LARGE)
    return story


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("place", EXPECTED)
def test_every_place_with_every_event(place: str, event: str) -> None:
    story = story_in(place)
    expected = EXPECTED[place][event]
    if expected == "illegal":
        with pytest.raises(InvariantError):
            story.handle(EVENTS[event])
        return
    told = [one for one in story.handle(EVENTS[event]) if not isinstance(one, EpochBumped)]
    assert [type(one).__name__.lower() for one in told] == ([] if expected == "nothing" else [expected])
    story.enqueue(2)
    following = story.sends()
    if expected == "retry":
        assert following == [(1, 10)], "the same batch, the same sequence"
    elif event == "expired" and place != "queued":
        assert following == [] or following == [(2, 0)], "its answer is awaited, or a new epoch began"
    else:
        assert [batch_id for batch_id, _ in following] == [2]


def test_an_empty_batch_stops_the_shard() -> None:
    with pytest.raises(InvariantError, match="has 0 records"):
        Story().queue.enqueue("p", 1, 0)


def has_room(story: Story) -> bool:
    """The queue's prediction, which must equal the fate of an enqueued batch."""
    said = story.queue.has_room("p", story.now_ms)
    probe = copy.deepcopy(story)
    probe.enqueue(999)
    assert (999 in [one.batch_id for one in probe.sent()]) is said
    return said


def test_there_is_room_where_a_batch_could_leave_at_once() -> None:
    story = Story()
    assert has_room(story)
    story.enqueue(1)
    assert story.sends() == [(1, 0)]
    assert not has_room(story), "the first travels alone"
    story.ack(1)
    story.enqueue(2, 3, 4, 5)
    story.sends()
    assert has_room(story)
    story.enqueue(6)
    story.sends()
    assert not has_room(story), "five are under way"
    story.ack(2)
    assert has_room(story)
    story.lose(3)
    assert not has_room(story), "a retry is pending"
    story.sends()
    assert not has_room(story)
    story.ack(3, 4, 5, 6)
    assert has_room(story)
    story.enqueue(7)
    story.sends()
    story.error(7, TOO_LARGE)
    assert has_room(story), "a new epoch begins at once"
    assert not InFlight[str]().has_room("p", 0), "without an identity nothing leaves"
    plain = InFlight[str](idempotent=False, in_flight_max=1)
    assert plain.has_room("p", 0)
    plain.enqueue("p", 1, 1)
    assert plain.send("p", 0) is not None
    assert not plain.has_room("p", 0)


def test_a_batch_that_is_too_large_becomes_several_in_its_place_and_sequences() -> None:
    story = running()
    story.enqueue(1, 2)
    assert story.sends() == [(1, 10), (2, 20)]
    story.queue.split("p", 1, [(11, 4), (12, 6)])
    assert story.sends() == [(11, 10)]
    assert story.error(2, OUT_OF_ORDER) == [Retry("p", 2, OUT_OF_ORDER)]
    story.ack(11)
    assert story.sends() == [(12, 14)]
    story.ack(12)
    assert story.sends() == [(2, 20)]
    story.ack(2)
    for batch_id, pieces in ((2, [(5, 10)]), (3, [(5, 10)])):
        with pytest.raises(InvariantError, match="only one that is sent"):
            story.queue.split("p", batch_id, pieces)
    story.enqueue(3)
    story.sends()
    with pytest.raises(InvariantError, match="has 10 records"):
        story.queue.split("p", 3, [(4, 3), (5, 3)])


def test_without_idempotence_the_pieces_of_a_batch_come_first() -> None:
    story = Story(idempotent=False, in_flight_max=2)
    story.enqueue(1, 2, 3)
    assert [batch_id for batch_id, _sequence in story.sends()] == [1, 2]
    story.queue.split("p", 1, [(11, 5), (12, 5)])
    story.ack(2)
    assert [batch_id for batch_id, _sequence in story.sends()] == [11, 12]
