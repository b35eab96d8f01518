"""What a micro-batch still owes: the one place where replays, lost checkpoints and second queries are told apart. Pure.

Role.   A sink's ledger is one entry, committed in the same transaction as the rows: the last batch it has stored, and the
        query that wrote it. `owed` compares it with the batch at hand.
Flow.   `topic_sink` reads the entry, asks `owed`, and writes, skips or raises.
Rules.  * Spark repeats the last batch of a query, and no other: the entry's own batch is skipped, a later one is written.
        * An earlier batch means that the checkpoint is older than the sink. Spark will cut the data into other batches than
          before, so neither writing nor skipping by number would be right: refused.
        * A query is what its checkpoint says it is. Another query's entry means that the checkpoint was lost, or that a second
          query uses the sink's name: refused, unless it is told which query it continues.
        * No entry is right for a query's first batch. Later it means that the ledger was lost, or that the query wrote
          elsewhere before: refused, unless it is told that there is none.
        * Nobody is told "whatever comes": permission names the state it is for, so that it cannot outlive it.
"""

from typing import Final, NamedTuple, TypeAlias

NONE: Final = "none"
"""What a sink continues that has no entry, although its query is past its first batch."""


class Entry(NamedTuple):
    """The last batch a sink has stored, and whose it was."""

    query_id: str
    batch_id: int


class Write(NamedTuple):
    """The batch is to be written; `missed` batches before it never came to this sink."""

    missed: int = 0


class Skip(NamedTuple):
    """The batch is stored already."""


class Refuse(NamedTuple):
    """Neither writing nor skipping would be right."""

    reason: str


Decision: TypeAlias = Write | Skip | Refuse


def owed(
    entry: Entry | None, *, query_id: str, batch_id: int, continues: str | None = None, sink: str
) -> Decision:
    """What is to be done with a batch of a query, given what the sink has stored."""
    if entry is None:
        if batch_id == 0 or continues == NONE:
            return Write()
        return Refuse(_no_entry(sink, query_id, batch_id))
    if entry.query_id != query_id:
        if continues == entry.query_id:
            return Write()
        return Refuse(_another_query(sink, entry, query_id, batch_id))
    if batch_id == entry.batch_id:
        return Skip()
    if batch_id < entry.batch_id:
        return Refuse(_older_checkpoint(sink, entry, batch_id))
    return Write(missed=batch_id - entry.batch_id - 1)


def _no_entry(sink: str, query_id: str, batch_id: int) -> str:
    return (
        f"sink {sink} has no record of any batch, but query {query_id} is at batch {batch_id}: whether that batch is stored "
        "cannot be known. Either the query wrote elsewhere before, or the sink's entry is gone (the broker forgets it after "
        "offsets.retention.minutes without a batch, or when its group or ledger topic is deleted). If batch "
        f"{batch_id} is not stored yet, start the query once with TopicSink(..., continues='{NONE}')"
    )


def _another_query(sink: str, entry: Entry, query_id: str, batch_id: int) -> str:
    return (
        f"sink {sink} belongs to query {entry.query_id}, which stored batch {entry.batch_id}; this is query {query_id} at batch "
        f"{batch_id}. If two queries are meant to run, give each a name of its own: TopicSink(..., name=...). If the checkpoint "
        "was lost or replaced, rows that were written before may come again: start the new query where the old one ended, "
        f"then allow it with TopicSink(..., continues='{entry.query_id}')"
    )


def _older_checkpoint(sink: str, entry: Entry, batch_id: int) -> str:
    return (
        f"sink {sink} has stored batch {entry.batch_id} of query {entry.query_id}, but the checkpoint is only at batch {batch_id}: "
        "it was restored from an older copy, or forked. Spark would cut the data into other batches than those stored, so "
        "rows would be repeated or lost. Restore the newer checkpoint, or start a new query where the stored rows end, with "
        "a new checkpoint and TopicSink(..., continues='" + entry.query_id + "')"
    )
