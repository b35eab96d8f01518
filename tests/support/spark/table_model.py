"""The plainest table there is: what a stream of changes adds up to, as a dictionary. What real tables are held against."""

from collections.abc import Iterable

Change = tuple[bytes, bytes | None]
"""A key and its new value; None: the key is gone."""


def to_table(changes: Iterable[Change]) -> dict[bytes, bytes]:
    """The table that these changes make."""
    table: dict[bytes, bytes] = {}
    for key, value in changes:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table
