"""A warning that clients can cause is said at once, then once in a while, and no event is missing from the counts."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from semel.runtime.repeats import WARN_SECONDS, Repeats


def test_the_first_at_once_and_then_one_line_with_the_count() -> None:
    repeats = Repeats()
    times = [0.0, 1.0, 2.0, WARN_SECONDS, WARN_SECONDS + 1]
    assert [repeats.due(now) for now in times] == [1, 0, 0, 3, 0]


@given(st.lists(st.floats(0, 30), max_size=60))
def test_lines_are_rare_and_counts_add_up(gaps: list[float]) -> None:
    repeats, now, said, pending = Repeats(), 0.0, [], 0
    for gap in gaps:
        now += gap
        pending += 1
        if count := repeats.due(now):
            assert count == pending
            said.append(now)
            pending = 0
    assert all(later - earlier >= WARN_SECONDS for earlier, later in itertools.pairwise(said))
