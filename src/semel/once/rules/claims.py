"""Whether a message may be processed: unseen, in progress, or done.

Role.   The rule of deduplication by message id. Each store applies it in one atomic step.
Flow.   claim -> work -> done -> commit the offset. (`003` of the seeds commits before the work: see docs/once.md.)
Rules.  * An id is claimed by at most one token at a time; a claim ends at its lease.
        * A done id stays done until it expires, which must be later than any possible duplicate.
        * An expired lease frees the id: its owner counts as dead, and the work is repeated.
"""

from dataclasses import dataclass
from enum import StrEnum


class ClaimState(StrEnum):
    """The stored state of an id."""

    CLAIMED = "claimed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Entry:
    """One remembered id."""

    state: ClaimState
    token: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The id is the caller's until its lease ends."""


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """The work was done before: skip it."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another worker holds it, for at most this long."""

    for_ms: int


Verdict = Taken | AlreadyDone | Busy


def judge(entry: Entry | None, *, now_ms: int) -> Verdict:
    """The verdict on a claim, from the stored entry."""
    if entry is None or entry.expires_ms <= now_ms:
        return Taken()
    if entry.state is ClaimState.DONE:
        return AlreadyDone()
    return Busy(entry.expires_ms - now_ms)
