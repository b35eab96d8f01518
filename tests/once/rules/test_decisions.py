"""The small rules, each with each input: retries, the inbox, claims.

Method: tables. What a rule must never do is tried in every state it could be asked in.
"""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError, InvariantError
from semel.once.rules.claims import AlreadyDone, Busy, ClaimState, Entry, Taken, judge
from semel.once.rules.inbox import MOVES, InboxEntry, InboxState
from semel.once.rules.retries import RetryPolicy

POLICY = RetryPolicy(attempts_max=3, backoff_ms=100, backoff_max_ms=250)


def test_waits_double_up_to_the_bound_and_end() -> None:
    assert [POLICY.wait_ms(attempts) for attempts in range(1, 5)] == [100, 200, None, None]
    assert RetryPolicy(attempts_max=9, backoff_ms=100, backoff_max_ms=250).wait_ms(5) == 250
    assert RetryPolicy(attempts_max=10**9).wait_ms(10**8) == 60_000  # However many, the number stays small.
    assert RetryPolicy(attempts_max=1).wait_ms(1) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"attempts_max": 0}, "attempts_max is 0"),
        ({"backoff_ms": -1}, "backoff_ms is -1"),
        ({"backoff_ms": 5, "backoff_max_ms": 4}, "which is 4"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RetryPolicy(**settings)


def test_every_move_of_a_message_is_listed() -> None:
    inputs: dict[str, Callable[[InboxEntry], InboxEntry | None]] = {
        "claimed": lambda entry: entry.claimed(now_ms=10, lease_ms=5, policy=POLICY),
        "succeeded": lambda entry: entry.succeeded(),
        "failed": lambda entry: entry.failed("why", now_ms=10, policy=POLICY),
        "revived": lambda entry: entry.revived(now_ms=10),
    }
    for state, attempts, due_ms in itertools.product(InboxState, (0, 2, 3), (0, 11)):
        before = InboxEntry(state, attempts, due_ms)
        for name, move in inputs.items():
            try:
                after = move(before)
            except InvariantError:
                unclaimed = name == "failed" and attempts == 0
                assert state is not InboxState.RECEIVED or name == "revived" or unclaimed
                continue
            if after is not None:
                assert after.state in MOVES[state], f"{name} took {state} to {after.state}"
            assert before == InboxEntry(state, attempts, due_ms), "deciding changed something"


def test_a_claim_hides_the_message_and_counts_before_the_work() -> None:
    claimed = InboxEntry().claimed(now_ms=10, lease_ms=5, policy=POLICY)
    assert claimed == InboxEntry(InboxState.RECEIVED, attempts=1, due_ms=15)
    assert claimed.claimed(now_ms=14, lease_ms=5, policy=POLICY) is None, "another worker must not get it now"
    again = claimed.claimed(now_ms=15, lease_ms=5, policy=POLICY)
    assert again is not None
    assert again.attempts == 2


def test_a_message_that_kills_its_workers_is_given_up() -> None:
    entry = InboxEntry()
    for now_ms in (0, 10, 20):
        claimed = entry.claimed(now_ms=now_ms, lease_ms=5, policy=POLICY)
        assert claimed is not None
        entry = claimed
    dead = entry.claimed(now_ms=30, lease_ms=5, policy=POLICY)
    assert dead is not None
    assert dead.state is InboxState.DEAD
    assert dead.error == "given up after 3 attempts: its worker died, or its lease ran out"
    assert dead.revived(now_ms=40) == InboxEntry(InboxState.RECEIVED, 0, 40, dead.error)


def test_a_message_that_fails_waits_and_is_given_up_with_its_error() -> None:
    entry = InboxEntry(attempts=1).failed("no", now_ms=10, policy=POLICY)
    assert entry == InboxEntry(InboxState.RECEIVED, 1, 110, "no")
    assert InboxEntry(attempts=3).failed("no", now_ms=10, policy=POLICY).state is InboxState.DEAD


@given(now_ms=st.integers(0, 20), expires_ms=st.integers(0, 20), state=st.sampled_from(ClaimState))
def test_an_id_is_taken_exactly_when_nobody_has_it(now_ms: int, expires_ms: int, state: ClaimState) -> None:
    assert judge(None, now_ms=now_ms) == Taken()
    verdict = judge(Entry(state, "someone", expires_ms), now_ms=now_ms)
    if expires_ms <= now_ms:
        assert verdict == Taken()
    elif state is ClaimState.DONE:
        assert verdict == AlreadyDone()
    else:
        assert verdict == Busy(expires_ms - now_ms)
