"""Halting a recovery, for a broker that must stop before its logs are open.

Role.   Recovery runs on threads, and a thread cannot be cancelled: the waiting task sets a `Halt`, which recovery
        checks at every batch.
Rules.  * A halt is an end like kill -9: no cleanup, no clean shutdown mark, and the next start recovers every log
          again. Recovery stops only at points where a process may die as well.
        * A halted log is not damaged: `RecoveryHaltedError` is not a `LogError`.
"""

from typing import Final

from semel.errors import RecoveryHaltedError


class Halt:
    """A flag that one thread sets and others read."""

    def __init__(self) -> None:
        self._is_asked = False

    @property
    def is_asked(self) -> bool:
        return self._is_asked

    def ask(self) -> None:
        """Ask every recovery with this flag to stop."""
        self._is_asked = True

    def error(self, path: str) -> RecoveryHaltedError:
        """The error of a halted recovery."""
        return RecoveryHaltedError(f"recovery of {path} was halted: the next start recovers the log again")


NEVER: Final = Halt()
"""For callers that never halt."""
