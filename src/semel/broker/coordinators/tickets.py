"""Requests that wait for a coordinator's answer.

Role.   A handler gets the answer at once, or something to await; the shard keeps only the ticket.
Rules.  * A ticket is answered once; what comes later for it is dropped.
        * It costs no task and no future where the answer is there at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from semel.core.wire.message import Response
from semel.errors import ErrorCode
from semel.words import a

Answer: TypeAlias = Response | ErrorCode
"""What a shard says; or, as a code, that it could not."""
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
    """What a handler returns: a code in the place of an answer becomes the response that says so."""
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


def merged(answers: Sequence[R | Awaitable[R]], merge: Callable[[list[R]], R]) -> R | Awaitable[R]:
    """One answer out of many: at once if all are there."""
    ready: list[Any] = [answer for answer in answers if isinstance(answer, Response)]
    return merge(ready) if len(ready) == len(answers) else _merged_later(answers, merge)


async def _merged_later(answers: Sequence[R | Awaitable[R]], merge: Callable[[list[R]], R]) -> R:
    return merge([answer if isinstance(answer, Response) else await answer for answer in answers])
