"""Record batches beside aiokafka's Cython and kafka-python: records and bytes per second, checksum included.

Role.   Encode, decode and scan of batches of about 1 MB, of the default 16 KB, plain and in every compression.
Flow.   `python -m semel.bench kernels`. All subjects read the same bytes and write the same records.
Rules.  * Ours goes from Arrow columns to bytes and back; the peers from and to Python objects, which is all they have.
          The later use of the objects is not timed for any side.
        * Bytes are counted as records before compression.
        * Decoding checks the checksum, on every side.
"""

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from semel.bench.measure import Comparison, Subject, peer
from semel.core.records import kernels
from semel.core.records.arrow import decode_batches
from semel.core.records.arrow_encode import encode_batch, encode_batches
from semel.core.records.batch import read_header, set_base_offset
from semel.core.records.build import records_section, survey_in_python
from semel.core.records.codecs import Compression

_BATCH_BYTES: Final = 1_000_000
_DEFAULT_BATCH_BYTES: Final = 16_384  # batch.size of Kafka's producer.
_TARGET_RATIO: Final = 5.0
_TARGET: Final = "at least 5 times aiokafka's Cython"
_TIMESTAMP: Final = 1_700_000_000_000


class Workload(NamedTuple):
    """The same records as columns and as objects."""

    rows: pa.RecordBatch
    objects: list[tuple[int, bytes, bytes]]
    record_bytes: int

    @property
    def records(self) -> int:
        return len(self.objects)


def workload(value_bytes: int) -> Workload:
    """About 1 MB of records: a key of 8 bytes, a value made of words that compress like text."""
    random_ = random.Random(value_bytes)
    words = [random_.randbytes(4).hex().encode() for _ in range(500)]
    objects = []
    for number in range(_BATCH_BYTES // (value_bytes + 20)):
        value = b" ".join(random_.choices(words, k=value_bytes // 9 + 1))[:value_bytes]
        objects.append((_TIMESTAMP + number // 7, b"%08d" % (number % 1000), value))
    rows = pa.record_batch(
        {
            "timestamp": pa.array([timestamp for timestamp, _, _ in objects], pa.int64()),
            "key": pa.array([key for _, key, _ in objects], pa.binary()),
            "value": pa.array([value for _, _, value in objects], pa.binary()),
        }
    )
    return Workload(rows, objects, len(encode_batch(rows)) - 61)


def comparisons() -> list[Comparison]:
    """Everything measured here, the plain batches first."""
    small, large = workload(100), workload(1000)
    measured = [
        *_both_ways(small, "100 B values", Compression.NONE),
        *_both_ways(large, "1 KB values", Compression.NONE),
        *_in_default_batches(small),
        _scan(small, "100 B values"),
        _scan(large, "1 KB values"),
    ]
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        measured += _both_ways(small, f"100 B values, {codec.name.lower()}", codec)
    return measured


def _both_ways(work: Workload, title: str, codec: Compression) -> list[Comparison]:
    batch = bytes(encode_batch(work.rows, compression=codec))
    plain = codec is Compression.NONE
    encoding = [
        Subject("Semel, from columns", lambda: encode_batch(work.rows, compression=codec)),
        peer("aiokafka (Cython)", lambda: _encoder("aiokafka", work, codec)),
    ]
    decoding = [
        Subject("Semel, to columns", lambda: decode_batches(batch)),
        peer("aiokafka (Cython)", lambda: _decoder("aiokafka", [batch], work.records)),
    ]
    if plain:  # kafka-python needs further libraries for most codecs.
        encoding.append(peer("kafka-python", lambda: _encoder("kafka", work, codec)))
        decoding.append(peer("kafka-python", lambda: _decoder("kafka", [batch], work.records)))
    return [
        _comparison(f"Encode a batch of 1 MB, {title}", work, encoding, targeted=plain),
        _comparison(f"Decode a batch of 1 MB, {title}", work, decoding, targeted=plain),
    ]


def _in_default_batches(work: Workload) -> list[Comparison]:
    def encode() -> object:
        return list(encode_batches(work.rows, batch_size_bytes=_DEFAULT_BATCH_BYTES))

    batches, offset = list[bytes](), 0
    for batch in encode_batches(work.rows, batch_size_bytes=_DEFAULT_BATCH_BYTES):
        set_base_offset(batch.data, 0, offset)
        offset += batch.records_count
        batches.append(bytes(batch.data))
    fetched = b"".join(batches)
    return [
        _comparison(
            "Encode 1 MB in batches of 16 KB, 100 B values", work, [Subject("Semel, from columns", encode)]
        ),
        _comparison(
            "Decode 1 MB in batches of 16 KB, 100 B values",
            work,
            [
                Subject("Semel, to columns", lambda: decode_batches(fetched)),
                peer("aiokafka (Cython)", lambda: _decoder("aiokafka", batches, work.records)),
                peer("kafka-python", lambda: _decoder("kafka", batches, work.records)),
            ],
        ),
    ]


def _scan(work: Workload, title: str) -> Comparison:
    batch = bytes(encode_batch(work.rows))
    header = read_header(batch)
    section = records_section(batch, 0, header)
    subjects = [
        Subject("Semel, compiled", lambda: kernels.survey(section, header, False)),
        Subject("Semel, until kernels are loaded", lambda: survey_in_python(section, header, False)),
    ]
    return _comparison(f"Scan a batch of 1 MB as a broker does, without checksum, {title}", work, subjects)


def _comparison(title: str, work: Workload, subjects: list[Subject], *, targeted: bool = False) -> Comparison:
    return Comparison(
        title=title,
        unit="records",
        units_per_run=work.records,
        bytes_per_run=work.record_bytes,
        subjects=subjects,
        target=_TARGET if targeted else None,
        target_ratio=_TARGET_RATIO if targeted else None,
    )


def _encoder(library: str, work: Workload, codec: Compression) -> Callable[[], object]:
    builder = _module(library).DefaultRecordBatchBuilder

    def encode() -> object:
        batch = builder(
            magic=2,
            compression_type=int(codec),
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=4 * _BATCH_BYTES,
        )
        append = batch.append
        for offset, (timestamp, key, value) in enumerate(work.objects):
            append(offset, timestamp=timestamp, key=key, value=value, headers=[])
        return batch.build()

    return encode


def _decoder(library: str, batches: list[bytes], count: int) -> Callable[[], object]:
    reader = _module(library).DefaultRecordBatch

    def decode() -> object:
        seen = 0
        for batch in batches:
            records = reader(batch)
            if not records.validate_crc():
                raise AssertionError("a peer refuses our checksum")
            for _ in records:  # Not kept: a list of them would measure the garbage collector.
                seen += 1
        if seen != count:
            raise AssertionError(f"a peer read {seen} of {count} records")
        return seen

    return decode


def _module(library: str) -> Any:
    if library == "aiokafka":
        from aiokafka.record import default_records

        return default_records
    from kafka.record import default_records

    return default_records
