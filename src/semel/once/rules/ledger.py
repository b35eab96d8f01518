"""The publishing progress of an outbox, from two records that a crash may leave different.

Role.   The database numbers the rows of an outbox and remembers which numbers are known to be published (`confirmed`).
        The relay's transactions carry the same number as the offset of a group (`committed`), so that offset and
        records become visible together. After a crash `settle` compares the two.
Rules.  * The transaction is authoritative: rows up to `committed` are published, later ones are not.
        * A ledger is written before the first number is given. Missing later, it was deleted or has expired: then rows
          that are numbered but not confirmed are in doubt, and the user must decide.
        * A ledger ahead of the database, or of another outbox, means that they do not belong together (a restored backup).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """Rows up to this number are published, the others are not. `write`: the ledger must be written first."""

    to: int
    write: bool


@dataclass(frozen=True, slots=True)
class InDoubt:
    """It is unknown whether rows `first` to `last` were published."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Ledger and database do not belong together."""

    reason: str


def settle(
    *, committed: int | None, owner: str | None, outbox: str, numbered: int, confirmed: int
) -> Published | InDoubt | Mismatch:
    """Compare the ledger (`committed`, with its outbox `owner`) with the database's state of `outbox`."""
    if committed is None or committed < confirmed:
        if numbered == confirmed:
            return Published(confirmed, write=True)
        what = "is gone" if committed is None else f"went back to {committed}"
        return InDoubt(
            confirmed + 1, numbered, f"the ledger {what}, the database knows of {confirmed} published rows"
        )
    if owner != outbox:
        return Mismatch(f"the ledger belongs to outbox {owner!r}, this one is {outbox!r}")
    if committed > numbered:
        return Mismatch(
            f"the ledger says {committed} rows are published, the database has numbered {numbered} only: "
            "it is older than the topic, as after restoring a backup"
        )
    return Published(committed, write=False)
