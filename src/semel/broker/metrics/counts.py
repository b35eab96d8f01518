"""The broker's counts.

Role.   Plain counters, added to on the hot path and read by whoever shows them (`metrics.page`).
Flow.   A route of `dispatch` is a `RequestCounts`: it counts its requests and, by `metrics.errors`, the codes of its answers.
        The produce handler and its shortcut count what is odd about batches; a `LedPartition` has its own `PartitionCounts`.
Rules.  * A request costs one addition to an attribute here, an answer one per error code in it, a batch three; a record none.
        * A dropped duplicate is answered with success and also counted under its own error name: visible, never alarming.
        * A request that took the shortcut was answered with NONE: who shows the counts works that out from two others.
        * Only the last few sequences that were out of order are remembered one by one.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from semel.errors import ErrorCode

GAPS_MAX: Final = 16
RATE_WINDOW_SECONDS: Final = 30.0
"""Kafka's `metrics.sample.window.ms`: a rate is of about as long."""
_NO_ERROR: Final = ErrorCode.NONE.name


class RequestCounts:
    """How often one version of an API was asked for, and the codes it was answered with."""

    __slots__ = ("codes", "name", "requests", "taken_apart", "version")

    def __init__(self, name: str, version: int, metrics: "Metrics") -> None:
        self.name = name
        self.version = version
        self.requests = 0
        self.taken_apart = 0
        """Requests that did not take the shortcut."""
        self.codes = metrics.codes_of(name)
        metrics.routes.append(self)


class PartitionCounts:
    """A partition's traffic, refusals and oddities. `LedPartition` adds to it, and `FollowedPartition`."""

    __slots__ = (
        "batches_in",
        "bytes_in",
        "bytes_out",
        "expired",
        "fenced",
        "first_offset",
        "isr_expands",
        "isr_shrinks",
        "out_of_order",
        "refused",
        "replicated_bytes_in",
        "weak_acks",
    )

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        """Where its log ended when it was opened: what came in since then lies behind it."""
        self.batches_in = 0
        """Stored ones."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.replicated_bytes_in = 0
        """From the leader, while another broker leads: Kafka's ReplicationBytesInPerSec. `bytes_in` is from producers."""
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.weak_acks = 0
        """Of the batches that came, those whose producers did not wait for acks=all."""
        self.refused = 0
        """Batches, for whatever reason; the next two are among them."""
        self.out_of_order = 0
        self.fenced = 0
        self.expired = 0
        """Producer ids that were forgotten because they were idle."""


class Gap(NamedTuple):
    """A batch that was refused because the one before it is missing, or is another one."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    expected_sequence: int
    received_sequence: int
    time_ms: int


class Metrics:
    """Counters since the start."""

    def __init__(self) -> None:
        self.routes: list[RequestCounts] = []
        self.codes: dict[str, dict[int, int]] = {}
        """By API name, then by error code, for what was answered with a message."""
        self.gaps: deque[Gap] = deque(maxlen=GAPS_MAX)
        """The last ones, oldest first."""

    def codes_of(self, api: str) -> dict[int, int]:
        return self.codes.setdefault(api, defaultdict(int))

    @property
    def requests(self) -> Counter[str]:
        """By API name."""
        counted: Counter[str] = Counter()
        for route in self.routes:
            counted[route.name] += route.requests
        return counted

    @property
    def errors(self) -> Counter[tuple[str, str]]:
        """By API and error name, as Kafka's ErrorsPerSec, NONE included."""
        counted: Counter[tuple[str, str]] = Counter()
        for api, codes in self.codes.items():
            for code, count in codes.items():
                counted[api, ErrorCode(code).name] += count
        for route in self.routes:
            if shortcuts := route.requests - route.taken_apart:
                counted[route.name, _NO_ERROR] += shortcuts
        return counted


class RequestRate:
    """How many requests per second came lately; whoever calls `look` now and then makes it current."""

    def __init__(self, count: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._count = count
        self._monotonic = monotonic
        self._looks: deque[tuple[float, int]] = deque([(monotonic(), count())])

    def look(self) -> None:
        """Remember the count of this moment, and forget what is older than the window."""
        now = self._monotonic()
        self._looks.append((now, self._count()))
        while len(self._looks) > 2 and self._looks[1][0] <= now - RATE_WINDOW_SECONDS:
            self._looks.popleft()

    def per_second(self) -> float:
        """Since the oldest look within the window."""
        began, before = self._looks[0]
        elapsed = self._monotonic() - began
        return (self._count() - before) / elapsed if elapsed > 0 else 0.0
