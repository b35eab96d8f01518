"""Sequence numbers: one per record, counted by a producer for each partition, wrapping from 2147483647 to 0.

Role.   Sequence arithmetic for the broker's windows and the client's queue.
Rules.  * A sequence is never negative; -1 (`NO_SEQUENCE`) means that there is none.
        * After `SEQUENCE_MAX` comes 0, so a batch may straddle the wrap.
        * `NO_SEQUENCE` is followed by 0: a producer that has sent nothing starts there.
"""

from semel.core.records.batch import SEQUENCE_MAX
from semel.types import NO_SEQUENCE

__all__ = ["NO_SEQUENCE", "SEQUENCE_MAX", "decrement", "distance", "in_sequence", "increment"]

_MODULUS = SEQUENCE_MAX + 1


def increment(sequence: int, count: int) -> int:
    """The sequence `count` records later."""
    return (sequence + count) & SEQUENCE_MAX


def decrement(sequence: int, count: int) -> int:
    """The sequence `count` records earlier."""
    return (sequence - count) & SEQUENCE_MAX


def in_sequence(last: int, following: int) -> bool:
    """Whether `following` is the sequence right after `last`."""
    return following == last + 1 or (following == 0 and last == SEQUENCE_MAX)


def distance(first: int, second: int) -> int:
    """How many records `second` is ahead of `first`; negative if it is behind.

    The shorter way round counts. Producer and broker are never more than five batches apart, so it is the right one.
    """
    ahead = (second - first) & SEQUENCE_MAX
    return ahead if ahead <= SEQUENCE_MAX >> 1 else ahead - _MODULUS
