"""Where the oldest transaction begins whose marker is not replicated yet.

Method: transactions that overlap in any way, markers in the order of the log, a high watermark that moves now and then; beside
it the plainest reference: all of them in a list, and the smallest first offset of those that are left.
"""

from hypothesis import given
from hypothesis import strategies as st

from semel.core.idempotence.unreplicated import Unreplicated

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 40)),  # How far before its marker it begins.
        st.tuples(
            st.just("release"), st.integers(0, 60)
        ),  # How far behind the log's end the high watermark is.
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=80,
)


@given(steps=STEPS)
def test_it_is_the_smallest_of_those_that_are_left(steps: list[tuple[str, int]]) -> None:
    unreplicated, plain, end = Unreplicated(), list[tuple[int, int]](), 100
    for what, by in steps:
        match what:
            case "add":
                end += 1
                unreplicated.add(end - by, end)
                plain.append((end - by, end))
            case "release":
                left = [one for one in plain if one[1] >= end - by]
                changed = unreplicated.release(end - by)
                assert changed or unreplicated.first_offset == min((one[0] for one in left), default=None)
                plain = left
            case _:
                unreplicated.clear()
                plain.clear()
        assert unreplicated.first_offset == min((one[0] for one in plain), default=None)
        assert len(unreplicated) <= len(plain)


def test_the_room_of_those_that_are_gone_is_given_back() -> None:
    unreplicated = Unreplicated()
    for number in range(100_000):
        unreplicated.add(2 * number, 2 * number + 1)
        unreplicated.release(2 * number - 100)
    assert unreplicated.first_offset is not None
    assert len(unreplicated) < 100
    assert len(unreplicated._last_offsets) < 10_000
