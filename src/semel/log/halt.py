"""A recovery that is asked to leave off: the broker is to stop before its logs are open.

Role.   Recovery runs on threads, and a thread cannot be cancelled: whoever waits for it asks through a `Halt`, and the walks over
        a log look at it with every batch.
Rules.  * Leaving off is an end like kill -9: nothing is tidied up, nothing is marked as clean, and the next start recovers all
          of it. Every place at which a walk may stop is one at which a process may die.
        * A log that was left off is not damaged: `RecoveryHaltedError` is no `LogError`.
"""

from typing import Final

from semel.errors import RecoveryHaltedError


class Halt:
    """Set by one thread, looked at by others."""

    def __init__(self) -> None:
        self._is_asked = False

    @property
    def is_asked(self) -> bool:
        return self._is_asked

    def ask(self) -> None:
        """Let whoever looks leave off."""
        self._is_asked = True

    def error(self, path: str) -> RecoveryHaltedError:
        """What is raised by a walk that leaves off."""
        return RecoveryHaltedError(f"recovery of {path} was left off: the next start goes through it again")


NEVER: Final = Halt()
"""For who has nobody that would ask."""
