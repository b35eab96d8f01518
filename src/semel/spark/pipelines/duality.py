"""A stream of changes and a table are two views of one thing: what turns each into the other, in plain Python.

Role.   The rules of tables, pure. `table -> changelog -> table` is the identity; Spark's and the local tables follow them.
Rules.  * A change is a key and its new value; None for a value means that the key is gone.
        * Applying changes again, all of them or a last part of them, changes nothing: only the last of each key counts.
        * Changes between two tables name what differs, once per key.
"""

from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def to_changelog(table: Mapping[K, V]) -> list[tuple[K, V | None]]:
    """The shortest stream of changes that makes this table."""
    return list(table.items())


def changes_between(before: Mapping[K, V], after: Mapping[K, V]) -> list[tuple[K, V | None]]:
    """What must be said to whoever knows `before`, so that they know `after`."""
    gone: list[tuple[K, V | None]] = [(key, None) for key in before if key not in after]
    return gone + [(key, value) for key, value in after.items() if before.get(key) != value]


def compacted(changes: Iterable[tuple[K, V | None]]) -> list[tuple[K, V | None]]:
    """The last change of each key, in the order of the log: what compaction leaves."""
    last: dict[K, V | None] = {}
    for key, value in changes:
        last.pop(key, None)  # So that the key moves to the end.
        last[key] = value
    return list(last.items())


def apply(table: MutableMapping[K, V], changes: Iterable[tuple[K, V | None]]) -> None:
    """Carry changes over into a table."""
    for key, value in changes:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def to_table(changes: Iterable[tuple[K, V | None]]) -> dict[K, V]:
    """The table that a stream of changes makes."""
    table: dict[K, V] = {}
    apply(table, changes)
    return table
