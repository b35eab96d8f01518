"""Counts, sums and other tables computed from a topic, on this machine, exactly once, with a changelog to rebuild them from.

Role.   `LocalFold`: Kafka's picture of stateful processing, for programs without Spark.

            def count(old, record):
                return str(int(old or 0) + 1).encode()

            with LocalFold("counts.db", name="counts", source="words", changelog="counts", update=count, bootstrap=server) as fold:
                fold.catch_up()
                fold.table[b"coffee"]

Flow.   start: fence the last owner of the name -> read its committed offsets -> carry the changelog over into the store.
        step: poll the source -> `update` of every record, in order -> one transaction {changed keys to the changelog, offsets
        of the source} -> the store.
Rules.  * The changelog and the offsets are committed together, so they always tell of the same prefix of the source. The store
          follows the changelog: a crash between the two is made up for at the next start, a lost file as well.
        * A key's change goes to the partition of the changelog with the number of the one it was read from: one writer each.
        * `update(old, record)` gives the new value, None to delete the key. It must depend on nothing else: a batch whose
          transaction failed is computed again.
        * A group that has lost its offsets while the changelog has records is refused: nothing is counted twice in silence.
        * After an error nobody knows here what was committed: it takes no further step, and the next one to open it finds out.
        * One process per name: a second one fences the first.
Limits. A topic's key belongs in one partition, as everywhere: the folds of a key in two partitions meet in one entry.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from semel.client.sync.admin import Admin
from semel.client.sync.consumer import Consumer
from semel.client.sync.producer import Producer
from semel.client.values.administration import NewTopic
from semel.client.values.consuming import ConsumerRecord
from semel.errors import ConfigError
from semel.exceptions import TopicExistsException
from semel.runtime.closing import Closing
from semel.spark.pipelines.errors import TableError
from semel.spark.pipelines.local_table import LocalTable
from semel.spark.pipelines.table import COMPACTED
from semel.types import TopicPartition

Update = Callable[[bytes | None, ConsumerRecord], bytes | None]
_POLL_MS: Final = 500


class LocalFold(Closing):
    """A table computed from a topic. Not for several threads at a time."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str,
        source: str,
        changelog: str,
        update: Update,
        bootstrap: str,
        records_max: int = 10_000,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`name` is the group of the offsets and the transactional id; a transaction holds what `records_max` records change.

        `settings` are further ones of the source's consumer.
        """
        if records_max < 1:
            raise ConfigError(f"records_max is {records_max}: a transaction is made of at least one record")
        self.source: Final = source
        self.changelog: Final = changelog
        self._update: Final = update
        self._records_max: Final = records_max
        self._failed = False
        self._opened: Final = ExitStack()
        servers = {"bootstrap.servers": bootstrap}
        with ExitStack() as opening:
            self._producer: Final = opening.enter_context(Producer({**servers, "transactional.id": name}))
            self._producer.init_transactions()  # From here on the one before can commit nothing.
            self._partitions: Final = _partitions(bootstrap, source, changelog)
            self.table: Final = opening.enter_context(LocalTable(path, topic=changelog, bootstrap=bootstrap))
            self.restored: Final = self.table.catch_up()  # How many records of the changelog it had to read.
            self._consumer: Final = opening.enter_context(
                Consumer(
                    {
                        "auto.offset.reset": "earliest",
                        **(settings or {}),
                        **servers,
                        "group.id": name,
                        "enable.auto.commit": False,
                    }
                )
            )
            self._begin(name)
            self._opened.push(opening.pop_all())

    def _begin(self, name: str) -> None:
        """Read the source where the changelog ends. A group that forgot its offsets would count everything again."""
        places = [TopicPartition(self.source, partition) for partition in self._partitions]
        committed = self._consumer.committed(places)
        changed = self._consumer.end_offsets([(self.changelog, partition) for partition in self._partitions])
        for place in places:
            end = changed[TopicPartition(self.changelog, place.partition)]
            if committed.get(place) is None and end > 0:
                raise TableError(
                    f"the group {name!r} has no offset of {place}, but the changelog {self.changelog}-{place.partition} ends at "
                    f"{end}: the broker has forgotten it (offsets.retention.minutes without a step), or it was deleted. Reading "
                    "from the beginning would count again what is counted. Commit the offset up to which the source is "
                    "counted, or use a new name and a new changelog"
                )
        self._consumer.assign(places)

    def catch_up(self) -> int:
        """Fold what is committed in the source now; how many records that were."""
        places = [(self.source, partition) for partition in self._partitions]
        ends = self._consumer.end_offsets(places)
        records = 0
        while any(self._consumer.position(place) < end for place, end in ends.items()):
            records += self.step()
        return records

    def step(self, timeout_ms: int = _POLL_MS) -> int:
        """Fold what one poll brings, in one transaction; how many records that were."""
        if self._failed:
            raise TableError(
                f"{self.table.store.path}: a step has failed. Close it and open it again: that settles what is stored"
            )
        records = self._consumer.poll(timeout_ms, self._records_max)
        if not records:
            return 0
        self._failed = True
        changes: dict[bytes, bytes | None] = {}
        home: dict[bytes, int] = {}
        for record in records:
            if record.key is None:
                raise TableError(
                    f"the record at offset {record.offset} of {record.topic}-{record.partition} has no key: a table needs one"
                )
            old = changes[record.key] if record.key in changes else self.table.store.get(record.key)
            changes[record.key] = self._update(old, record)
            home[record.key] = record.partition
        offsets: dict[TopicPartition | tuple[str, int], Any] = dict(records.next_offsets().items())
        with self._producer.transaction():
            sent = [
                self._producer.send(self.changelog, value, key=key, partition=home[key])
                for key, value in changes.items()
            ]
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())
        stored = [one.result() for one in sent]
        if all(one.has_offset for one in stored):
            ends = {one.partition: one.offset + 1 for one in sorted(stored, key=lambda one: one.offset)}
            self.table.moved(changes, ends)
        else:  # An answer that was a repeat names no offset: read back what was written.
            self.table.catch_up()
        self._failed = False
        return len(records)

    def close(self) -> None:
        self._opened.close()


def _partitions(bootstrap: str, source: str, changelog: str) -> tuple[int, ...]:
    """The partitions of the source; a missing changelog is made with as many, compacted."""
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        partitions = tuple(
            sorted(one.partition for one in admin.describe_topics([source])[source].partitions)
        )
        try:
            admin.create_topics([NewTopic(changelog, num_partitions=len(partitions), configs=COMPACTED)])
        except TopicExistsException:
            found = len(admin.describe_topics([changelog])[changelog].partitions)
            if found != len(partitions):
                raise TableError(
                    f"{source} has {len(partitions)} partitions, its changelog {changelog} has {found}: both need the same"
                ) from None
    return partitions
