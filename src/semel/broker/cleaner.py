"""The cleaner: finds the dirtiest compacted log, has it cleaned beside everything else, and begins again.

Role.   The shell around `log.compaction`: which log next, on how many threads, how fast; and who must wait for it.
Flow.   `start` begins a task that looks at every compacted log; a due one is cleaned slice by slice on a thread, with the
        few steps that touch the log on the loop in between. Nothing due: it looks again after `log.cleaner.backoff.ms`.
        `paused` is for whoever deletes a partition or cuts its log back.
Rules.  * At most `log.cleaner.threads` logs are cleaned at a time, and never one log twice.
        * A slice is small, and its kernels hold no lock of the interpreter: requests go on being answered.
        * All threads together read and write fewer bytes than `log.cleaner.io.max.bytes.per.second`.
        * A log that cannot be cleaned is left alone until the broker starts again, with a line in the log that says why; every
          other log is cleaned. A log that changed under the cleaning is tried again later.
        * The settings are asked for anew each time: they change while the broker runs.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.broker.config import BrokerConfig
from semel.errors import CorruptBatchError, LogError
from semel.log.compaction.cleaned_segment import Swap
from semel.log.compaction.cleaning import CleanedGroup, CleanerLimits, Cleaning, Worked
from semel.log.compaction.plan import Dirtiness, dirtiness, is_due
from semel.log.directory import LogDirectory
from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
_SLICE_BYTES: Final = 1024 * 1024
"""The bytes a thread handles before it asks the loop whether to go on."""
_SECONDS_MIN: Final = 0.01


class _AbandonedError(Exception):
    """The log changed, or is wanted by somebody else: what was begun is thrown away."""


class _Picked(NamedTuple):
    topic_partition: TopicPartition
    log: PartitionLog
    dirt: Dirtiness


@dataclass(slots=True)
class CleanerMetrics:
    """Counts of cleanings since the start."""

    cleanings: int = 0
    abandoned: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    seconds: float = 0.0
    dirtiest_ratio: float = 0.0
    """Of the logs that were looked at last."""


@dataclass(slots=True)
class Cleaner:
    """Compaction of one data directory."""

    directory: LogDirectory
    runtime: Runtime
    config: Callable[[], BrokerConfig]
    metrics: CleanerMetrics = field(default_factory=CleanerMetrics)
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)
    """Logs that are left alone, and why."""
    _secret: bytes = b""
    _running: dict[TopicPartition, asyncio.Task[None]] = field(default_factory=dict)
    _paused: Counter[TopicPartition] = field(default_factory=Counter)
    _paced_until: float = 0.0

    def start(self) -> None:
        """Begin to clean, unless `log.cleaner.enable` says otherwise."""
        if self.config().value("log.cleaner.enable"):
            self._secret = self.runtime.dice.getrandbits(128).to_bytes(16, "little")
            self.runtime.tasks.spawn(self._keep_cleaning(), name="cleaner")

    def paused(self, topic_partitions: Iterable[TopicPartition]) -> "Pause":
        """Nobody cleans these while the block runs; a cleaning under way is abandoned first."""
        return Pause(self, list(topic_partitions))

    async def hold(self, held: Sequence[TopicPartition]) -> None:
        """Begin no cleaning of these, and wait for those under way; `let_go` must follow, whatever comes of it."""
        self._paused.update(held)
        running = [task for tp in held if (task := self._running.get(tp)) is not None]
        if running:
            await asyncio.wait(running)

    def let_go(self, held: Sequence[TopicPartition]) -> None:
        """They may be cleaned again, once everybody who held them has let go."""
        self._paused.subtract(held)
        for topic_partition in held:
            if not self._paused[topic_partition]:
                del self._paused[topic_partition]

    async def _keep_cleaning(self) -> None:
        while True:
            try:
                self._start_due()
            except (LogError, OSError, CorruptBatchError) as error:
                _logger.error("the cleaner cannot tell what to clean, and tries again: %s", error)
            backoff = max(_SECONDS_MIN, self._number("log.cleaner.backoff.ms") / 1000)
            if self._running:
                await asyncio.wait(
                    self._running.values(), timeout=backoff, return_when=asyncio.FIRST_COMPLETED
                )
                self._running = {tp: task for tp, task in self._running.items() if not task.done()}
            else:
                await self.runtime.tasks.sleep(backoff)

    def _start_due(self) -> None:
        """Begin with the dirtiest logs, as many as there are threads."""
        while len(self._running) < self._number("log.cleaner.threads"):
            picked = self._pick()
            if picked is None:
                return
            name = f"clean {picked.topic_partition}"
            self._running[picked.topic_partition] = self.runtime.tasks.spawn(self._clean(picked), name=name)

    def _pick(self) -> _Picked | None:
        """The dirtiest log that is due."""
        now_ms = self.runtime.clock.now_ms()
        due: list[_Picked] = []
        self.metrics.dirtiest_ratio = 0.0
        for topic_partition in sorted(self.directory.logs):
            log = self.directory.logs[topic_partition]
            if (
                not log.config.cleanup_compact
                or log.offline is not None
                or log.swapping
                or topic_partition in self._running
                or topic_partition in self._paused
                or topic_partition in self.uncleanable
            ):
                continue
            dirt = dirtiness(log, self.directory.cleaner_offsets.get(topic_partition), now_ms)
            self.metrics.dirtiest_ratio = max(self.metrics.dirtiest_ratio, dirt.ratio)
            if is_due(log, dirt):
                due.append(_Picked(topic_partition, log, dirt))
        return max(due, key=lambda picked: picked.dirt.ratio, default=None)

    # One log

    async def _clean(self, picked: _Picked) -> None:
        topic_partition, log, dirt = picked
        started = self.runtime.clock.monotonic()
        threads = max(1, self._number("log.cleaner.threads"))
        limits = CleanerLimits(
            dedupe_bytes=self._number("log.cleaner.dedupe.buffer.size") // threads,
            load_factor=self._real("log.cleaner.io.buffer.load.factor"),
            io_bytes=self._number("log.cleaner.io.buffer.size") // threads,
        )
        cleaning: Cleaning | None = None
        try:
            cleaning = Cleaning.begin(
                log,
                dirt,
                files=self.runtime.files,
                limits=limits,
                secret=self._secret,
                now_ms=self.runtime.clock.now_ms(),
            )
            await self._go_through(picked, cleaning)
            self._check(picked)
            await self.runtime.tasks.in_thread(
                self.directory.cleaner_offsets.set,
                topic_partition,
                max(cleaning.end_offset, log.log_start_offset),
            )
        except (_AbandonedError, FileNotFoundError) as why:
            self.metrics.abandoned += 1
            _logger.info("%s: a cleaning is abandoned and tried again later: %s", topic_partition, why)
            await self._discard(picked, cleaning)
        except (OSError, LogError, CorruptBatchError) as error:
            self.uncleanable[topic_partition] = str(error)
            _logger.error(
                "%s cannot be compacted and is left as it is until the broker starts again: %s",
                topic_partition,
                error,
            )
            await self._discard(picked, cleaning)
        else:
            self._count(picked, cleaning, self.runtime.clock.monotonic() - started)

    async def _go_through(self, picked: _Picked, cleaning: Cleaning) -> None:
        steps = cleaning.steps()
        while True:
            self._check(picked)
            done = await self.runtime.tasks.in_thread(_next_slice, steps)
            await self._pace(done.moved_bytes)
            if done.group is not None:
                await self._swap(picked, done.group)
            if done.is_last:
                return

    def _check(self, picked: _Picked) -> None:
        topic_partition, log, _dirt = picked
        if topic_partition in self._paused:
            raise _AbandonedError("the log is wanted by somebody else")
        if self.directory.logs.get(topic_partition) is not log:
            raise _AbandonedError("the partition was deleted")
        if log.offline is not None:
            raise _AbandonedError(f"the log is offline: {log.offline}")

    async def _swap(self, picked: _Picked, group: CleanedGroup) -> None:
        """Exchange segments: what the log reads changes on the loop, what is synced is synced on a thread."""
        self._check(picked)
        now_ms = self.runtime.clock.now_ms
        swap = Swap(self.runtime.files, picked.log, group.cleaned, group.old, now_ms())
        if not swap.begin():
            await self.runtime.tasks.in_thread(group.cleaned.discard)
            raise _AbandonedError("its segments were deleted meanwhile")
        try:
            await self.runtime.tasks.in_thread(swap.commit)
        except OSError:
            await self.runtime.tasks.in_thread(
                swap.undo
            )  # If even that fails, the log stays `swapping`: nothing may touch it.
            swap.end()
            raise
        if self.directory.logs.get(picked.topic_partition) is not picked.log:
            raise _AbandonedError("the partition was deleted")  # Another of its name may be there by now.
        swap.replace()
        await self.runtime.tasks.in_thread(swap.retire)
        swap.settle(now_ms())
        await self.runtime.tasks.in_thread(swap.finish)
        swap.end()

    async def _discard(self, picked: _Picked, cleaning: Cleaning | None) -> None:
        """Throw away what was written; a start does it otherwise."""
        if cleaning is None or self.directory.logs.get(picked.topic_partition) is not picked.log:
            return
        try:
            await self.runtime.tasks.in_thread(cleaning.discard)
        except OSError as error:
            _logger.warning("%s: files of a cleaning are left behind: %s", picked.topic_partition, error)

    def _count(self, picked: _Picked, cleaning: Cleaning, seconds: float) -> None:
        stats, metrics = cleaning.stats, self.metrics
        metrics.cleanings += 1
        metrics.bytes_read += stats.bytes_read
        metrics.bytes_written += stats.bytes_written
        metrics.records_read += stats.records_read
        metrics.records_kept += stats.records_kept
        metrics.seconds += seconds
        _logger.info(
            "%s: compacted offsets %d to %d: %d of %d records are left, %d bytes read, %d written, %.1f s",
            picked.topic_partition,
            picked.dirt.first_dirty_offset,
            cleaning.end_offset,
            stats.records_kept,
            stats.records_read,
            stats.bytes_read,
            stats.bytes_written,
            seconds,
        )

    async def _pace(self, moved_bytes: int) -> None:
        """Wait so long that all bytes moved stay below the rate."""
        rate = self._real("log.cleaner.io.max.bytes.per.second")
        now = self.runtime.clock.monotonic()
        self._paced_until = max(self._paced_until, now) + moved_bytes / max(rate, 1.0)
        if self._paced_until > now:
            await self.runtime.tasks.sleep(self._paced_until - now)

    def _number(self, key: str) -> int:
        value = self.config().value(key)
        return int(value) if isinstance(value, int | float) else 0

    def _real(self, key: str) -> float:
        value = self.config().value(key)
        return float(value) if isinstance(value, int | float) else 0.0


class Pause:
    """A block in which some logs are not cleaned."""

    def __init__(self, cleaner: Cleaner, held: Sequence[TopicPartition]) -> None:
        self._cleaner = cleaner
        self._held = held

    async def __aenter__(self) -> None:
        try:
            await self._cleaner.hold(self._held)
        except BaseException:
            self._cleaner.let_go(self._held)
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._cleaner.let_go(self._held)


class _Slice(NamedTuple):
    """The outcome of one step on a thread."""

    moved_bytes: int
    group: CleanedGroup | None
    is_last: bool


def _next_slice(steps: Iterator[Worked | CleanedGroup]) -> _Slice:
    """On a thread: some steps, up to a group that is ready."""
    moved_bytes = 0
    while moved_bytes < _SLICE_BYTES:
        step = next(steps, None)
        if step is None or isinstance(step, CleanedGroup):
            return _Slice(moved_bytes, step, is_last=step is None)
        moved_bytes += step.bytes_read + step.bytes_written
    return _Slice(moved_bytes, None, is_last=False)
