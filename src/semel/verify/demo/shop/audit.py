"""The content of the topics: counted while it comes, and read anew when all is done.

Role.   `Watcher` counts committed rows while the story goes on, for the display and the picture. `read_all` reads every
        topic from its beginning to its end, for the judgement. It goes to the broker itself, not through the bad
        connection, and trusts nothing the watcher saw.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from semel import Consumer
from semel.core.records.arrow_schema import RECORDS_SCHEMA
from semel.exceptions import KafkaException
from semel.types import TopicPartition
from semel.verify.demo.processes import DemoFailedError
from semel.verify.demo.shop import topics

_POLL_MS: Final = 200
_READ_ATTEMPTS_MAX: Final = 600
_COLUMNS: Final = ("key", "value", "partition", "offset")


def read_all(bootstrap: str) -> dict[str, pa.Table]:
    """All committed rows of every topic that is judged."""
    names = (topics.ORDERS, topics.CLEAN, topics.REJECTED, topics.REVENUE, topics.STATES, topics.RECEIPTS)
    return {name: read_topic(bootstrap, name, topics.PARTITIONS[name]) for name in names}


def read_topic(bootstrap: str, topic: str, partitions: int) -> pa.Table:
    """All committed rows of a topic: key, value, partition, offset."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(places)
        ends = consumer.end_offsets(places)
        batches = []
        for _attempt in range(_READ_ATTEMPTS_MAX):
            if all(consumer.position(place) >= end for place, end in ends.items()):
                break
            batches.append(consumer.poll_arrow(timeout_ms=_POLL_MS).select(_COLUMNS))
        else:
            raise DemoFailedError(f"{topic} could not be read to its end {dict(ends)}")
    schema = pa.schema([RECORDS_SCHEMA.field(name) for name in _COLUMNS])
    return pa.Table.from_batches(batches, schema=schema)


class Watcher:
    """Counts committed rows by topic, on a thread of its own, through the connection everybody has."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.failure: KafkaException | None = None

    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counts)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        watched = (topics.ORDERS, topics.CLEAN, topics.REJECTED)
        places = [TopicPartition(name, one) for name in watched for one in range(topics.PARTITIONS[name])]
        try:
            with Consumer({"bootstrap.servers": self._bootstrap}) as consumer:
                consumer.assign(places)
                consumer.seek_to_beginning(places)
                while not self._stopping.is_set():
                    rows = consumer.poll_arrow(timeout_ms=_POLL_MS)
                    counted = pc.value_counts(rows["topic"]).to_pylist()
                    with self._lock:
                        for one in counted:
                            self._counts[one["values"]] += one["counts"]
        except KafkaException as error:
            self.failure = error
