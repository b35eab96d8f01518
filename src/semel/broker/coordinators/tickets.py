"""Requests that wait for a coordinator's answer.

Role.   A handler gets the answer at once, or something to await; the shard keeps only the ticket.
Rules.  * A ticket is answered once; what comes later for it is dropped.
        * It costs no task and no future where the answer is there at once.
        * Many questions of one request are asked in turns: one may be answered by a group of ten thousand members.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from semel.broker.turns import Turn
from semel.core.wire.message import Response
from semel.errors import ErrorCode
from semel.net.reply import Exclusive
from semel.runtime.bundle import Runtime
from semel.words import a

Answer: TypeAlias = Response | ErrorCode
"""A shard's answer, or the code that says why there is none."""
R = TypeVar("R", bound=Response)


class WaitingRequest:
    """Behind a `Ticket`: one request."""

    __slots__ = ("answer", "future")

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.future: asyncio.Future[Answer] | None = None

    def give(self, answer: Answer) -> None:
        """Answer it, unless that has happened, or nobody waits any more."""
        if self.answer is None:
            self.answer = answer
            if self.future is not None and not self.future.done():
                self.future.set_result(answer)

    def result(self) -> Answer | Awaitable[Answer]:
        """The answer, or what to await."""
        if self.answer is not None:
            return self.answer
        if self.future is None:
            self.future = asyncio.get_running_loop().create_future()
        return self.future


def answered(
    answer: Answer | Awaitable[Answer], expected: type[R], refused: Callable[[ErrorCode], R]
) -> R | Awaitable[R]:
    """A handler's response: a code in the place of an answer becomes the response that carries it."""
    if isinstance(answer, ErrorCode):
        return refused(answer)
    if isinstance(answer, expected):
        return answer
    if isinstance(answer, Response):
        raise TypeError(f"{a(expected.__name__)} was expected, the coordinator gave {answer}")
    return _later(answer, expected, refused)


async def _later(answer: Awaitable[Answer], expected: type[R], refused: Callable[[ErrorCode], R]) -> R:
    found = await answer
    if isinstance(found, ErrorCode):
        return refused(found)
    if not isinstance(found, expected):
        raise TypeError(f"{a(expected.__name__)} was expected, the coordinator gave {found}")
    return found


def merged(
    answers: Iterable[R | Awaitable[R]], merge: Callable[[list[R]], R], runtime: Runtime
) -> R | Awaitable[R] | Exclusive[R]:
    """One answer out of many: at once if all are there. Each is asked for in its turn: the shard may have much to say."""
    turn, left = Turn(runtime.clock), iter(answers)
    given: list[R | Awaitable[R]] = []
    for answer in left:
        given.append(answer)
        if turn.is_over:
            return Exclusive(_merged_in_turns(given, left, merge, runtime))
    ready: list[Any] = [answer for answer in given if isinstance(answer, Response)]
    return merge(ready) if len(ready) == len(given) else _merged_later(given, merge)


async def _merged_later(answers: Sequence[R | Awaitable[R]], merge: Callable[[list[R]], R]) -> R:
    return merge([answer if isinstance(answer, Response) else await answer for answer in answers])


async def _merged_in_turns(
    given: list[R | Awaitable[R]],
    left: Iterator[R | Awaitable[R]],
    merge: Callable[[list[R]], R],
    runtime: Runtime,
) -> R:
    await runtime.tasks.sleep(0)
    turn = Turn(runtime.clock)
    for answer in left:
        given.append(answer)
        if turn.is_over:
            await runtime.tasks.sleep(0)
            turn.begin()
    return await _merged_later(given, merge)
