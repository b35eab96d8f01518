"""Work that takes longer than one turn of the loop: pauses in which other clients are served.

Role.   `Turns.breathe` is awaited between the steps of long work, and `heavy` runs a pure step on a thread. `in_turns` drives
        a generator of steps: it answers at once if they fit one turn.
Flow.   `dispatch` uses it for requests of many rows, the handlers of Produce, Fetch and ListOffsets for their own steps.
Rules.  * A turn lasts about `TURN_SECONDS_MAX`. A step between two pauses must be shorter than a tenth of a second.
        * Heavy steps go through a few lanes, never through all threads: syncs of the log need threads too.
        * A heavy step is pure. It sees nothing that the loop may change meanwhile.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, TypeVarTuple

from crc32c import crc32c

from semel.net.inbound import TURN_SECONDS_MAX
from semel.net.reply import Exclusive
from semel.runtime.bundle import Runtime
from semel.runtime.clock import Clock

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")
_LANES: Final = 2
"""Heavy steps at a time. Each may hold the records of a batch that decompress to `DECOMPRESSED_SIZE_MAX` bytes."""


class Heavy(NamedTuple):
    """A pure step for a thread."""

    step: Callable[..., Any]
    args: tuple[Any, ...]


Steps: TypeAlias = Generator[Heavy | None, Any, T]
"""Work with pauses. It yields a heavy step to get what that returns, or None where its turn is over."""


class Turn:
    """How long the current turn of some work may last."""

    __slots__ = ("_monotonic", "_until")

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._until = self._monotonic() + TURN_SECONDS_MAX

    @property
    def is_over(self) -> bool:
        return self._monotonic() >= self._until

    def begin(self) -> None:
        """A pause is behind us."""
        self._until = self._monotonic() + TURN_SECONDS_MAX


def in_turns(steps: Steps[T], runtime: Runtime, peer: str) -> T | Exclusive[T]:
    """The result of the steps: now, or after their pauses."""
    try:
        pause = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    return Exclusive(_rest(steps, pause, Turns(runtime, peer)))


async def _rest(steps: Steps[T], pause: Heavy | None, turns: "Turns") -> T:
    while True:
        found = None
        if pause is None:
            await turns.rest()
        else:
            found = await turns.heavy(pause.step, *pause.args)
        try:
            pause = steps.send(found)
        except StopIteration as done:
            result: T = done.value
            return result


class Turns:
    """The pauses of one request."""

    __slots__ = ("_lane", "_monotonic", "_tasks", "_until")

    def __init__(self, runtime: Runtime, peer: str) -> None:
        """`peer`: the client. Its heavy steps share a lane, so that one client does not take all of them."""
        self._tasks = runtime.tasks
        self._monotonic = runtime.clock.monotonic
        self._until = self._monotonic() + TURN_SECONDS_MAX
        self._lane = ("heavy", crc32c(peer.encode()) % _LANES)

    async def breathe(self) -> None:
        """Let others have their turn, if this one has lasted long enough."""
        if self._monotonic() >= self._until:
            await self.rest()

    async def rest(self) -> None:
        """Let others have their turn."""
        await self._tasks.sleep(0)
        self._until = self._monotonic() + TURN_SECONDS_MAX

    async def heavy(self, step: Callable[[*_Ts], T], *args: *_Ts) -> T:
        """The result of a pure step that is too long for the loop."""
        found = await self._tasks.in_thread(step, *args, order=self._lane)
        self._until = self._monotonic() + TURN_SECONDS_MAX
        return found
