"""Work that takes longer than one turn of the loop: pauses in which other clients are served.

Role.   `Turns.breathe` is awaited between the steps of long work. `heavy` runs a pure step on a thread.
Flow.   `dispatch` uses it for requests of many rows, the handlers of Produce, Fetch and ListOffsets for their own steps.
Rules.  * A turn lasts about `TURN_SECONDS_MAX`. A step between two pauses must be shorter than a tenth of a second.
        * Heavy steps go through a few lanes, never through all threads: syncs of the log need threads too.
        * A heavy step is pure. It sees nothing that the loop may change meanwhile.
"""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

from crc32c import crc32c

from semel.net.inbound import TURN_SECONDS_MAX
from semel.runtime.bundle import Runtime

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")
_LANES: Final = 4
"""Heavy steps at a time: half of the threads a broker has."""


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
            await self._tasks.sleep(0)
            self._until = self._monotonic() + TURN_SECONDS_MAX

    async def heavy(self, step: Callable[[*_Ts], T], *args: *_Ts) -> T:
        """What a pure step returns that is too long for the loop."""
        found = await self._tasks.in_thread(step, *args, order=self._lane)
        self._until = self._monotonic() + TURN_SECONDS_MAX
        return found
