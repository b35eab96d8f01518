"""Whether a sink still owes a micro-batch: the one place where replays, lost checkpoints and second queries are told apart. Pure.

Role.   A sink's ledger has one entry: the last batch that counts, and the query that wrote it. `owed` compares the entry with the batch
        at hand. `TopicSink`, the drop-in sink and `DatabaseSink` keep their entries in different places and ask the same rule.
Flow.   A sink reads its entry, asks `owed`, and writes, skips or raises.
Rules.  * Spark repeats the last batch of a query, and no other: the entry's own batch is skipped, a later one is written.
        * An earlier batch means that the checkpoint is older than the sink. Spark will cut the data into other batches than
          before, so neither writing nor skipping by number would be right: refused.
        * A query is what its checkpoint says it is. Another query's entry means that the checkpoint was lost, or that a second
          query uses the sink's name. It is refused, unless a permission names the query that may be continued.
        * No entry is right for a query's first batch. Later it means that the ledger was lost, or that the query wrote
          elsewhere before: refused, unless a permission says that there is none. The drop-in sink notes only batches with rows, so
          there a missing entry means nothing.
        * A permission names the state it is for, so that it cannot outlive that state.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

NONE: Final = "none"
"""The permission of a sink that has no entry, although its query is past its first batch."""


class Entry(NamedTuple):
    """The last batch a sink has stored, and the query that wrote it."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sink, and the words in which a user sets it up: refusals name the way out in them."""

    own_name: str
    """Gives a sink a name of its own."""
    continues: str
    """Permits a sink to continue `{}`."""
    forgets: str | None
    """Events that remove an entry; None for a sink that has none for a batch without rows."""


ATOMIC: Final = Kind(
    own_name="TopicSink(..., name=...)",
    continues="TopicSink(..., continues='{}')",
    forgets="the broker removes it after offsets.retention.minutes without a batch, or with its group or ledger topic",
)
DROP_IN: Final = Kind(
    own_name="option('sinkName', ...)",
    continues="option('continues', '{}')",
    forgets=None,
)
DATABASE: Final = Kind(
    own_name="DatabaseSink(..., name=...)",
    continues="DatabaseSink(..., continues='{}')",
    forgets="its row was deleted from the table semel_batches, or the database is another one",
)


@dataclass(frozen=True, slots=True)
class Write:
    """The batch is to be written; `missed` batches before it never came to this sink."""

    missed: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """The batch is stored already."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Neither writing nor skipping would be right."""

    reason: str
    way_out: str


Decision: TypeAlias = Write | Skip | Refuse


def owed(entry: Entry | None, now: Entry, *, kind: Kind, continues: str | None = None) -> Decision:
    """How to treat the batch `now`, given the last entry of the sink. `continues` is the user's permission."""
    if entry is None:
        if kind.forgets is None or now.batch_id == 0 or continues == NONE:
            return Write()
        return _no_entry(kind, kind.forgets, now)
    if entry.query_id != now.query_id:
        return Write() if continues == entry.query_id else _another_query(kind, entry)
    if now.batch_id == entry.batch_id:
        return Skip()
    if now.batch_id < entry.batch_id:
        return _older_checkpoint(kind, entry, now)
    return Write(missed=now.batch_id - entry.batch_id - 1)


def _no_entry(kind: Kind, forgets: str, now: Entry) -> Refuse:
    return Refuse(
        "the sink has no record of any batch, so nothing tells whether this one is stored. Either the query wrote elsewhere before, or "
        f"the sink's entry is gone ({forgets})",
        f"if batch {now.batch_id} is not stored yet, start the query once with {kind.continues.format(NONE)}",
    )


def _another_query(kind: Kind, entry: Entry) -> Refuse:
    return Refuse(
        f"the sink belongs to query {entry.query_id}, which stored batch {entry.batch_id}",
        f"if two queries are meant to run, give each a name of its own: {kind.own_name}. If the checkpoint was lost or replaced, "
        "rows that were written before may come again: start the new query where the old one ended, then permit it with "
        f"{kind.continues.format(entry.query_id)}",
    )


def _older_checkpoint(kind: Kind, entry: Entry, now: Entry) -> Refuse:
    return Refuse(
        f"the sink has stored batch {entry.batch_id} of this query, but the checkpoint is only at batch {now.batch_id}. The checkpoint "
        "was restored from an older copy, or forked. Spark would cut the data into other batches than the stored ones, so rows "
        "would be repeated or lost",
        "restore the newer checkpoint, or start a new query where the stored rows end, with a new checkpoint and "
        f"{kind.continues.format(entry.query_id)}",
    )
