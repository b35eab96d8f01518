"""The log on disk: appending, reading and recovering, beside the bare system calls they cannot do without.

The peer of each row is the floor: the same bytes written, read or checked by plain calls, without a log around them.
"""

import gc
import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final

from semel.bench.measure import Comparison, Subject
from semel.core.idempotence import snapshot
from semel.core.idempotence.producer_state import ProducerState
from semel.core.records import batch, build
from semel.core.records.build import RecordInput, build_batch
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.log.recovery import Opening, open_log
from semel.runtime.files import RealFiles
from semel.types import TopicPartition

_NOW_MS: Final = 1_700_000_000_000
_BIG_RECORDS: Final = 9_000  # About 1 MB of 100-byte values: the largest batch a topic takes by default.
_BIG_BATCHES: Final = 64
_TINY_BATCHES: Final = 5_000
_CONFIG: Final = LogConfig(producer_id_expiration_ms=10**15)


def comparisons() -> list[Comparison]:
    """Every row; the files live in a temporary directory on the disk of the temporary folder."""
    build.load_kernels()
    root = Path(tempfile.mkdtemp(prefix="semel-bench-"))
    _cleanup_at_exit(root)
    big = _sequenced([b"x" * 100] * _BIG_RECORDS, _BIG_BATCHES)
    tiny = _sequenced([b"x" * 100], _TINY_BATCHES)
    big_bytes, tiny_bytes = sum(map(len, big)), sum(map(len, tiny))
    return [
        Comparison(
            title="append batches of 1 MB, idempotent: validate, judge, number, write, index",
            unit="batches",
            units_per_run=len(big),
            bytes_per_run=big_bytes,
            subjects=[
                Subject("semel.log", _appending(root / "big-0", big)),
                Subject("os.pwrite alone", _writing(root / "floor-big", big)),
            ],
        ),
        Comparison(
            title="append batches of one 100-byte record, idempotent",
            unit="batches",
            units_per_run=len(tiny),
            bytes_per_run=tiny_bytes,
            subjects=[
                Subject("semel.log", _appending(root / "tiny-0", tiny)),
                Subject("os.pwrite alone", _writing(root / "floor-tiny", tiny)),
            ],
        ),
        Comparison(
            title="read a log of 1 MB batches in slices of 1 MB, by offset",
            unit="slices",
            units_per_run=len(big),
            bytes_per_run=big_bytes,
            subjects=[
                Subject("semel.log", _reading(root / "read-0", big)),
                Subject("os.pread alone", _pread(root / "floor-read", big)),
            ],
        ),
        Comparison(
            title="recover after kill -9, batches of 1 MB: read, check, rebuild indexes and producers",
            unit="batches",
            units_per_run=len(big),
            bytes_per_run=big_bytes,
            subjects=[
                Subject("semel.log", _recovering(root / "recover-big-0", big)),
                Subject("read and checksum alone", _checking(root / "floor-check-big", big)),
            ],
        ),
        _producers(),
        Comparison(
            title="recover after kill -9, batches of one 100-byte record",
            unit="batches",
            units_per_run=len(tiny),
            bytes_per_run=tiny_bytes,
            subjects=[
                Subject("semel.log", _recovering(root / "recover-tiny-0", tiny)),
                Subject("read and checksum alone", _checking(root / "floor-check-tiny", tiny)),
            ],
        ),
    ]


def memory_per_producer(count: int = 10_000) -> float:
    """Bytes of memory a producer costs a partition, five batches remembered."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        state = _known_producers(count)
        return (tracemalloc.get_traced_memory()[0] - before) / len(state)
    finally:
        tracemalloc.stop()


def _known_producers(count: int) -> ProducerState:
    """Producers with a full window each; nothing is shared between them that real ones would not share."""
    state = ProducerState()
    header = batch.read_header(_sequenced([b"x"], 1)[0])
    for number in range(5):
        for producer_id in range(count):
            state.record(
                header._replace(
                    producer_id=1_000_000 + producer_id,
                    base_offset=5_000_000_000 + number * count + producer_id,
                    base_sequence=1_000_000 + number,
                    max_timestamp=_NOW_MS + producer_id,
                ),
                now_ms=_NOW_MS + producer_id,
            )
    return state


def _producers() -> Comparison:
    count = 10_000
    state = _known_producers(count)
    written = snapshot.encode(state.entries(), keep_windows=True)
    return Comparison(
        title=f"snapshot of {count} producers; each costs {memory_per_producer():.0f} bytes of memory, "
        f"{len(written) / count:.0f} on disk",
        unit="producers",
        units_per_run=count,
        bytes_per_run=len(written),
        subjects=[
            Subject("encode with windows", lambda: snapshot.encode(state.entries(), keep_windows=True)),
            Subject("Kafka's bytes alone", lambda: snapshot.encode(state.entries())),
        ],
    )


def _sequenced(values: list[bytes], count: int) -> list[bytearray]:
    """Batches of one producer, in sequence."""
    records = [RecordInput(key=None, value=value, timestamp_ms=_NOW_MS) for value in values]
    first = build_batch(records, producer_id=1, producer_epoch=0, base_sequence=0)
    made = []
    for number in range(count):
        data = bytearray(first)
        batch.write_header(data, 0, batch.read_header(data)._replace(base_sequence=number * len(values)))
        batch.set_crc(data, 0, len(data))
        made.append(data)
    return made


def _opened(directory: Path, *, clean: bool = True) -> PartitionLog:
    topic, _dash, partition = directory.name.rpartition("-")
    opening = Opening(
        topic_partition=TopicPartition(topic, int(partition)),
        directory=str(directory),
        config=_CONFIG,
        now_ms=_NOW_MS,
        clean=clean,
    )
    return open_log(RealFiles(), opening)


def _append_all(log: PartitionLog, batches: list[bytearray]) -> None:
    for data in batches:
        batch.set_base_offset(data, 0, 0)  # The last run numbered it.
        answer = log.append(data, leader_epoch=0, now_ms=_NOW_MS)
        if not isinstance(answer, Appended):
            raise AssertionError(f"the bench's own batch was answered {answer}")


def _appending(directory: Path, batches: list[bytearray]) -> Callable[[], None]:
    log = _opened(directory)

    def run() -> None:
        _append_all(log, batches)
        log.truncate_fully_and_start_at(0, _NOW_MS)
        log.remove_deleted_files(_NOW_MS + _CONFIG.file_delete_delay_ms)

    return run


def _writing(path: Path, batches: list[bytearray]) -> Callable[[], None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def run() -> None:
        position = 0
        for data in batches:
            position += os.pwrite(descriptor, data, position)
        os.ftruncate(descriptor, 0)

    return run


def _reading(directory: Path, batches: list[bytearray]) -> Callable[[], None]:
    log = _opened(directory)
    _append_all(log, batches)
    step = batch.read_header(batches[0]).records_count

    def run() -> None:
        for offset in range(0, log.log_end_offset, step):
            piece = reading.read(log, offset, max_bytes=1 << 20, upper_bound=log.log_end_offset)
            if piece is None:
                raise AssertionError(f"nothing at offset {offset}")
            piece.read()

    return run


def _pread(path: Path, batches: list[bytearray]) -> Callable[[], None]:
    path.write_bytes(b"".join(batches))
    descriptor = os.open(path, os.O_RDONLY)
    total = sum(map(len, batches))

    def run() -> None:
        for position in range(0, total, 1 << 20):
            os.pread(descriptor, 1 << 20, position)

    return run


def _recovering(directory: Path, batches: list[bytearray]) -> Callable[[], None]:
    log = _opened(directory)
    _append_all(log, batches)
    end_offset = log.log_end_offset

    def run() -> None:
        opened = _opened(directory, clean=False)
        if opened.log_end_offset != end_offset:
            raise AssertionError(f"recovered up to {opened.log_end_offset} of {end_offset}")

    return run


def _checking(path: Path, batches: list[bytearray]) -> Callable[[], None]:
    path.write_bytes(b"".join(batches))

    def run() -> None:
        content = path.read_bytes()
        position = 0
        while position < len(content):
            header = batch.read_header(content, position)
            batch.check_crc(content, position, header)
            position += header.size_bytes

    return run


def _cleanup_at_exit(root: Path) -> None:
    import atexit

    atexit.register(shutil.rmtree, root, ignore_errors=True)
