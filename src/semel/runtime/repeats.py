"""Something that may happen many times a second, said once in a while.

Role.   `Repeats` decides when a warning about a client's deed is due, so that no client can fill the log.
Flow.   `net.listener` and the metrics' listener ask it before they log.
Rules.  The first time is said at once. Then there is at most one line in `WARN_SECONDS`, and each line has the count since the
        one before.
"""

from typing import Final

WARN_SECONDS: Final = 10.0


class Repeats:
    """One kind of event."""

    def __init__(self) -> None:
        self._count = 0
        self._said_at = float("-inf")

    def due(self, now: float) -> int:
        """Count one more; how many there were since the last line if a line is due now, else 0."""
        self._count += 1
        if now - self._said_at < WARN_SECONDS:
            return 0
        count, self._count, self._said_at = self._count, 0, now
        return count
