"""The order in which Java walks through its hash maps, and in which it sorts text.

Role.   Kafka's sticky assignors break ties by the order of a `HashMap`. A group may have members in Java and in Python;
        the assignment must not depend on the leader's language.
Rules.  * A map walks its buckets in turn; within one, in the order of insertion. Its table doubles when it is three
          quarters full and never shrinks.
        * Text is sorted by UTF-16 units, as `String.compareTo` does.
Elsewhere. Python's own hashes, which change from process to process, are not used.
"""

from collections.abc import Iterable
from typing import Final

from semel.types import TopicPartition

_TABLE_MIN: Final = 16
_MASK: Final = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & _MASK
        return value
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`, as an unsigned number."""
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & _MASK


def sort_key(text: str) -> bytes:
    """A sort key that gives Java's order of text."""
    return text.encode("utf-16-be", "surrogatepass")


def map_order(keys: Iterable[str]) -> list[str]:
    """These distinct keys in the iteration order of a `HashMap` filled in this order."""
    inserted = list(dict.fromkeys(keys))
    size = _table_size(len(inserted))
    return sorted(
        inserted, key=lambda key: _bucket(string_hash(key), size)
    )  # Stable: insertion order in a bucket.


def computed_map_order(keys: Iterable[str]) -> list[str]:
    """The same for a map filled by `computeIfAbsent`: it puts a key first in its bucket, and doubles the table one key
    later.
    """
    latest_first = list(dict.fromkeys(keys))[::-1]
    size = _table_size(len(latest_first) - 1)
    return sorted(latest_first, key=lambda key: _bucket(string_hash(key), size))


class PartitionSet:
    """A `HashSet` of partitions."""

    __slots__ = ("_hashes", "_table_size")

    def __init__(self) -> None:
        self._hashes: dict[TopicPartition, int] = {}
        self._table_size = _TABLE_MIN

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, partition: TopicPartition) -> None:
        """Add it, if it is not there yet."""
        self._hashes.setdefault(partition, partition_hash(partition))
        self._table_size = max(self._table_size, _table_size(len(self._hashes)))

    def remove(self, partition: TopicPartition) -> None:
        """Take it out."""
        del self._hashes[partition]

    def first(self) -> TopicPartition:
        """The first partition in iteration order."""
        return min(self._hashes, key=lambda partition: _bucket(self._hashes[partition], self._table_size))


def _table_size(count: int) -> int:
    size = _TABLE_MIN
    while count > size * 3 // 4:
        size *= 2
    return size


def _bucket(value: int, table_size: int) -> int:
    return (value ^ value >> 16) & (table_size - 1)
