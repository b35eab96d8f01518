"""Sink, query, batch and topic: the name of a micro-batch in errors and log lines. Every text of a sink about a batch begins with it."""

from typing import NamedTuple

from semel.spark.sink.common.batch_ledger import Entry


class BatchName(NamedTuple):
    """A batch on its way into topics."""

    sink: str
    query_id: str
    batch_id: int
    topic: str | None
    """The one topic of all rows; None where every row names its own."""

    def __str__(self) -> str:
        return f"sink {self.sink}, query {self.query_id}, batch {self.batch_id}, {target_of(self.topic)}"

    @property
    def entry(self) -> Entry:
        """As a ledger keeps it."""
        return Entry(self.query_id, self.batch_id)


def target_of(topic: str | None) -> str:
    """The one topic of all rows, in words."""
    return "topics by row" if topic is None else f"topic {topic}"
