"""One data directory: its lock, its identity, its partitions' logs and checkpoints.

Role.   Owns all files below `--data-dir`. The broker opens logs only through it.
Flow.   `open` locks and checks identity; `load` and `load_all` open logs, urgent ones first. `checkpoint` is called
        periodically, `close` at the end.
Rules.  * The clean shutdown mark is removed before the first read and written after the last sync, so it exists only if
          all logs were closed cleanly.
        * Checkpoints are hints that save work, never the only copy: a lost recovery point means reading more. The log
          start offset is the exception: `delete_records` writes it down before it answers. Checkpoints are rewritten
          after every load, deletion and truncation, so that none outlives the state it describes.
        * A directory to delete is first renamed, so that no start takes it for a partition.
        * A partition that cannot be opened is `damaged`: its files and checkpoint entries stay, and other partitions
          are served.
"""

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from semel.errors import CorruptBatchError, CorruptLogError, LogError
from semel.log import checkpoints, identity, names
from semel.log.cleaner_offsets import CleanerOffsets
from semel.log.config import LogConfig
from semel.log.halt import NEVER, Halt
from semel.log.identity import Identity, Kind
from semel.log.partition_log import PartitionLog
from semel.log.recovery import Opening, open_log
from semel.runtime.files import Files, Lock, join
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)

_NAME_BYTES_MAX: Final = 255  # The limit of file systems; a topic's name alone may have 249.


class LogDirectory:
    """A locked data directory and its logs."""

    def __init__(self, files: Files, path: str, lock: Lock, *, clean: bool) -> None:
        self._files = files
        self.path = path
        self._lock = lock
        self.was_clean = clean
        """Whether the last owner closed every log cleanly."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self.damaged: dict[TopicPartition, Exception] = {}
        """Partitions that could not be opened, and why. A disk error may be retried."""
        self.found = 0
        """How many partitions the start has to open."""
        self.opened = 0
        """How many of them are opened or given up, nearly: several threads count."""
        self._identity: Identity | None = None
        self.directory_id: str | None = None
        self.cluster_id: str | None = None
        self._doomed: list[str] = []
        self._pristine: set[TopicPartition] = set()
        """Logs that were always empty when this owner got them, and are complete on disk."""
        self._closed: set[TopicPartition] = set()
        """Logs that were closed cleanly."""
        self._all_loaded = False
        self._recovery_points = self._checkpoint(checkpoints.RECOVERY_POINTS)
        self._start_offsets = self._checkpoint(checkpoints.LOG_START_OFFSETS)
        self._high_watermarks = self._checkpoint(checkpoints.HIGH_WATERMARKS)
        self.cleaner_offsets = CleanerOffsets(files, path)
        self._starts_to_come: dict[TopicPartition, int] = {}  # New log start offsets, being written.
        self._cuts_to_come: dict[TopicPartition, int] = {}  # Where logs are about to be cut.

    @classmethod
    def open(
        cls,
        files: Files,
        path: str,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: str | None = None,
        kind: Kind = Kind.ALONE,
    ) -> "LogDirectory":
        """Lock the directory and check that it is this node's. No log is loaded yet.

        `cluster_id` and `directory_id` are written into a new directory. An old one keeps its own; one of a cluster must have
        this cluster's.
        """
        files.make_directory(path)
        lock = files.lock(join(path, checkpoints.LOCK))
        try:
            clean_mark = join(path, checkpoints.CLEAN_SHUTDOWN)
            directory = cls(files, path, lock, clean=files.exists(clean_mark))
            own = identity.settle(files, path, Identity(kind, node_id, cluster_id, directory_id))
            directory.directory_id, directory.cluster_id = own.directory_id, own.cluster_id
            directory._identity = own
            if directory.was_clean:
                files.remove(clean_mark)
                files.sync_directory(path)
        except BaseException:
            lock.release()
            raise
        return directory

    def claim(self) -> None:
        """Write down that it is this broker's: a member's cluster has taken the broker."""
        if self._identity is not None:
            identity.claim(self._files, self.path, self._identity)

    def load(self, topic_partition: TopicPartition, config: LogConfig, now_ms: int) -> PartitionLog:
        """Open the log of one partition; create an empty one if there is none."""
        log = self.read(topic_partition, config, now_ms)
        self.take(log)
        return log

    def read(
        self, topic_partition: TopicPartition, config: LogConfig, now_ms: int, halt: Halt = NEVER
    ) -> PartitionLog:
        """Open the log of a partition without registering it. Blocks; may run on a thread."""
        path = join(self.path, str(topic_partition))
        is_new = not self._files.exists(path)
        log = open_log(
            self._files,
            Opening(
                topic_partition=topic_partition,
                directory=path,
                config=config,
                now_ms=now_ms,
                clean=self.was_clean or is_new,
                recovery_point=self._recovery_points.get(topic_partition, 0),
                log_start_offset=self._start_offsets.get(topic_partition, 0),
                cleaned_offset=self.cleaner_offsets.get(topic_partition) or 0,
                halt=halt,
            ),
        )
        if is_new:
            self._files.sync_directory(self.path)
        log.advance_high_watermark(self._high_watermarks.get(topic_partition, 0))
        return log

    def take(self, log: PartitionLog) -> None:
        """Register a log that was opened by `read`."""
        topic_partition = log.topic_partition
        topic_id = checkpoints.read_topic_id(self._files, join(log.directory, names.PARTITION_METADATA))
        if topic_id is not None:
            self.topic_ids[topic_partition] = topic_id
        self.logs[topic_partition] = log
        self.damaged.pop(topic_partition, None)
        if self.was_clean and log.log_end_offset == 0:
            self._pristine.add(topic_partition)

    def load_all(self, config_for: Callable[[TopicPartition], LogConfig], now_ms: int) -> None:
        """Load every partition that is not loaded yet, one after the other."""
        wanted = [(topic_partition, config_for(topic_partition)) for topic_partition in self.begin_load()]
        self.finish_load(self.read_some(wanted, now_ms))

    def begin_load(self) -> list[TopicPartition]:
        """The partitions not loaded yet; also finishes deletions that a crash interrupted."""
        found: list[TopicPartition] = []
        for name in self._files.list_directory(self.path):
            path = join(self.path, name)
            if not self._files.is_directory(path):
                continue
            topic_partition = parse_directory_name(name)
            if _is_being_deleted(name):
                self._files.remove_tree(path)
            elif topic_partition is None:
                _logger.warning("%s is not the directory of a partition and is ignored", path)
            elif topic_partition not in self.logs:
                found.append(topic_partition)
        self.found = len(found)
        return found

    def read_some(
        self, wanted: Sequence[tuple[TopicPartition, LogConfig]], now_ms: int, halt: Halt = NEVER
    ) -> dict[TopicPartition, PartitionLog | Exception]:
        """Open logs without registering them; a log that fails maps to its error. Blocks; may run on a thread.

        Raises `RecoveryHaltedError` on `halt`: the directory is left as after a kill.
        """
        read: dict[TopicPartition, PartitionLog | Exception] = {}
        for topic_partition, config in wanted:
            if halt.is_asked:
                raise halt.error(join(self.path, str(topic_partition)))
            try:
                read[topic_partition] = self.read(topic_partition, config, now_ms, halt)
            except (LogError, CorruptBatchError, OSError) as error:
                read[topic_partition] = error
            self.opened += 1
        return read

    def finish_load(self, read: Mapping[TopicPartition, PartitionLog | Exception]) -> None:
        """Register all opened logs."""
        for topic_partition, log in read.items():
            if isinstance(log, Exception):
                self._isolate(topic_partition, log)
                continue
            try:
                self.take(log)
            except (LogError, OSError) as error:
                self._isolate(topic_partition, error)
        if not self.was_clean:
            # The last owner may have been killed before it synced the name of a new directory.
            self._files.sync_directory(self.path)
        self._all_loaded = True
        self.opened = self.found
        for known in (self._recovery_points, self._start_offsets, self._high_watermarks):
            # Drop entries of deleted partitions: a new one of that name must not inherit them.
            kept = {tp: offset for tp, offset in known.items() if tp in self.damaged}
            known.clear()
            known.update(kept)
        self.cleaner_offsets.keep([*self.logs, *self.damaged])
        self.checkpoint()

    def _isolate(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Leave a partition offline; the others are served."""
        path = join(self.path, str(topic_partition))
        self.damaged[topic_partition] = error
        _logger.error(
            "%s is offline and everything else is served: %s. Its files are left as they are; "
            "`semel log verify %s` tells what is wrong with them",
            topic_partition,
            error,
            path,
        )
        with contextlib.suppress(CorruptLogError, OSError):
            topic_id = checkpoints.read_topic_id(self._files, join(path, names.PARTITION_METADATA))
            if topic_id is not None:
                self.topic_ids[topic_partition] = topic_id

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        path = join(self.path, name)
        try:
            return checkpoints.read_offsets(self._files, path)
        except CorruptLogError as error:
            _logger.warning("%s is damaged and treated as empty: %s", path, error)
            return {}

    def create(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """Create an empty log. Blocks; for many logs, `prepare` them on threads and `admit` them together."""
        log = self.prepare(topic_partition, topic_id, config, now_ms)
        self.sync_names()
        self.admit(log, topic_id)
        return log

    def prepare(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """Create the files of an empty log without registering it. Blocks; may run on a thread."""
        if topic_partition in self.logs or topic_partition in self.damaged:
            raise LogError(f"{topic_partition} is in {self.path} already")
        path = join(self.path, str(topic_partition))
        opening = Opening(
            topic_partition=topic_partition, directory=path, config=config, now_ms=now_ms, clean=True
        )
        log = open_log(self._files, opening)
        checkpoints.write_topic_id(self._files, join(path, names.PARTITION_METADATA), topic_id)
        return log

    def sync_names(self) -> None:
        """Sync the names of all prepared directories at once. Blocks."""
        self._files.sync_directory(self.path)

    def admit(self, log: PartitionLog, topic_id: uuid.UUID) -> None:
        """Register a prepared log whose name is synced."""
        topic_partition = log.topic_partition
        for known in (
            self._recovery_points,
            self._start_offsets,
            self._high_watermarks,
        ):
            known.pop(topic_partition, None)  # Entry of an earlier topic of that name.
        self.cleaner_offsets.forget([topic_partition])
        self.logs[topic_partition] = log
        self.topic_ids[topic_partition] = topic_id
        self._pristine.add(topic_partition)

    def adopt(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Set the topic id of a log that lacks one, after a crash before it was written."""
        path = join(self.path, str(topic_partition), names.PARTITION_METADATA)
        checkpoints.write_topic_id(self._files, path, topic_id)
        self.topic_ids[topic_partition] = topic_id

    def delete(self, topic_partitions: Sequence[TopicPartition], unique: str) -> None:
        """Delete partitions; `remove_deleted` removes their files. Blocks. `unique` tells two deletions of one name
        apart."""
        self.begin_delete(topic_partitions, unique)()

    def begin_delete(self, topic_partitions: Sequence[TopicPartition], unique: str) -> Callable[[], None]:
        """Delete partitions; returns the blocking part for a thread. These calls must run in order."""
        self.take_out(topic_partitions, unique)
        return self.begin_forget(topic_partitions)

    def take_out(self, topic_partitions: Sequence[TopicPartition], unique: str) -> None:
        """Rename partitions' directories for deletion; `begin_forget` must follow. Each takes a rename, so do a topic
        of thousands in parts.
        """
        for topic_partition in topic_partitions:
            self._pristine.discard(topic_partition)
            ending = f"-{topic_partition.partition}.{unique}{names.DELETED_DIRECTORY}"
            doomed = join(self.path, topic_partition.topic[: _NAME_BYTES_MAX - len(ending)] + ending)
            self._files.rename(join(self.path, str(topic_partition)), doomed)
            # Only after the rename: the next start would find an unregistered log again.
            self.logs.pop(topic_partition, None)
            self.damaged.pop(topic_partition, None)
            self.topic_ids.pop(topic_partition, None)
            self._starts_to_come.pop(topic_partition, None)
            self._cuts_to_come.pop(topic_partition, None)
            self._doomed.append(doomed)

    def begin_forget(self, topic_partitions: Sequence[TopicPartition]) -> Callable[[], None]:
        """One sync and one checkpoint for all deleted partitions, as a call for a thread. These calls must run in
        order."""
        write_checkpoint = self.begin_checkpoint()

        def settle() -> None:
            self._files.sync_directory(self.path)
            self.cleaner_offsets.forget(topic_partitions)
            write_checkpoint()

        return settle

    def delete_records(self, topic_partition: TopicPartition, offset: int, now_ms: int) -> None:
        """Durably delete the records below `offset`: the new log start is on disk when this returns. Blocks.

        Records below it are synced first: a log start above the end that a power cut leaves would lose the producers'
        state.
        """
        log = self.logs[topic_partition]
        log.check_log_start(offset)
        if offset > log.recovery_point:
            log.flush(now_ms)
        write = self.begin_delete_records(log, offset)
        try:
            write()
        finally:
            self.end_delete_records(log, offset)
        log.advance_log_start(offset)

    def begin_delete_records(self, log: PartitionLog, offset: int) -> Callable[[], None]:
        """Write a log's new start, as a call for a thread. `end_delete_records` must follow it.

        The disk comes before memory: after a failed write the next try must not look done. Records below `offset` must
        be synced.
        """
        return self.begin_new_starts([(log, offset)])

    def begin_new_starts(self, starts: Iterable[tuple[PartitionLog, int]]) -> Callable[[], None]:
        """The same for several logs, with one write."""
        for log, offset in starts:
            log.check_log_start(offset)
            topic_partition = log.topic_partition
            known = self._starts_to_come.get(topic_partition, log.log_start_offset)
            self._starts_to_come[topic_partition] = max(offset, known)
        return self.begin_checkpoint()

    def end_delete_records(self, log: PartitionLog, offset: int) -> None:
        """After the write, or its failure: checkpoints use the log's own start again.

        Call it in one step with the log's own `advance_log_start`.
        """
        if self._starts_to_come.get(log.topic_partition) == offset:
            del self._starts_to_come[log.topic_partition]

    def truncate(self, topic_partition: TopicPartition, offset: int, now_ms: int) -> None:
        """Truncate the records from `offset` on, because a new leader has others. Blocks.

        The recovery point is on disk before the next append: with the old one, the next start would trust unsynced
        bytes.
        """
        self.logs[topic_partition].truncate_to(offset, now_ms)
        self.cleaner_offsets.lower(topic_partition, offset)
        self.checkpoint()

    def begin_cuts(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Write checkpoints that stay true when these logs are cut at these offsets, as a call for a thread.

        Then each log may be cut on the loop, and appended to at once. `end_cuts` must follow, whether they were or not.
        """
        self._cuts_to_come.update(offsets)
        write_checkpoint = self.begin_checkpoint()

        def write() -> None:
            for topic_partition, offset in offsets.items():
                self.cleaner_offsets.lower(topic_partition, offset)
            write_checkpoint()

        return write

    def end_cuts(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The logs were cut, or will not be: checkpoints say again how they are."""
        for topic_partition in topic_partitions:
            self._cuts_to_come.pop(topic_partition, None)

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of deleted partitions and of segments deleted long enough ago. Blocks."""
        self.take_deleted(now_ms)()

    def take_deleted(self, now_ms: int) -> Callable[[], None]:
        """The same as a call for a thread, because large files take long."""
        directories, self._doomed = self._doomed, []
        paths = [path for log in self.logs.values() for path in log.take_deleted_files(now_ms)]

        def remove() -> None:
            while directories:
                try:
                    self._files.remove_tree(directories[-1])
                except OSError:
                    self._doomed.extend(directories)
                    raise
                directories.pop()
            for path in paths:
                self._files.remove(path)

        return remove

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks; logs not loaded yet keep their old entries. Blocks."""
        self.begin_checkpoint()()

    def begin_checkpoint(self) -> Callable[[], None]:
        """The same with the current values, as a call for a thread. These calls must run in order."""
        logs = self.logs.items()
        moved = {
            tp: log.log_start_offset
            for tp, log in logs
            if log.log_start_offset > log.segments[0].base_offset  # Else segments show it.
        }
        known = (
            (
                checkpoints.RECOVERY_POINTS,
                self._recovery_points,
                {tp: log.recovery_point for tp, log in logs},
            ),
            (checkpoints.LOG_START_OFFSETS, self._start_offsets, {**moved, **self._starts_to_come}),
            (
                checkpoints.HIGH_WATERMARKS,
                self._high_watermarks,
                {tp: log.high_watermark for tp, log in logs},
            ),
        )
        offsets = [
            (name, {**{tp: offset for tp, offset in found.items() if tp not in self.logs}, **current})
            for name, found, current in known
        ]
        for topic_partition, cut in self._cuts_to_come.items():
            for _name, values in offsets:
                if values.get(topic_partition, cut) > cut:
                    values[topic_partition] = cut

        def write() -> None:
            for name, values in offsets:
                checkpoints.write_offsets(self._files, join(self.path, name), values)

        return write

    def release(self) -> None:
        """Unlock the directory without closing its logs, after a failed start."""
        self._lock.release()

    def close(self, now_ms: int) -> None:
        """Close every log; if all succeed, write the clean shutdown mark. Blocks.

        A log that cannot be closed does not stop the others, but the next start recovers all of them. It also does if
        the previous owner died and this one did not load every log.
        """
        for close_one in self.begin_close(now_ms):
            close_one()
        self.finish_close()

    def begin_close(self, now_ms: int) -> list[Callable[[], None]]:
        """One call per log that closes it, to run on threads; `finish_close` must follow all of them."""
        return [partial(self._close, log, now_ms) for log in self.logs.values()]

    def _close(self, log: PartitionLog, now_ms: int) -> None:
        is_pristine = log.topic_partition in self._pristine and log.log_end_offset == 0
        try:
            if is_pristine and not log.truncations:
                log.release()  # Always empty: an internal topic has fifty of these.
            else:
                log.close(now_ms)
        except OSError as error:
            _logger.error("%s could not be closed cleanly: %s", log.topic_partition, error)
            return
        if log.offline is None:
            self._closed.add(log.topic_partition)

    def finish_close(self) -> bool:
        """Write the checkpoints and, if every log was closed cleanly, the clean shutdown mark; whether that mark was written."""
        # A start after a clean shutdown would trust a damaged log.
        clean = (self._all_loaded or self.was_clean) and not self.damaged and self._closed >= self.logs.keys()
        try:
            self.checkpoint()
            if clean:
                checkpoints.write_clean_shutdown(self._files, join(self.path, checkpoints.CLEAN_SHUTDOWN))
        finally:
            self._lock.release()
        return clean


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition of a directory's name, or None."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))


def _is_being_deleted(name: str) -> bool:
    """Whether this is the name of a directory that Semel or Kafka is deleting."""
    partition_name = name.removesuffix(names.DELETED_DIRECTORY).rpartition(".")[0]
    return name.endswith(names.DELETED_DIRECTORY) and parse_directory_name(partition_name) is not None
