"""Sequence arithmetic must wrap from 2147483647 to 0, as Kafka's does, and never go negative.

Method: the edges by hand, the rest by property against plain arithmetic modulo 2**31.
"""

from hypothesis import given
from hypothesis import strategies as st

from semel.core.idempotence import sequence

LAST = 2**31 - 1
SEQUENCES = st.one_of(st.integers(0, LAST), st.sampled_from([0, 1, 2, LAST - 1, LAST]))
COUNTS = st.integers(0, LAST)


def test_zero_follows_the_last_sequence_and_the_start() -> None:
    assert sequence.increment(LAST, 1) == 0
    assert sequence.decrement(0, 1) == LAST
    assert sequence.in_sequence(LAST, 0)
    assert sequence.in_sequence(sequence.NO_SEQUENCE, 0)
    assert not sequence.in_sequence(sequence.NO_SEQUENCE, 1)
    assert not sequence.in_sequence(LAST, 1)
    assert not sequence.in_sequence(5, 5)
    assert not sequence.in_sequence(5, 4)


@given(start=SEQUENCES, count=COUNTS)
def test_going_forth_and_back_ends_where_it_began(start: int, count: int) -> None:
    there = sequence.increment(start, count)
    assert there == (start + count) % 2**31
    assert 0 <= there <= LAST
    assert sequence.decrement(there, count) == start


@given(start=SEQUENCES, steps=st.integers(-(2**30), 2**30 - 1))
def test_distance_is_what_was_walked(start: int, steps: int) -> None:
    there = sequence.increment(start, steps) if steps >= 0 else sequence.decrement(start, -steps)
    assert sequence.distance(start, there) == steps


@given(last=SEQUENCES, following=SEQUENCES)
def test_in_sequence_means_one_step(last: int, following: int) -> None:
    assert sequence.in_sequence(last, following) == (sequence.increment(last, 1) == following)
