"""`semel` and `semel.aio` are twins: what one client has the other has, under the same name, with the same arguments.

Method: both classes are looked at, name by name: a method that only one of them has, another order of arguments, another default, or
another annotation is named. A blocking method is a coroutine in the twin, or the same plain method where nothing is waited for.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

import pytest

import semel
import semel.aio

ONLY_BLOCKING: Final = {"KIND", "CLOSED"}  # Words of its errors.
ONLY_ASYNC: Final = frozenset({"runtime"})
"""An argument of the constructor: on which loop, clock and network it runs."""


def names(client: type) -> set[str]:
    return {name for name in dir(client) if not name.startswith("_")}


def arguments(
    method: Callable[..., Any], *, without: frozenset[str] = frozenset()
) -> list[tuple[object, ...]]:
    """Name, kind, default and annotation of each; what names a client names its twin."""
    return [
        (
            one.name,
            one.kind,
            one.default,
            str(one.annotation).replace("Async", "").replace("semel.aio.", "semel."),
        )
        for one in inspect.signature(method).parameters.values()
        if one.name not in without
    ]


@pytest.mark.parametrize("name", semel.aio.__all__)
def test_the_twins_have_the_same_methods(name: str) -> None:
    blocking, waiting = getattr(semel, name), getattr(semel.aio, name)
    assert names(blocking) - ONLY_BLOCKING == names(waiting)
    for method in sorted(names(waiting)):
        ours, theirs = getattr(blocking, method), getattr(waiting, method)
        assert callable(ours) == callable(theirs), method
        assert inspect.getdoc(ours), f"{name}.{method} does not say what it does"
        assert inspect.getdoc(theirs), f"aio.{name}.{method} does not say what it does"
        if callable(ours):
            assert arguments(ours) == arguments(theirs), method
    assert arguments(blocking.__init__) == arguments(waiting.__init__, without=ONLY_ASYNC)


@pytest.mark.parametrize("name", semel.aio.__all__)
def test_both_are_contexts_and_only_one_is_awaited(name: str) -> None:
    blocking, waiting = getattr(semel, name), getattr(semel.aio, name)
    assert {"__enter__", "__exit__"} <= set(dir(blocking))
    assert {"__aenter__", "__aexit__"} <= set(dir(waiting))
    assert not any(inspect.iscoroutinefunction(getattr(blocking, one)) for one in names(blocking))
    assert inspect.iscoroutinefunction(waiting.close)


def test_both_are_looped_over() -> None:
    assert hasattr(semel.Consumer, "__iter__")
    assert hasattr(semel.aio.Consumer, "__aiter__")
