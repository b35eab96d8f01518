"""Shared by the tests with clients written elsewhere: running brokers, records, and what the log really holds.

`ThreadBroker` runs a broker inside this process, `BrokerProcess` in one of its own that can be frozen and killed.
`stored` reads the files of a partition, so that what a client believes is checked against the log and not against
another client.
"""

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import uvloop

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.dispatch import import_handlers
from semel.core.records import batch
from semel.core.records.batch import BatchHeader
from semel.core.records.build import Record, iter_records
from semel.runtime.bundle import real_runtime

START_SECONDS: Final = 60
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Sent(NamedTuple):
    """A record as a test gives it to a client."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


class Got(NamedTuple):
    """A record as a client gives it to a test."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    log_append_time: bool


def settings_for(directory: Path, settings: Mapping[str, str], port: int = 0) -> dict[str, str]:
    return {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(directory), **settings}


async def _serve(settings: Mapping[str, str], started: Callable[[Broker], None], stop: asyncio.Event) -> None:
    broker = Broker(BrokerConfig.of(settings), real_runtime())
    await broker.start()
    try:
        started(broker)
        await stop.wait()
    finally:
        await broker.stop()


class ThreadBroker:
    """A broker in a thread of this process."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self._settings = settings_for(directory, {k.replace("_", "."): v for k, v in settings.items()})
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)
        # Before there is a second thread: pytest rewrites what is imported, which CPython 3.11 cannot do in two at once.
        import_handlers()
        self.broker: Broker | None = None
        self.bootstrap = ""

    def _run(self) -> None:
        try:
            uvloop.run(self._main())
        except BaseException as failure:  # Shown by the thread that waits for it.
            self._failure = failure
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await _serve(self._settings, self._started, self._stop)

    def _started(self, broker: Broker) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_SECONDS), "the broker did not start"
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._loop is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive(), "the broker did not stop"
        if self._failure is not None and exc[0] is None:
            raise self._failure

    def freeze(self, seconds: float) -> None:
        """Stop the broker's world for a while, as a full collection does; returns at once."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(time.sleep, seconds)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the broker's loop and wait for it."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    def duplicates(self) -> int:
        """How many batches the broker recognised as sent before."""
        assert self.broker is not None
        return self.broker.parts.metrics.errors["Produce", "DUPLICATE_SEQUENCE_NUMBER"]


class BrokerProcess:
    """`semel broker` in a process of its own; it comes back at the port it had."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self._settings = {k.replace("_", "."): v for k, v in settings.items()}
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self.log = directory.with_name(directory.name + ".log")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and return once it serves."""
        settings = [part for name, value in self._settings.items() for part in ("-X", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    Path(sys.executable).parent / "semel",
                    *("broker", "--listen", self.bootstrap, "--data-dir", self.directory),
                    *settings,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            text = self.log.read_text(errors="replace")
            raise AssertionError(f"the broker ended with {self._process.wait()} before it served:\n{text}")
        self._port = int(said.rpartition(":")[2])

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


def batches(directory: Path, topic: str, partition: int = 0) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every batch of a partition, from its files, checksums tested."""
    for data in _segments(directory / f"{topic}-{partition}"):
        for position, header in batch.headers(data):
            batch.check_crc(data, position, header)
            yield header, list(iter_records(data, position, header))


def _segments(place: Path) -> list[bytes]:
    """What the files of a log hold. A cleaner may exchange them meanwhile: then all of them are read again."""
    for _ in range(100):
        with suppress(FileNotFoundError):
            return [path.read_bytes() for path in sorted(place.glob("*.log"))]
        time.sleep(0.01)
    raise AssertionError(f"{place} does not come to rest")


def stored(directory: Path, topic: str, partition: int = 0) -> list[Record]:
    """Every record of a partition, from its files."""
    return [record for _header, records in batches(directory, topic, partition) for record in records]


def values(directory: Path, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stored(directory, topic, partition)]


def copies(directory: Path, topic: str, partition: int = 0) -> Counter[bytes | None]:
    """How many times each value is in the log."""
    return Counter(values(directory, topic, partition))


def numbered(count: int, partitions: int = 1) -> list[Sent]:
    """Records whose values count up in each partition."""
    return [
        Sent(n % partitions, b"k%d" % (n % 7), b"%d-%08d" % (n % partitions, n // partitions))
        for n in range(count)
    ]


def variety(partitions: int, now_ms: int, *, all_nulls: bool = True, seed: int = 1) -> list[Sent]:
    """Null, empty and filled keys and values, headers that repeat, are empty or null, times, a large value."""
    dice = random.Random(seed)
    records = []
    for n in range(40):
        filling = dice.randbytes(9) * dice.randint(1, 40)
        key = [None, b"", b"key %d" % n][n % 3]
        value = [b"value %d " % n + filling, b"", None, b"x" * 200][n % 4]
        if not all_nulls and key is None and value is None:
            key = b"instead"
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if n % 5 == 1:
            headers = (
                ("trace", b"%d" % n),
                ("trace", b""),
                ("nothing", None if all_nulls else b"-"),
                ("Schlüssel", b"\xff\x00"),
            )
        records.append(Sent(n % partitions, key, value, headers, now_ms - 50_000 + n * 1000))
    records.append(Sent(0, b"large", dice.randbytes(1000) * 600, (), now_ms))
    return records


def by_partition(records: Sequence[Sent]) -> dict[int, list[Sent]]:
    found: dict[int, list[Sent]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def eventually(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Wait until something is so; fails with `what` if it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.002)
