"""The order in which Java's hash collections give their elements, because Kafka's uniform assignor follows it.

Role.   Kafka's coordinator keeps members, topics and partitions in HashMaps and HashSets and assigns in their iteration
        order. The same assignment requires the same iteration order.
Rules.  * A table has a power of two of buckets; an element's bucket is its spread hash modulo that; iteration goes
          bucket by bucket, and inside a bucket in insertion order (growing a table keeps that order).
        * Buckets with eight and more elements become trees in Java and may iterate in another order. This is not
          imitated: it takes dozens of ids chosen to collide.
Elsewhere. Text and its hash: `core.groups.assignors.java_order`, which clients share.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeVar

K = TypeVar("K")
_DEFAULT_CAPACITY: Final = 16
_INT32: Final = 0xFFFFFFFF


def uuid_hash(sixteen: bytes) -> int:
    """`Uuid.hashCode` of Kafka's ids."""
    mixed = int.from_bytes(sixteen[:8], "big") ^ int.from_bytes(sixteen[8:], "big")
    return (mixed >> 32 ^ mixed) & _INT32


def int_hash(number: int) -> int:
    """`Integer.hashCode`."""
    return number & _INT32


def uuid_sort_key(sixteen: bytes) -> tuple[int, int]:
    """A sort key with the order of `Uuid.compareTo`, which compares each half as a signed number."""
    return int.from_bytes(sixteen[:8], "big", signed=True), int.from_bytes(sixteen[8:], "big", signed=True)


def grown_capacity(count: int) -> int:
    """Buckets of a table that grew from empty by `count` single insertions."""
    capacity = _DEFAULT_CAPACITY
    while count * 4 > capacity * 3:
        capacity *= 2
    return capacity


def copied_capacity(count: int) -> int:
    """Buckets of a set made from a collection of `count` elements."""
    wanted = max(count * 4 // 3 + 1, _DEFAULT_CAPACITY)
    return 1 << (wanted - 1).bit_length()


def in_table_order(elements: Collection[K], hash_of: Callable[[K], int], capacity: int = 0) -> list[K]:
    """The elements in the iteration order of a table filled in this order; a grown table if no capacity is given."""
    mask = (capacity or grown_capacity(len(elements))) - 1

    def bucket(element: K) -> int:
        hashed = hash_of(element)
        return (hashed ^ hashed >> 16) & mask

    return sorted(elements, key=bucket)
