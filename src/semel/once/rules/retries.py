"""When a failed message is retried, and when it is given up.

Role.   The policy of the inbox, the worker pool and the relay.
Rules.  * The wait doubles from `backoff_ms` up to `backoff_max_ms`; the wait of an attempt is deterministic.
        * After `attempts_max` attempts the message is given up.
"""

from dataclasses import dataclass

from semel.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of attempts and the waits between them."""

    attempts_max: int = 5
    backoff_ms: int = 1_000
    backoff_max_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.attempts_max < 1:
            raise ConfigError(f"attempts_max is {self.attempts_max}: it must be at least 1")
        if not 0 <= self.backoff_ms <= self.backoff_max_ms:
            raise ConfigError(
                f"backoff_ms is {self.backoff_ms}: it must be from 0 to backoff_max_ms, which is {self.backoff_max_ms}"
            )

    def wait_ms(self, attempts: int) -> int | None:
        """The wait after this many failed attempts; None after the last one."""
        if attempts >= self.attempts_max:
            return None
        return min(self.backoff_ms << min(attempts - 1, 40), self.backoff_max_ms)
