"""Which partition a record without a key goes to: one for a batch's worth, then another, as the Java client does.

Role.   `Sticky` is the choice for one topic (KIP-480, KIP-794): it stays with a partition until `batch.size` bytes went
        there, so that batches fill, and then moves to one chosen at random, busy ones less often.
Flow.   `partition` before a record is appended, `appended` after it; the sender tells `update_load` how many batches wait
        for each partition.
Rules.  * It leaves a partition only where a batch ends, or after twice the size: a half-filled batch is not left behind.
        * The more batches wait for a partition, the smaller its share: (longest queue + 1 - its own queue) of the sum.
          Partitions without a leader get nothing. Where all queues are equal the choice is even.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

_POSITIVE_BITS: Final = 31


class Sticky:
    """The partition in use for records of one topic that have neither key nor partition."""

    __slots__ = ("_batch_size_bytes", "_cumulated", "_draw", "_partition", "_produced_bytes", "_weighted")

    def __init__(self, batch_size_bytes: int, draw: Callable[[int], int]) -> None:
        """`draw(bits)` gives a random number of so many bits."""
        self._batch_size_bytes = max(1, batch_size_bytes)
        self._draw = draw
        self._partition = -1
        self._produced_bytes = 0
        self._weighted: Sequence[int] = ()
        self._cumulated: list[int] = []

    def partition(self, partitions_count: int, available: Sequence[int]) -> int:
        """Where the next record goes; `available` are the partitions with a leader."""
        if not 0 <= self._partition < partitions_count:
            self._partition = self._next(partitions_count, available)
        return self._partition

    def appended(
        self, size_bytes: int, *, batch_is_full: bool, partitions_count: int, available: Sequence[int]
    ) -> None:
        """So much went to the partition; `batch_is_full`: a change now leaves no batch half-filled."""
        self._produced_bytes += size_bytes
        if self._produced_bytes >= self._batch_size_bytes * (1 if batch_is_full else 2):
            self._produced_bytes = 0
            self._partition = self._next(partitions_count, available)

    def update_load(self, partitions: Sequence[int], queued: Sequence[int], partitions_count: int) -> None:
        """How many batches wait for each partition that has a leader."""
        if partitions_count < 2 or not partitions:
            self._cumulated = []
            return
        longest = max(queued)
        if len(partitions) == partitions_count and min(queued) == longest:
            self._cumulated = []
            return
        self._weighted = partitions
        self._cumulated = list(accumulate(longest + 1 - waiting for waiting in queued))

    def _next(self, partitions_count: int, available: Sequence[int]) -> int:
        return self.choice(self._draw(_POSITIVE_BITS), partitions_count, available)

    def choice(self, number: int, partitions_count: int, available: Sequence[int]) -> int:
        """The partition that a random number stands for."""
        if self._cumulated:
            return self._weighted[bisect_right(self._cumulated, number % self._cumulated[-1])]
        if available:
            return available[number % len(available)]
        return number % partitions_count
