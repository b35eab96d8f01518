"""The order in which Java's hash collections give their elements, because Kafka's uniform assignor follows it.

Role.   Kafka's coordinator keeps members, topics and partitions in HashMaps and HashSets and hands partitions out in
        the order these iterate. Whoever wants the same assignment for the same group has to iterate alike.
Rules.  * A table has a power of two of buckets; an element's bucket is its spread hash modulo that; elements come
          bucket by bucket, and inside a bucket in the order they were put in (growing a table keeps that order).
        * Buckets with eight and more elements become trees in Java and may come in another order: not imitated. It
          takes dozens of ids that were chosen to collide.
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
    """What to sort ids by to get the order of `Uuid.compareTo`, which takes each half for a signed number."""
    return int.from_bytes(sixteen[:8], "big", signed=True), int.from_bytes(sixteen[8:], "big", signed=True)


def grown_capacity(count: int) -> int:
    """Buckets of a table that began empty and had `count` elements put in one by one."""
    capacity = _DEFAULT_CAPACITY
    while count * 4 > capacity * 3:
        capacity *= 2
    return capacity


def copied_capacity(count: int) -> int:
    """Buckets of a set made from a collection of `count` elements."""
    wanted = max(count * 4 // 3 + 1, _DEFAULT_CAPACITY)
    return 1 << (wanted - 1).bit_length()


def in_table_order(elements: Collection[K], hash_of: Callable[[K], int], capacity: int = 0) -> list[K]:
    """The elements as a table gives them that they were put into in this order; one that grew, if no size is given."""
    mask = (capacity or grown_capacity(len(elements))) - 1

    def bucket(element: K) -> int:
        hashed = hash_of(element)
        return (hashed ^ hashed >> 16) & mask

    return sorted(elements, key=bucket)
