"""How far a streaming query is behind: from the progress Spark reports.

Role.   `lag` reads a query's progress. Spark shows `latestOffset` of a source written in Python, but lets only Java ones add figures to
        `metrics`. The Kafka connector's figures there are computed here, from the same offsets.
Rules.  Offsets are counted, not records: markers of transactions have offsets too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.spark.source.offsets import from_json
from semel.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between what a query has read and where the log ended at its last trigger."""

    by_partition: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """Of all partitions together."""
        return sum(self.by_partition.values())

    def metrics(self) -> dict[str, str]:
        """Under the names of Spark's Kafka connector."""
        behind = list(self.by_partition.values())
        if not behind:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        }


def lag(query: "StreamingQuery | Mapping[str, Any]") -> Lag:
    """How far a query is behind, given the query or its progress (`query.lastProgress`, or a listener's)."""
    progress = query if isinstance(query, Mapping) else query.lastProgress
    behind: dict[TopicPartition, int] = {}
    for source in progress["sources"] if progress else ():
        if (latest := _offsets(source["latestOffset"])) is None:
            continue  # Another kind of source.
        read = _offsets(source["endOffset"]) or {}
        for where, end in latest.items():
            behind[where] = behind.get(where, 0) + end - read.get(where, 0)
    return Lag(dict(sorted(behind.items())))


def _offsets(content: Any) -> dict[TopicPartition, int] | None:
    try:
        kept = json.loads(content) if isinstance(content, str) else content
        return from_json(kept) if kept else None
    except (AttributeError, TypeError, ValueError):  # Offsets of another source.
        return None
