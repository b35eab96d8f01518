"""A long pass of the collector is followed by short ones, and nothing is kept alive by that.

Method: passes that are asked for, timed by a clock that the test turns; how many objects a pass would look at is counted.
"""

import gc
import weakref
from collections.abc import Iterator

import pytest

from semel.runtime.short_collections import keep_short


class Clock:
    def __init__(self, pass_seconds: float) -> None:
        self.now, self.pass_seconds = 0.0, pass_seconds

    def __call__(self) -> float:
        self.now += self.pass_seconds
        return self.now


class Thing:
    """What a weak reference can point to."""


@pytest.fixture
def unfrozen() -> Iterator[None]:
    gc.collect()
    was_on, before = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    yield
    if not before:
        gc.unfreeze()
    if was_on:
        gc.enable()


def looked_at(things: list[Thing]) -> int:
    """How many of them the next full pass looks at."""
    known = {id(thing) for thing in things}
    return sum(id(one) in known for one in gc.get_objects())


@pytest.mark.usefixtures("unfrozen")
@pytest.mark.parametrize(("pass_seconds", "left"), [(0.02, 0), (0.005, 1000)])
def test_what_survives_a_long_pass_is_not_looked_at_again(pass_seconds: float, left: int) -> None:
    end = keep_short(0.01, Clock(pass_seconds))
    try:
        things = [Thing() for _ in range(1000)]
        assert looked_at(things) == 1000
        gc.collect(0)
        gc.collect(1)
        assert looked_at(things) == 1000  # Short by nature, however long they take.
        gc.collect()
        assert looked_at(things) == left
    finally:
        end()
    late = [Thing() for _ in range(10)]
    gc.collect()
    assert looked_at(late) == 10


@pytest.mark.usefixtures("unfrozen")
def test_what_was_set_aside_is_freed_when_nobody_has_it() -> None:
    end = keep_short(0.01, Clock(0.02))
    try:
        thing = Thing()
        alive = weakref.ref(thing)
        gc.collect()
        del thing
        assert alive() is None
    finally:
        end()
