"""A batch's records as bytes: written once, when it first leaves; stamped again when it goes under another epoch.

Role.   `encoded` gives the bytes of a batch under an identity and a sequence; `halves` cuts one that is too large in two.
Flow.   The sender calls `encoded` for every attempt. `send_arrow` makes batches with the same kernels beforehand.
Rules.  * The same identity and sequence give the same bytes: a batch sent again is the same to the byte.
        * Compiled kernels write larger batches, once they are loaded on a thread beside the work; plain Python, which is
          as fast for a few records, writes the others. The bytes are the same. A program that sends little never loads
          them: importing Arrow costs more than it would save.
"""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.core.client.accumulator import Batch
from semel.core.idempotence.delivery import Identity, Send
from semel.core.records import batch as batches
from semel.core.records.build import RecordInput, build_batch
from semel.runtime.kernel_loading import load_beside
from semel.types import TopicPartition, WritableBytes

if TYPE_CHECKING:
    from semel.core.records.memory import Kernel

FEW_RECORDS: Final = 64
"""Up to so many records plain Python is faster than building columns: 2 µs each, against 110 for any number of them."""
_WORTH_RECORDS: Final = 20_000
"""After so many records in plain Python, Arrow is worth its import."""


class Codec(NamedTuple):
    """How a producer's records are compressed, and whether they are part of transactions."""

    compression: int
    level: int | None
    transactional: bool


class Kernels:
    """The encoder of columns, loaded when there is reason to."""

    _lock: Final = threading.Lock()
    _thread: threading.Thread | None = None
    _written = 0
    _loaded: "tuple[Kernel, ...]" = ()

    @classmethod
    def load(cls) -> None:
        """Import them, which takes a tenth of a second or more; they are compiled beside the work if they are not."""
        with cls._lock:
            if not cls._loaded:
                from semel.core.client.partition_kernels import PARTITIONS
                from semel.core.records import arrow_encode as _needed  # noqa: F401
                from semel.core.records.write_kernels import PLAN, WRITE

                load_beside(PLAN, WRITE, PARTITIONS)
                cls._loaded = PLAN, WRITE, PARTITIONS

    @classmethod
    def are_imported(cls) -> bool:
        """Whether `load` would do nothing."""
        return bool(cls._loaded)

    @classmethod
    def are_compiled(cls) -> bool:
        """Whether they are faster than plain Python."""
        return bool(cls._loaded) and all(one.is_compiled for one in cls._loaded)

    @classmethod
    def count(cls, records_count: int) -> None:
        """So many records were written without them: at some point they are loaded, on a thread, once."""
        cls._written += records_count
        if cls._written >= _WORTH_RECORDS and cls._thread is None:
            cls._thread = threading.Thread(target=cls.load, name="semel-kernels", daemon=False)
            cls._thread.start()


def encoded(batch: Batch, send: Send[TopicPartition], codec: Codec) -> WritableBytes:
    """The bytes of this attempt."""
    if batch.data is None:
        batch.data = _written(batch, send.identity, send.base_sequence, codec)
        batch.forget_records()
    else:
        _stamp(batch.data, send.identity, send.base_sequence)
    return batch.data


def _written(batch: Batch, identity: Identity, base_sequence: int, codec: Codec) -> WritableBytes:
    if batch.records_count > FEW_RECORDS:
        if Kernels.are_compiled():
            return _written_by_kernels(batch, identity, base_sequence, codec)
        Kernels.count(batch.records_count)
    headers = batch.headers or [()] * batch.records_count
    records = list(map(RecordInput, batch.keys, batch.values, batch.timestamps, headers))
    return build_batch(
        records,
        compression=codec.compression,
        compression_level=codec.level,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=base_sequence,
        transactional=codec.transactional,
    )


def _written_by_kernels(batch: Batch, identity: Identity, base_sequence: int, codec: Codec) -> WritableBytes:
    import pyarrow as pa

    from semel.core.records.arrow_encode import encode_batch

    columns: dict[str, pa.Array] = {
        "key": pa.array(batch.keys, pa.large_binary()),
        "value": pa.array(batch.values, pa.large_binary()),
        "timestamp": pa.array(batch.timestamps, pa.int64()),
    }
    if batch.headers is not None:
        pairs = pa.struct([("key", pa.string()), ("value", pa.binary())])
        rows = [[{"key": name, "value": content} for name, content in one] for one in batch.headers]
        columns["headers"] = pa.array(rows, pa.list_(pairs))
    return encode_batch(
        pa.RecordBatch.from_pydict(columns),
        compression=codec.compression,
        compression_level=codec.level,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=base_sequence,
        transactional=codec.transactional,
    )


def _stamp(data: WritableBytes, identity: Identity, base_sequence: int) -> None:
    """Write the identity and sequence into a finished batch. One of `send_arrow` has no checksum before."""
    header = batches.read_header(data)
    stamped = header._replace(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=base_sequence,
    )
    if stamped != header or not header.crc:
        batches.write_header(data, 0, stamped)
        batches.set_crc(data, 0, header.size_bytes)


def halves(data: WritableBytes, codec: Codec) -> Iterator[tuple[WritableBytes, int, int]]:
    """The records of a batch as two batches: (bytes, records, largest timestamp) of each."""
    from semel.core.records.arrow import decode_batches
    from semel.core.records.arrow_encode import encode_batch

    Kernels.load()
    rows = decode_batches(data).records
    middle = rows.num_rows // 2
    for half in (rows.slice(0, middle), rows.slice(middle)):
        made = encode_batch(
            half,
            compression=codec.compression,
            compression_level=codec.level,
            transactional=codec.transactional,
        )
        yield made, half.num_rows, batches.read_header(made).max_timestamp
