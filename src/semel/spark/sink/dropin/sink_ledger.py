"""The ledger of the drop-in sink: one row per sink, in a compacted topic, written by one driver at a time.

Role.   `SinkLedger` is a sink's row: `take` it, then `put` the next; or only `look`. `unfinished_writes` lists what batch jobs left behind.
Flow.   `committing` takes the ledger for every batch it commits or aborts.
Rules.  * Taking it fences its last owner and settles the row that one was writing. So the row read afterwards is the last word,
          and a driver that was replaced can write no more. The transactional id `semel-ledger:NAME` does both.
        * Row and pointer to it (an offset of the group `semel-ledger:NAME`) are one transaction: reading is one fetch, however many
          sinks share the topic. Brokers forget the offsets of idle groups; then the topic is read from its beginning. Beside the
          pointer stands which batch of which run is closed: a task that is late looks there (`settling`).
        * The topic is made compacted when it is missing, never by a broker's defaults: those would delete rows after a week.
"""

import time
from collections.abc import Iterator
from typing import Final

from semel.client.blocking import BlockingCluster
from semel.client.producer.engine import Offsets
from semel.client.sync.consumer import Consumer
from semel.client.sync.producer import Producer
from semel.client.values.consuming import OffsetAndMetadata
from semel.exceptions import OffsetOutOfRangeException
from semel.runtime.closing import Closing
from semel.spark.sink.common.errors import LedgerError
from semel.spark.sink.common.ledger_topic import has_topic, make_topic
from semel.spark.sink.common.names import ledger_id
from semel.spark.sink.dropin.batch_ledger import LedgerRow
from semel.spark.sink.dropin.sink_options import SinkOptions

_STREAM, _WRITE = b"stream:", b"write:"
_TIMEOUT_MS: Final = 20_000
"""Of the ledger's own transactions, which take milliseconds: a driver that dies in one holds others back no longer."""
_PATIENCE_SECONDS: Final = 60.0
_POLL_MS: Final = 500
_ROW_BYTES_MAX: Final = 32 * 1024 * 1024
_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}


class SinkLedger(Closing):
    """The row of one sink, or of one batch job; to be closed, or used as a context."""

    def __init__(self, options: SinkOptions, name: str, *, is_write: bool = False) -> None:
        self._options = options
        self._id = ledger_id(name)
        self._key = (_WRITE if is_write else _STREAM) + name.encode()
        self._is_pointed = (
            not is_write
        )  # A job's row lives for moments: it needs no pointer that outlives it.
        self._where = options.ledger
        self._producer: Producer | None = None

    def look(self) -> LedgerRow | None:
        """Read the row and disturb nobody; it may be out of date a moment later."""
        return self._read() if _has_topic(self._options) else None

    def take(self) -> LedgerRow | None:
        """Become the only driver that may write the row, and read it."""
        _make_topic(self._options)
        settings = self._options.producer_settings(
            self._id,
            transaction_timeout_ms=str(_TIMEOUT_MS),
            linger_ms="0",
            max_request_size=str(_ROW_BYTES_MAX),
        )
        settings.pop("transaction.two.phase.commit.enable", None)
        settings["compression.type"] = "gzip"  # Ids repeat themselves; a row of thousands stays small.
        self._producer = Producer(settings)
        self._producer.init_transactions()
        return self._read()

    def put(self, row: LedgerRow | None) -> None:
        """Write the row, durable when this returns; None removes it. Raises if another driver has taken the ledger since."""
        assert self._producer is not None, "take the ledger first"
        with self._producer.transaction():
            stored = self._producer.send(
                self._where.topic,
                key=self._key,
                value=None if row is None else row.encoded(),
                partition=self._where.partition,
            )
            self._producer.flush()
            if self._is_pointed and row is not None:
                at = stored.result(_PATIENCE_SECONDS).offset
                pointer: Offsets = {self._where: OffsetAndMetadata(at, row.place.as_note())}
                self._producer.send_offsets_to_transaction(pointer, self._id)

    def _read(self) -> LedgerRow | None:
        pointer = None
        if self._is_pointed:
            with _consumer(self._options, "read_committed", group=self._id) as consumer:
                pointer = consumer.committed([self._where])[self._where]
        if pointer is None:
            return dict(_rows(self._options)).get(self._key)
        # The pointer was committed with its row. Transactions of other sinks may still be open below it: they do not matter.
        with _consumer(self._options, "read_uncommitted") as consumer:
            return self._read_at(consumer, pointer.offset)

    def _read_at(self, consumer: Consumer, offset: int) -> LedgerRow:
        consumer.assign([self._where])
        consumer.seek(self._where, offset)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                records = consumer.poll(_POLL_MS, max_records=1)
            except OffsetOutOfRangeException as error:
                raise LedgerError(
                    f"the row of {self._id} at offset {offset} of {self._where.topic} is gone",
                    "the topic must have cleanup.policy=compact: was it cleaned by retention?",
                ) from error
            for record in records:
                if record.offset != offset or record.key != self._key or record.value is None:
                    raise LedgerError(
                        f"offset {offset} of {self._where.topic} should be the row of {self._id}, but offset "
                        f"{record.offset} has the key {record.key!r}",
                        f"if the topic was created anew, delete the group {self._id}",
                    )
                return LedgerRow.decoded(record.value)
        raise LedgerError(
            f"the row of {self._id} at offset {offset} of {self._where.topic} cannot be read within {_PATIENCE_SECONDS} s",
            f"see whether its partition has a leader: 'semel topics describe {self._where.topic}'",
        )

    def close(self) -> None:
        """Leave the ledger to others. Closing twice is harmless."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None


def unfinished_writes(options: SinkOptions) -> dict[str, LedgerRow]:
    """Job -> row, of batch jobs whose driver decided and did not say that all is done."""
    _make_topic(options)
    return {key.removeprefix(_WRITE).decode(): row for key, row in _rows(options) if key.startswith(_WRITE)}


def _rows(options: SinkOptions) -> Iterator[tuple[bytes, LedgerRow]]:
    """Every key with its last row, of all that was committed before this was asked."""
    where = options.ledger
    with _consumer(options, "read_uncommitted") as consumer:
        end = consumer.end_offsets([where])[where]
    last = dict[bytes, bytes | None]()
    with _consumer(options, "read_committed") as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while consumer.position(where) < end:
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"{where.topic} cannot be read to its end within {_PATIENCE_SECONDS} s, because a transaction is open in it",
                    f"see 'semel txn find-hanging --all --topic {where.topic}'",
                )
            last.update((record.key, record.value) for record in consumer.poll(_POLL_MS))
    for key, value in last.items():
        if value is not None:
            yield key, LedgerRow.decoded(value)


def _consumer(options: SinkOptions, isolation: str, *, group: str | None = None) -> Consumer:
    own = {"isolation_level": isolation, "enable_auto_commit": "false", "auto_offset_reset": "none"}
    settings = options.consumer_settings(**own)
    settings.pop("group.id", None)
    if group is not None:
        settings["group.id"] = group
    return Consumer(settings)


def _has_topic(options: SinkOptions) -> bool:
    with _cluster(options) as cluster:
        return cluster.run(has_topic, options.ledger_topic)


def _make_topic(options: SinkOptions) -> None:
    with _cluster(options) as cluster:
        cluster.run(make_topic, options.ledger_topic, _SETTINGS, "option('ledgerTopic', ...)")


def _cluster(options: SinkOptions) -> BlockingCluster:
    return BlockingCluster(options.producer_config("any"))
