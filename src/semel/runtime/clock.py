"""Clocks: a wall clock that may jump, and a monotonic one that does not.

Role.   `Clock` is the only source of time. `RealClock` asks the operating system; `SimulatedClock` follows the
        virtual time of a loop and can jump, drift and disagree with other hosts.
Rules.  * Timestamps and expiries written to disk use `now_ms`; durations and timeouts use `monotonic`.
        * `now_ms` may go backwards. `monotonic` never does.
        * Pure code gets times as arguments and has no clock.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

SIMULATION_START_MS: Final = 1_700_000_000_000


class Clock(Protocol):
    """A host's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the host believes."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never decreases."""

    def monotonic_ms(self) -> int:
        """`monotonic` in whole milliseconds."""


class RealClock:
    """The clocks of this machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # The function itself: a timeout costs no extra call.
    monotonic = staticmethod(time.monotonic)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SimulatedClock:
    """A host's clocks on virtual time. Jumps and drift touch the wall clock only."""

    def __init__(self, virtual_seconds: Callable[[], float]) -> None:
        self._virtual_seconds = virtual_seconds
        self._anchor_seconds = 0.0
        self._anchor_ms = float(SIMULATION_START_MS)
        self._rate = 1.0

    def now_ms(self) -> int:
        return int(self._wall_ms())

    def monotonic(self) -> float:
        return self._virtual_seconds()

    def monotonic_ms(self) -> int:
        return int(self._virtual_seconds() * 1000)

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back."""
        self._anchor(self._wall_ms() + milliseconds)

    def drift(self, rate: float) -> None:
        """Let the wall clock run at `rate` times the true speed from now on."""
        if rate <= 0:
            raise ValueError(f"a clock that runs at {rate} times the true speed does not run")
        self._anchor(self._wall_ms())
        self._rate = rate

    def _wall_ms(self) -> float:
        return self._anchor_ms + (self._virtual_seconds() - self._anchor_seconds) * 1000 * self._rate

    def _anchor(self, wall_ms: float) -> None:
        self._anchor_ms, self._anchor_seconds = wall_ms, self._virtual_seconds()
