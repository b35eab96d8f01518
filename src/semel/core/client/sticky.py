"""The sticky partitioner for records without a key: one partition per `batch.size` bytes, as in the Java client.

Role.   `Sticky` chooses for one topic (KIP-480, KIP-794): it stays with a partition for `batch.size` bytes, so that
        batches fill. Then it picks another at random, a busy one less often.
Flow.   `partition` before a record is appended, `appended` after it; the sender tells `update_load` how many batches wait
        for each partition.
Rules.  * It leaves a partition only where a batch ends, or after twice the size, to avoid half-filled batches.
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
        """Count bytes appended to the partition; with `batch_is_full`, a switch now leaves no half-filled batch."""
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
        """The partition for a random number."""
        if self._cumulated:
            return self._weighted[bisect_right(self._cumulated, number % self._cumulated[-1])]
        if available:
            return available[number % len(available)]
        return number % partitions_count
