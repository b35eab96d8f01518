"""After any crash the two books of an outbox say together which rows are out, or say that nobody can know.

Method: play every short story of the relay (write the ledger, number, publish, confirm) with a crash after any step, and
with the ledger lost, rewound or of another outbox; compare `settle` with what truly was published.
"""

import itertools

from semel.once.rules.ledger import InDoubt, Mismatch, Published, settle


def test_after_a_crash_anywhere_the_ledger_tells_what_is_out() -> None:
    for rows, crash_after in itertools.product(range(4), range(20)):
        committed: int | None = None
        numbered = confirmed = published = 0
        steps = ["ledger"] + ["number", "publish", "confirm"] * rows
        for step in steps[: crash_after + 1]:
            match step:
                case "ledger":
                    committed = 0
                case "number":
                    numbered += 2
                case "publish":
                    committed = published = numbered
                case "confirm":
                    confirmed = published
        found = settle(
            committed=committed, owner="mine", outbox="mine", numbered=numbered, confirmed=confirmed
        )
        assert found == Published(published, write=False)


def test_before_the_first_ledger_nothing_is_out() -> None:
    found = settle(committed=None, owner=None, outbox="mine", numbered=0, confirmed=0)
    assert found == Published(0, write=True)


def test_a_lost_ledger_is_written_again_if_nothing_is_in_doubt() -> None:
    found = settle(committed=None, owner=None, outbox="mine", numbered=7, confirmed=7)
    assert found == Published(7, write=True)


def test_a_lost_ledger_is_not_guessed_at() -> None:
    found = settle(committed=None, owner=None, outbox="mine", numbered=9, confirmed=7)
    assert isinstance(found, InDoubt)
    assert (found.first, found.last) == (8, 9)
    assert "gone" in found.reason
    rewound = settle(committed=3, owner="mine", outbox="mine", numbered=9, confirmed=7)
    assert isinstance(rewound, InDoubt)
    assert "went back to 3" in rewound.reason


def test_books_that_do_not_belong_together_are_refused() -> None:
    other = settle(committed=7, owner="yours", outbox="mine", numbered=9, confirmed=7)
    assert isinstance(other, Mismatch)
    assert "'yours'" in other.reason
    restored = settle(committed=12, owner="mine", outbox="mine", numbered=9, confirmed=7)
    assert isinstance(restored, Mismatch)
    assert "older than the topic" in restored.reason
