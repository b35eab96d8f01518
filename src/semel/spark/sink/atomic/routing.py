"""Which partition a row goes to, decided before the shuffle, so that one task gets all rows of a partition.

Role.   `Router.targets` gives the partition of every row of a column batch: the named one, else the key's by Kafka's own hash.
        All keyless rows of a batch share one partition, another one in the next batch.
Flow.   `stage` runs it as an Arrow function on the columns topic, key and partition alone; values never come here.
Rules.  * No row is looked at by itself: kernels and numpy all the way.
        * Nothing is refused here: a topic or partition that cannot be has its row sent to a task that refuses it with all it
          knows. An error here would have Spark try it again three times.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.client.partition_kernels import NO_KEY, partitions_of_keys

Partitions: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
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
    ) -> Partitions:
        """The partition of every row."""
        self._keyless += 1
        if self._topic is not None:
            found = self._in_topic(self._topic, rows, keys)
        else:
            found = self._in_topics(rows, topics, keys)
        if partitions is None or partitions.null_count == rows:
            return found
        given = np.asarray(partitions.fill_null(NOWHERE)).astype(np.int32)
        return np.where(np.asarray(partitions.is_null()), found, given).astype(np.int32)

    def _in_topics(self, rows: int, topics: pa.Array | None, keys: pa.Array | None) -> Partitions:
        found = np.full(rows, NOWHERE, np.int32)
        if topics is None:
            return found
        indexes = topics.dictionary_encode()
        codes = np.asarray(indexes.indices.fill_null(NO_KEY))
        for code, topic in enumerate(indexes.dictionary.to_pylist()):
            places = np.flatnonzero(codes == code)
            some = None if keys is None else pc.take(keys, pa.array(places))
            found[places] = self._in_topic(topic, len(places), some)
        return found

    def _in_topic(self, topic: str, rows: int, keys: pa.Array | None) -> Partitions:
        count = self._partitions_of(topic)
        if count is None:
            return np.full(rows, NOWHERE, np.int32)
        keyless = np.int32(self._keyless % count)
        if keys is None or keys.null_count == rows:
            return np.full(rows, keyless, np.int32)
        hashed = partitions_of_keys(keys, count)
        if keys.null_count == 0:
            return hashed
        return np.where(hashed == NO_KEY, keyless, hashed).astype(np.int32)
