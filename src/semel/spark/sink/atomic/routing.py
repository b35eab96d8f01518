"""Which partition a row goes to, decided before the shuffle, so that one task gets all rows of a partition.

Role.   `Router.targets` gives the partition of every row of a column batch: the named one, else the key's by Kafka's own hash.
        All keyless rows of a batch share one partition, another one in the next batch.
Flow.   `stage` runs it as an Arrow function on the columns topic, key and partition alone; values never come here.
Rules.  * No row is looked at by itself: kernels and Arrow all the way.
        * Nothing is refused here: a topic or partition that cannot be has its row sent to a task that refuses it with all it
          knows. An error here would have Spark try it again three times.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from semel.core.client.partition_kernels import NO_KEY, partitions_of_keys

NOWHERE: Final = 0
"""For rows that will be refused."""


class Router:
    """Chooses partitions; `partitions_of` tells how many a topic has, or None if there is no such topic."""

    def __init__(
        self, partitions_of: Callable[[str], int | None], *, topic: str | None, first: int = 0
    ) -> None:
        self._partitions_of = partitions_of
        self._topic = topic
        self._keyless = first

    def targets(
        self, rows: int, *, topics: pa.Array | None, keys: pa.Array | None, partitions: pa.Array | None
    ) -> pa.Array:
        """The partition of every row, as int32."""
        self._keyless += 1
        if self._topic is not None:
            found = self._in_topic(self._topic, rows, keys)
        else:
            found = self._in_topics(rows, topics, keys)
        if partitions is None or partitions.null_count == rows:
            return found
        return pc.coalesce(pc.cast(partitions, pa.int32(), safe=False), found)

    def _in_topics(self, rows: int, topics: pa.Array | None, keys: pa.Array | None) -> pa.Array:
        found = _all_to(NOWHERE, rows)
        if topics is None:
            return found
        indexes = topics.dictionary_encode()
        codes = indexes.indices.fill_null(NO_KEY)
        for code, topic in enumerate(indexes.dictionary.to_pylist()):
            is_in = pc.equal(codes, code)
            some = None if keys is None else keys.filter(is_in)
            found = pc.replace_with_mask(found, is_in, self._in_topic(topic, is_in.true_count, some))
        return found

    def _in_topic(self, topic: str, rows: int, keys: pa.Array | None) -> pa.Array:
        count = self._partitions_of(topic)
        if count is None:
            return _all_to(NOWHERE, rows)
        keyless = self._keyless % count
        if keys is None or keys.null_count == rows:
            return _all_to(keyless, rows)
        hashed = partitions_of_keys(keys, count)
        if keys.null_count == 0:
            return hashed
        return pc.if_else(pc.equal(hashed, NO_KEY), pa.scalar(keyless, pa.int32()), hashed)


def _all_to(partition: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(partition, pa.int32()), rows)
