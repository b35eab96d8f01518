"""Cutting followed logs back, and moving their beginnings, while everything else goes on.

Role.   A follower cuts its log where its leader's differs, starts it anew where its leader's begins later, and lets it begin where
        its leader's begins. `LogCuts` does so in steps, so that only threads wait for long.
Flow.   cut:   checkpoints that allow the cut are written (thread), producers are replayed up to it (thread) -> the cut (loop).
        start: records below are synced (thread) -> the new start is written down (thread) -> it is true (loop).
Rules.  * The disk comes before memory: checkpoints are true before and after the cut, so that it may happen at any moment, or
          never, and the log be appended to in the same step. (`LogDirectory.begin_cuts`)
        * After each wait it is asked whether the step is still wanted. If not, nothing is changed. Stopping is immediate.
        * The cut itself blocks the loop for some renames and up to four syncs, whatever the size of the log.
        * No cleaning and no deletion is under way meanwhile (`Quiet`). Retention goes on: its steps look whether the log was cut
          (`Retirement`). So does a sync under way (`FlushJob.truncations`).
        * Cuts follow each other, those of one answer together: one checkpoint is enough for them.
        * A log whose cut failed half-way, for whatever reason, is offline. The others are cut.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from semel.broker.replicas.followed_partition import FollowedPartition
from semel.errors import CorruptBatchError, LogError
from semel.log.directory import LogDirectory
from semel.log.partition_log import Replayed
from semel.runtime.bundle import Runtime

if TYPE_CHECKING:
    from semel.broker.partitions import Quiet

_logger = logging.getLogger(__name__)
_FORESEEN: Final = (OSError, LogError, CorruptBatchError)


@dataclass(frozen=True, slots=True)
class Cut:
    """A log that is to end at `offset`; `is_whole`: and to begin there, empty."""

    partition: FollowedPartition
    offset: int
    is_whole: bool
    is_wanted: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class NewStart:
    """A log that is to begin at `offset`."""

    partition: FollowedPartition
    offset: int
    is_wanted: Callable[[], bool]


class LogCuts:
    """Cuts in one data directory."""

    def __init__(self, directory: LogDirectory, quiet: "Quiet", runtime: Runtime) -> None:
        self._directory = directory
        self._quiet = quiet
        self._runtime = runtime
        self._cutting = asyncio.Lock()
        self._starting = asyncio.Lock()

    async def cut(self, cuts: Sequence[Cut]) -> list[tuple[Cut, Exception]]:
        """Cut these logs; the ones that could not be, and why."""
        names = [one.partition.topic_partition for one in cuts]
        failed: list[tuple[Cut, Exception]] = []
        async with self._cutting, self._quiet(names):
            wanted = [one for one in cuts if self._is_wanted(one)]
            offsets = {
                one.partition.topic_partition: one.partition.log.end_below(one.offset) for one in wanted
            }
            write = self._directory.begin_cuts(offsets)
            try:
                await self._runtime.tasks.in_thread(write, order=self._directory.path)
                for one in wanted:
                    try:
                        await self._cut(one)
                    except Exception as error:
                        if not isinstance(error, _FORESEEN):
                            _logger.exception("%s could not be cut back", one.partition.topic_partition)
                        if self._is_wanted(one):
                            failed.append((one, error))
            except OSError as error:  # The checkpoints could not be written.
                failed += [(one, error) for one in wanted if self._is_wanted(one)]
            finally:
                self._directory.end_cuts(offsets)
        return failed

    async def _cut(self, cut: Cut) -> None:
        log, clock = cut.partition.log, self._runtime.clock
        replayed: Replayed | None = None
        if not self._is_wanted(cut):
            return
        before = log.log_start_offset, log.log_end_offset
        if not cut.is_whole and log.segments[0].base_offset <= cut.offset < log.log_end_offset:
            truncations = log.truncations
            replay = log.replaying(log.end_below(cut.offset), clock.now_ms())
            try:
                replayed = await self._runtime.tasks.in_thread(replay)
            except FileNotFoundError:
                return  # Retention took a segment away: the leader is asked again.
            if not self._is_wanted(cut) or log.truncations != truncations:
                return
        if log.offline is not None:
            raise LogError(f"{log.topic_partition} is offline: {log.offline}")
        high_watermark = log.high_watermark
        try:
            if cut.is_whole:
                log.truncate_fully_and_start_at(cut.offset, clock.now_ms())
            else:
                log.truncate_to(cut.offset, clock.now_ms(), replayed)
        except Exception as error:
            log.offline = f"it could not be cut back ({error}); load the log again"
            raise
        if log.log_end_offset < high_watermark:
            _logger.warning(
                "%s: the log is cut to offset %d, below its high watermark %d",
                log.topic_partition,
                log.log_end_offset,
                high_watermark,
            )
        _logger.info(
            "%s: the log was from %d to %d and is from %d to %d now, as its leader %d says in epoch %d",
            log.topic_partition,
            *before,
            log.log_start_offset,
            log.log_end_offset,
            cut.partition.following.leader_id,
            cut.partition.following.leader_epoch,
        )

    async def start_at(self, starts: Sequence[NewStart]) -> None:
        """Let these logs begin where their leaders' begin. What the disk refuses stays as it is, until the leader says it again.

        Records below a new start are synced first: after a power cut a start above the log's end would cost the producers.
        """
        synced: list[NewStart] = []
        for one in starts:
            if one.partition.log.recovery_point < one.offset:
                with contextlib.suppress(LogError):  # It is offline, or was cut, and has said so.
                    await one.partition.commits.durable(one.offset)
            if self._is_wanted(one) and self._is_possible(one):
                synced.append(one)
        pairs = [(one.partition.log, one.offset) for one in synced]
        if not pairs:
            return
        async with self._starting:
            write = self._directory.begin_new_starts(pairs)
            try:
                await self._runtime.tasks.in_thread(write, order=self._directory.path)
            finally:
                for log, offset in pairs:
                    self._directory.end_delete_records(log, offset)
            for one in synced:
                # In one step with the lines above: a checkpoint would say where it began before.
                if self._is_wanted(one) and self._is_possible(one):
                    one.partition.log.advance_log_start(one.offset)

    @staticmethod
    def _is_possible(start: NewStart) -> bool:
        log = start.partition.log
        return (
            log.recovery_point >= start.offset and log.log_start_offset < start.offset <= log.high_watermark
        )

    def _is_wanted(self, step: Cut | NewStart) -> bool:
        log = step.partition.log
        return step.is_wanted() and self._directory.logs.get(log.topic_partition) is log
