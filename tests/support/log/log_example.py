"""The example log that `docs/log-files.md` shows: written by the real code, with fixed times."""

from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.runtime.memory_files import MemoryDisk
from support.log.log_kit import batch_of, end, open_at, send

START_MS = 1_700_000_000_000


def example(files: MemoryDisk) -> PartitionLog:
    """Producer 1 commits, producer 2 aborts, producer 3 is merely idempotent; two segments."""
    log = open_at(files, LogConfig(segment_bytes=500, index_interval_bytes=100), now_ms=START_MS)

    def put(value: bytes, producer_id: int, sequence: int, *, transactional: bool = True) -> None:
        at = START_MS + log.log_end_offset * 1000
        data = batch_of(
            value, producer_id=producer_id, sequence=sequence, timestamp_ms=at, transactional=transactional
        )
        send(log, data, now_ms=at)

    put(b"order 1", 1, 0)
    put(b"order 2", 2, 0)
    put(b"click", 3, 0, transactional=False)
    put(b"order 3", 2, 1)
    end(log, 2, commit=False, now_ms=START_MS + 4000)
    put(b"order 4", 1, 1)
    end(log, 1, commit=True, now_ms=START_MS + 6000)
    put(b"click", 3, 1, transactional=False)
    log.close(START_MS + 8000)
    return log
