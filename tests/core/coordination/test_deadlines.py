"""Deadlines come up when they are due, once, and only the last one set for a key.

Method: random sets, cancels and looks, beside the plainest reference there is: a dict.
"""

from hypothesis import given
from hypothesis import strategies as st

from semel.core.coordination.deadlines import Deadlines

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 100)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("look"), st.just(0), st.integers(0, 120)),
        st.tuples(st.just("take one"), st.just(0), st.integers(0, 120)),
    ),
    max_size=200,
)


@given(STEPS)
def test_it_does_what_a_dict_of_deadlines_would(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    reference: dict[int, tuple[int, int]] = {}
    for order, (what, key, at) in enumerate(steps):
        if what == "set":
            deadlines.set(key, at)
            reference[key] = (at, order)
        elif what == "cancel":
            deadlines.cancel(key)
            reference.pop(key, None)
        else:
            expected = sorted((k for k, (d, _) in reference.items() if d <= at), key=lambda k: reference[k])
            if what == "look":
                assert deadlines.pop_due(at) == expected
            else:
                expected = expected[:1]
                assert deadlines.pop_first(at) == (expected[0] if expected else None)
            for gone in expected:
                del reference[gone]
        assert deadlines.next_ms() == min((d for d, _ in reference.values()), default=None)
        assert len(deadlines) == len(reference)
        assert all(deadlines.get(k) == d for k, (d, _) in reference.items())


def test_a_million_heartbeats_leave_no_heap_behind() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for beat in range(10_000):
        deadlines.set("member", beat)
    assert len(deadlines._heap) < 100
    assert deadlines.pop_due(9_998) == []
    assert deadlines.pop_due(9_999) == ["member"]
