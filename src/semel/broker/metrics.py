"""What the broker counts.

Role.   Plain counters, added to on the hot path and read by whoever shows them.
Rules.  A dropped duplicate is answered with success and counted here under its own error name: visible, never alarming.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    """Counters since the start."""

    requests: Counter[str] = field(default_factory=Counter)
    """By API name."""
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By API and error name, as Kafka's ErrorsPerSec."""
