"""The peak memory of a producer that writes far more than fits into memory, compared with `buffer.memory`.

Role.   `measure` starts a broker that keeps only the last of what it is given, and a process with one producer that writes so
        much; the peak of that process's resident memory is compared with what it was when the first record had been stored.
Rules.  * The producer's process does nothing else, and nothing is kept of its futures; kernels are loaded before the first look.
        * Memory is VmHWM: the most that was resident since the first look, at which the kernel is told to begin anew. So nothing
          between two looks is missed, and what loading libraries took does not hide what writing takes.

Usage.  python -m semel.bench.producer_memory [--gigabytes 10] [--buffer-memory BYTES] [--record-bytes N] [--way send|arrow]
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.bench.broker_load import Wire
from semel.peers.kafka import PeerFailedError
from semel.peers.processes import SemelProcess

if TYPE_CHECKING:
    from semel.client.sync.producer import Producer

TOPIC: Final = "written"
WAYS: Final = ("send", "arrow")
_PARTITIONS: Final = 4
_GIGABYTE: Final = 10**9
_MEBIBYTE: Final = 1 << 20
_ROWS: Final = 10_000
_RESET_PEAK: Final = Path("/proc/self/clear_refs")
_BROKER: Final = {
    "log.segment.bytes": str(64 * _MEBIBYTE),
    "log.retention.bytes": str(64 * _MEBIBYTE),
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
}
"""The disk is not what is measured: old segments go at once."""


@dataclass(frozen=True, slots=True)
class Peak:
    """One run."""

    way: str
    written_bytes: int
    buffer_memory_bytes: int
    base_bytes: int
    """Resident when one record was stored."""
    peak_bytes: int
    """The most that was resident from then on."""
    seconds: float

    @property
    def held_bytes(self) -> int:
        """The memory of writing, above that of a new producer."""
        return self.peak_bytes - self.base_bytes


def measure(written_bytes: int, *, buffer_memory_bytes: int, record_bytes: int, way: str) -> Peak:
    """Have a process of its own write so much to a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="semel-bench-memory-") as directory:
        broker = SemelProcess(Path(directory), _BROKER)
        broker.start()
        try:
            with Wire(broker.bootstrap) as wire:
                wire.create_topic(TOPIC, _PARTITIONS)
            given = {
                "--at": broker.bootstrap,
                "--bytes": written_bytes,
                "--buffer-memory": buffer_memory_bytes,
                "--record-bytes": record_bytes,
                "--way": way,
            }
            options = [str(part) for pair in given.items() for part in pair]
            done = subprocess.run(
                [sys.executable, "-m", "semel.bench.producer_memory", *options],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        finally:
            broker.stop()
    return Peak(**json.loads(done.stdout))


def _write(
    bootstrap: str, written_bytes: int, *, buffer_memory_bytes: int, record_bytes: int, way: str
) -> Peak:
    """Write, in this process, and look."""
    from semel.client.sync.producer import Producer

    since = time.monotonic()
    with Producer(bootstrap_servers=bootstrap, buffer_memory=buffer_memory_bytes) as producer:
        write_some, some_bytes = _writing(producer, record_bytes, way)
        producer.send(TOPIC, b"first").result()
        gc.collect()
        _RESET_PEAK.write_text("5", encoding="ascii")
        base_bytes = _peak_bytes()
        left_bytes = written_bytes
        while left_bytes > 0:
            write_some()
            left_bytes -= some_bytes
        producer.flush()
        peak_bytes = _peak_bytes()
    return Peak(
        way, written_bytes - left_bytes, buffer_memory_bytes, base_bytes, peak_bytes, time.monotonic() - since
    )


def _writing(producer: "Producer", record_bytes: int, way: str) -> tuple[Callable[[], object], int]:
    """A function that writes some records, and their size in bytes."""
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    value = value[:record_bytes]
    if way == "send":

        def send_all() -> None:
            for _ in range(_ROWS):
                producer.send(TOPIC, value)

        return send_all, _ROWS * record_bytes
    import pyarrow as pa

    rows = max(1, min(_ROWS, 8 * _MEBIBYTE // record_bytes))
    batch = pa.record_batch({"value": pa.array([value] * rows, type=pa.binary())})
    producer.send_arrow(TOPIC, batch.slice(0, 1)).result()  # The kernels are there.
    return lambda: producer.send_arrow(TOPIC, batch), rows * record_bytes


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise PeerFailedError("this system does not say what the most resident memory was (VmHWM)")


def as_text(peak: Peak) -> str:
    """One line to read."""
    return (
        f"{peak.way}: {peak.written_bytes / _GIGABYTE:.2f} GB in {peak.seconds:.1f} s with buffer.memory of "
        f"{peak.buffer_memory_bytes / _MEBIBYTE:.0f} MiB; resident {peak.base_bytes / _MEBIBYTE:.0f} MiB at the first "
        f"record, {peak.peak_bytes / _MEBIBYTE:.0f} MiB at most: {peak.held_bytes / _MEBIBYTE:.0f} MiB held"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m semel.bench.producer_memory", description="Peak memory of a producer."
    )
    parser.add_argument(
        "--gigabytes", type=float, default=10.0, help="how much is written (default %(default)s)"
    )
    parser.add_argument("--buffer-memory", type=int, default=32 * _MEBIBYTE, metavar="BYTES")
    parser.add_argument("--record-bytes", type=int, default=1000, metavar="N")
    parser.add_argument("--way", choices=WAYS, help="records one by one, or Arrow columns; both if left out")
    parser.add_argument("--at", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.at is not None:  # This is the producer's process.
        peak = _write(
            options.at,
            options.bytes,
            buffer_memory_bytes=options.buffer_memory,
            record_bytes=options.record_bytes,
            way=options.way,
        )
        print(json.dumps(asdict(peak)))
        return 0
    for way in WAYS if options.way is None else (options.way,):
        peak = measure(
            int(options.gigabytes * _GIGABYTE),
            buffer_memory_bytes=options.buffer_memory,
            record_bytes=options.record_bytes,
            way=way,
        )
        print(as_text(peak))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
