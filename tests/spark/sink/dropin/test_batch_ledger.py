"""The ledger's rules, one by one: what a row means for the batch at hand, and what an answer says about a transaction.

Method: every rule with the values on both sides of it.
"""

import pytest

from semel.errors import ErrorCode
from semel.spark.sink.common.batch_ledger import Refuse
from semel.spark.sink.common.errors import LedgerError
from semel.spark.sink.dropin.batch_ledger import (
    TASKS_MAX,
    UNUSED_MS,
    Amendment,
    Described,
    LedgerRow,
    Place,
    Standing,
    TaskTransaction,
    amended,
    check_tasks,
    is_open,
    is_passing,
    is_ready,
    standing,
    with_starts,
)

START_MS = 77


def task(number: int, *, digest: str = "d", epoch: int = 3) -> TaskTransaction:
    return TaskTransaction(number, f"semel-sink:s:run:{number}.0", 1000 + number, epoch, 10, digest, START_MS)


def row(batch_id: int, tasks: int = 2) -> LedgerRow:
    return LedgerRow("q1", batch_id, tuple(task(number) for number in range(tasks)))


def test_a_row_survives_its_bytes() -> None:
    assert LedgerRow.decoded(row(7).encoded()) == row(7)


def test_a_row_of_an_earlier_semel_names_no_run() -> None:
    data = row(7).encoded().replace(b'"run_id":"",', b"")
    assert b"run_id" not in data
    assert LedgerRow.decoded(data) == row(7)


@pytest.mark.parametrize(
    ("described", "ready"),
    [
        (Described("Empty", 1001, 0, -1, 900_000), True),
        (Described("Empty", 1001, 7, -1, 900_000), True),
        (Described("Empty", 1001, -1, -1, 900_000), False),
        (Described("Empty", 1001, 7, -1, UNUSED_MS), False),
        (Described("CompleteCommit", 1001, 7, -1, 900_000), False),
        (Described("Ongoing", 1001, 7, START_MS, 900_000), False),
    ],
)
def test_who_has_an_epoch_and_has_written_nothing(described: Described, ready: bool) -> None:
    """Kafka shows an id with epoch -1 while it stores the first one, and refuses to fence that."""
    assert is_ready(described) is ready


def test_which_batch_a_note_closes() -> None:
    note = Place("q1", "r1", 4)
    assert Place.of_note(note.as_note()) == note
    for earlier in ("", "remark", "a b", "q1 r1 x"):
        assert Place.of_note(earlier) is None
    assert not note.is_closed_by(None)
    assert note.is_closed_by(note)
    assert Place("q1", "r1", 3).is_closed_by(note)
    assert not Place("q1", "r1", 5).is_closed_by(note)
    assert not Place("q1", "r2", 4).is_closed_by(note), "a later run may write it again"
    assert not Place("q2", "r1", 4).is_closed_by(note)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"version":1,"query_id":"q"}', b"\xff"])
def test_bytes_that_are_no_row(data: bytes) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        LedgerRow.decoded(data)


def test_a_row_of_a_later_version() -> None:
    with pytest.raises(LedgerError, match="version 2, this Semel reads 1"):
        LedgerRow.decoded(b'{"version":2}')


def test_what_became_of_a_transaction() -> None:
    mine = task(1, epoch=3)
    assert standing(mine, ErrorCode.NONE, None) is Standing.COMMITTED

    def denied(state: str, epoch: int, producer_id: int = 1001, start_ms: int = START_MS) -> Standing:
        return standing(mine, ErrorCode.PRODUCER_FENCED, Described(state, producer_id, epoch, start_ms))

    for state in ("PrepareAbort", "CompleteAbort"):
        assert denied(state, 3) is Standing.LOST
        assert denied(state, 4) is Standing.LOST
        assert denied(state, 5) is Standing.UNKNOWN  # Another life of the id lies between.
        assert denied(state, 2) is Standing.UNKNOWN
        assert denied(state, 4, producer_id=5) is Standing.UNKNOWN
        assert (
            denied(state, 4, start_ms=78) is Standing.UNKNOWN
        )  # With v1 a commit does not show in the epoch.
    for state in ("Empty", "Ongoing", "CompleteCommit", "PrepareCommit", "Dead"):
        assert denied(state, 4) is Standing.UNKNOWN
    assert standing(mine, ErrorCode.PRODUCER_FENCED, None) is Standing.UNKNOWN
    unsure = standing(mine, ErrorCode.UNKNOWN_SERVER_ERROR, Described("CompleteAbort", 1001, 4, START_MS))
    assert unsure is Standing.UNKNOWN


def test_a_coordinator_that_is_not_done_is_asked_again() -> None:
    for state in ("Ongoing", "PrepareCommit", "PrepareEpochFence"):
        assert is_passing(Described(state, 1001, 4, START_MS))
    for seen in (
        None,
        Described("CompleteAbort", 1001, 4, START_MS),
        Described("PrepareAbort", 1001, 4, START_MS),
    ):
        assert not is_passing(seen)


def test_what_can_be_committed() -> None:
    assert is_open(task(1), Described("Ongoing", 1001, 3, START_MS))
    for seen in (
        None,
        Described("Ongoing", 1001, 4, START_MS),
        Described("Ongoing", 1002, 3, START_MS),
        Described("PrepareCommit", 1001, 3, START_MS),
    ):
        assert not is_open(task(1), seen)


def test_what_is_open_gets_its_start() -> None:
    described = {
        task(0).transactional_id: Described("Ongoing", 1000, 3, 5),
        task(1).transactional_id: Described("CompleteAbort", 1001, 3, 5),
    }
    assert with_starts([task(0), task(1), task(2)], described) == (task(0)._replace(start_ms=5),)


def test_the_same_rows_take_the_place_of_lost_ones() -> None:
    now = LedgerRow("q1", 4, (task(0, epoch=8), task(1, epoch=9)))
    change = amended(row(4), {1}, now)
    assert isinstance(change, Amendment)
    assert change.row.tasks == (task(0), task(1, epoch=9))
    assert change.added == (task(1, epoch=9),)


def test_other_rows_do_not() -> None:
    for now in (
        LedgerRow("q1", 4, (task(0), task(1, digest="other"))),
        LedgerRow("q1", 4, (task(0),)),
        LedgerRow("q1", 4, (task(0), task(1)._replace(rows=11))),
    ):
        refused = amended(row(4), {1}, now)
        assert isinstance(refused, Refuse)
        assert "task 1 (10 rows)" in refused.reason


def test_a_batch_of_too_many_tasks() -> None:
    check_tasks([task(0)] * TASKS_MAX)
    with pytest.raises(LedgerError, match="coalesce"):
        check_tasks([task(0)] * (TASKS_MAX + 1))
