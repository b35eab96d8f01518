"""Spark's micro-batch engine and a broker, both in memory: what the source's planning is tried with.

`Engine` calls a `StreamReader` in the order Spark's `MicroBatchExecution` does, with offsets that go through JSON, and keeps the two logs
of a checkpoint: offsets before a batch runs, commits after it. `crash` forgets everything but those.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from semel.errors import ErrorCode, RefusedError
from semel.spark.source import planning
from semel.spark.source.broker_client import BrokerClient, Found
from semel.spark.source.options import Assign, SourceOptions, Strategy, Subscribe, SubscribePattern
from semel.spark.source.stream_reader import StreamReader
from semel.spark.source.tasks import RangePartition
from semel.types import TopicPartition

Row = tuple[TopicPartition, int]


@dataclass
class Log:
    """One partition: where it begins and ends, in offsets; the record at offset n has the time n."""

    begin: int = 0
    end: int = 0


@dataclass
class MemoryBroker:
    """What a `BrokerClient` says of topics in memory."""

    logs: dict[TopicPartition, Log] = field(default_factory=dict)

    def add(self, topic: str, partition: int, count: int = 0) -> None:
        self.logs.setdefault(TopicPartition(topic, partition), Log()).end += count

    def partitions(self, strategy: Strategy) -> Found:
        match strategy:
            case Subscribe(topics):
                there = {where.topic for where in self.logs}
                found = [where for where in self.logs if where.topic in topics]
                return Found(tuple(sorted(found)), tuple(one for one in topics if one not in there))
            case SubscribePattern(pattern):
                return Found(tuple(sorted(one for one in self.logs if re.search(pattern, one.topic))), ())
            case Assign(wanted):
                return Found(tuple(where for where in wanted if where in self.logs), ())

    def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {}
        for where, timestamp in asked.items():
            if where not in self.logs:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{where} is not there")
            log = self.logs[where]
            younger = max(timestamp, log.begin) if timestamp < log.end else -1
            found[where] = {-1: log.end, -2: log.begin}.get(timestamp, younger)
        return found


@contextmanager
def planned_with(broker: MemoryBroker) -> Iterator[None]:
    """Planning asks this broker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "client_for", lambda _settings: cast("BrokerClient", broker))
        yield


def stream_reader(options: Mapping[str, str]) -> StreamReader:
    """A reader as Spark makes it."""
    quick = {"kafka.bootstrap.servers": "localhost:1", "fetchOffset.retryIntervalMs": "0", **options}
    return StreamReader(SourceOptions.of(quick).for_stream())


def rows_of(parts: Any) -> list[Row]:
    """The offsets tasks would read."""
    return [
        (one.where, offset)
        for part in parts
        if isinstance(part, RangePartition)
        for one in part.ranges
        for offset in range(one.start, one.end)
    ]


class Engine:
    """A query and its checkpoint."""

    def __init__(self, options: Mapping[str, str], *, available_now: bool = False) -> None:
        self.options = dict(options)
        self.available_now = available_now
        self.offset_log: list[str] = []
        self.committed = 0
        """How many batches are committed."""
        self.sink: dict[int, list[Row]] = {}
        """What the last run of each batch has written: a sink that replaces a replayed batch."""
        self.crash()

    def crash(self) -> None:
        """The driver is gone; what the checkpoint holds is not."""
        self.reader = stream_reader(self.options)
        if self.available_now:
            self.reader.prepareForTriggerAvailableNow()

    def plan(self) -> bool:
        """Write the next batch's end to the offset log, unless it is there; whether there is a batch to run."""
        if len(self.offset_log) > self.committed:
            return True
        start = self._start()
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        if self.committed and end == self.offset_log[-1]:
            return False
        self.offset_log.append(end)
        return True

    def run(self) -> list[Row]:
        """Run the planned batch; not committed yet."""
        end = self.offset_log[self.committed]
        parts = self.reader.partitions(json.loads(self._start()), json.loads(end))
        self.sink[self.committed] = rows_of(parts)
        return self.sink[self.committed]

    def commit(self) -> None:
        self.committed += 1

    def trigger(self) -> list[Row] | None:
        """A whole micro-batch; None if there was nothing to do."""
        if not self.plan():
            return None
        rows = self.run()
        self.commit()
        return rows

    def _start(self) -> str:
        if self.committed:
            return self.offset_log[self.committed - 1]
        return json.dumps(self.reader.initialOffset())

    @property
    def written(self) -> list[Row]:
        """Everything in the sink, batch by batch."""
        return [row for batch in sorted(self.sink) for row in self.sink[batch]]
