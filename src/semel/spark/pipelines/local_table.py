"""A table on this machine, kept by a topic: the latest value of every key, in an embedded store.

Role.   `LocalTable`, for programs without Spark: a mapping of keys to values that follows a (compacted) topic.

            with LocalTable("prices.db", topic="prices", bootstrap=server) as prices:
                prices.catch_up()                    # all that is committed now
                prices[b"coffee"]

Flow.   open the file -> is it of this topic? -> seek to where it was left -> `catch_up`: poll -> one transaction of the store
        {last value of each key, positions} -> … until the end that the topic had when it was called.
Rules.  * The topic is the truth and the file a copy: lost, it is rebuilt by reading again.
        * A null value deletes its key. A record without a key belongs to no table and is refused.
        * Only what is committed is read.
        * A topic that was made anew, or that has deleted what was not read, is noticed: `TableError`.
Elsewhere. A table that is computed (counts, sums) and writes its own changelog: `local_fold`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa

from semel.client.sync.admin import Admin
from semel.client.sync.consumer import Consumer
from semel.runtime.closing import Closing
from semel.spark.pipelines.errors import TableError
from semel.spark.pipelines.local_store import LocalStore

_POLL_MS: Final = 500
_RECORDS_MAX: Final = 100_000  # Of one transaction of the store.


class LocalTable(Mapping[bytes, bytes], Closing):
    """The latest value of every key of a topic. Not for several threads at a time."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        topic: str,
        bootstrap: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`settings` are further ones of the consumer, in Kafka's names."""
        self.topic: Final = topic
        self._opened: Final = ExitStack()
        with ExitStack() as opening:
            self.store: Final = LocalStore(path)
            opening.callback(self.store.close)
            self._consumer: Final = opening.enter_context(
                Consumer(
                    {
                        "auto.offset.reset": "none",
                        "enable.auto.commit": False,
                        **(settings or {}),
                        "bootstrap.servers": bootstrap,
                    }
                )
            )
            with Admin({"bootstrap.servers": bootstrap}) as admin:
                described = admin.describe_topics([topic])[topic]
            self._topic_id: Final = str(described.topic_id)
            self.partitions: Final = tuple(sorted(one.partition for one in described.partitions))
            self._own()
            self._seek()
            self._opened.push(opening.pop_all())

    # ---- the mapping

    def __getitem__(self, key: bytes) -> bytes:
        value = self.store.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.store.items())

    def __len__(self) -> int:
        return self.store.count()

    def range(self, first: bytes = b"", after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose key is from `first` to before `after`, in the order of bytes."""
        return self.store.items(first, after)

    # ---- following the topic

    def catch_up(self) -> int:
        """Carry over what is committed now; how many records that were."""
        places = [(self.topic, partition) for partition in self.partitions]
        ends = {place.partition: end for place, end in self._consumer.end_offsets(places).items()}
        records = 0
        while any(self._consumer.position((self.topic, p)) < end for p, end in ends.items()):
            records += self._apply(self._consumer.poll_arrow(_POLL_MS, _RECORDS_MAX))
        return records

    def rebuild(self) -> int:
        """Forget everything and read the topic again; how many records that were."""
        self.store.clear()
        self._own()
        self._seek()
        return self.catch_up()

    def moved(self, changes: Mapping[bytes, bytes | None], next_offsets: Mapping[int, int]) -> None:
        """Carry over what the caller itself has committed to the topic, so that it need not be read back."""
        self.store.apply(changes.items(), next_offsets)
        for partition, next_offset in next_offsets.items():
            self._consumer.seek((self.topic, partition), next_offset)

    def close(self) -> None:
        self._opened.close()

    def _apply(self, batch: pa.RecordBatch) -> int:
        if not batch.num_rows:
            return 0
        keys = batch.column("key")
        if keys.null_count:
            row = keys.is_null().index(True).as_py()
            raise TableError(
                f"the record at offset {batch.column('offset')[row]} of {self.topic}-{batch.column('partition')[row]} has "
                "no key: a table needs one in every record"
            )
        ends = (
            pa.table([batch.column("partition"), batch.column("offset")], names=["partition", "offset"])
            .group_by("partition")
            .aggregate([("offset", "max")])
            .to_pydict()
        )
        positions = {p: last + 1 for p, last in zip(ends["partition"], ends["offset_max"], strict=True)}
        self.store.apply(zip(keys.to_pylist(), batch.column("value").to_pylist(), strict=True), positions)
        return int(batch.num_rows)

    # ---- belonging together

    def _own(self) -> None:
        """The file is of this topic, or new."""
        known = self.store.about("topic_id")
        if known not in (None, self._topic_id):
            raise TableError(
                f"{self.store.path} is a table of topic {self.store.about('topic')!r} with id {known}, {self.topic!r} has id "
                f"{self._topic_id}: it is another topic or was made anew. Delete the file to build the table from it"
            )
        self.store.describe(topic=self.topic, topic_id=self._topic_id)

    def _seek(self) -> None:
        places = [(self.topic, partition) for partition in self.partitions]
        begin = self._consumer.beginning_offsets(places)
        end = self._consumer.end_offsets(places)
        left = self.store.positions()
        positions = {place: left.get(place.partition, begin[place]) for place in sorted(begin)}
        for place, position in positions.items():
            if position > end[place]:
                raise TableError(
                    f"{self.store.path} has read {place} up to {position}, it ends at {end[place]}: the log has lost records, "
                    "or was restored from a backup. Delete the file to build the table again"
                )
            if position < begin[place]:
                raise TableError(
                    f"{self.store.path} has read {place} up to {position}, it begins at {begin[place]}: records were deleted "
                    "before they were read. Delete the file to build the table of what is left"
                )
        self._consumer.assign(places)
        for place, position in positions.items():
            self._consumer.seek(place, position)
