"""One partition's log on a disk that loses, tears and kills: promised records are there, whatever happens.

Role.   `run(seed)` plays one story: producers append, retry, begin and end transactions; segments roll, go and are
        flushed. The process is killed or the power is cut, between operations or in the middle of one. The log is
        opened again and everything it says is compared with a plain model.
Flow.   Tests run some seeds, `make campaign` many. A failure raises `PromiseBroken` with the seed and the story.
Rules.  The promises after every opening:
        * kill -9: every acknowledged batch is there. Power cut: every batch below the flushed offset is there.
        * The log is a prefix of what was appended, byte for byte, at most with the batch that was under way.
        * A retry of any of a producer's last five batches is answered with its first offset, and stores nothing.
        * Producers, open transactions, last stable offset and aborted transactions are those of the batches.
        * Every offset and every timestamp is found where a scan of the log finds it.
        * It is known which leader epoch wrote which offset. An epoch begins with every death and every truncation.
        And while the log is open, the last stable offset moves back only with a truncation.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Duplicate, ProducerEntry
from semel.core.records import batch
from semel.core.records.batch import BatchHeader
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.core.records.control import build_marker
from semel.errors import Refuse
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.log.producers import record_batch
from semel.log.recovery import Opening, open_log
from semel.log.retiring import Retirement
from semel.log.txn_index import TxnIndex
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.runtime.memory_files import MemoryDisk
from semel.types import TopicPartition
from semel.verify.simulation.scenarios.disk_story import DiskStory

_DIRECTORY: Final = "/data/orders-0"
_WINDOW: Final = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch that was appended, or was about to be."""

    header: BatchHeader
    data: bytes


@dataclass(slots=True)
class Writer:
    """A producer as the story knows it."""

    producer_id: int
    transactional: bool
    epoch: int = 0
    next_sequence: int = 0
    in_transaction: bool = False
    recent: list[Stored] = field(default_factory=list)
    """Its batches of this epoch that are in the log, newest last."""


class Story(DiskStory):
    """The log under test, the model beside it, and what happened so far."""

    name = "log_crash"

    def __init__(self, seed: int, *, steps: int = 60) -> None:
        super().__init__(seed, steps=steps)
        self.config = LogConfig(
            segment_bytes=self.dice.choice([700, 1500, 4000]),
            index_interval_bytes=self.dice.choice([1, 100, 400]),
            retention_bytes=self.dice.choice([-1, 3000]),
            cleanup_compact=self.dice.random() < 0.2,
            producer_id_expiration_ms=10**12,
        )
        self.model: list[Stored] = []
        """Every batch in the log, those deleted from its beginning included."""
        self.leader_epoch = 0
        self.recovery_point = 0
        self.durable_start_offset = 0
        self.durable_end = 0
        self.under_way: Stored | None = None
        self.truncating_to: int | None = None
        """Set while a truncation is under way: records above may be there or not."""
        self.writers = [Writer(producer_id=100 + n, transactional=n % 2 == 1) for n in range(4)]
        self.stable_offset = 0
        """The largest last stable offset seen since the log was opened or cut back."""
        self.log = self._open(clean=True)

    # The story

    def _end(self) -> None:
        self._reopen_after_kill()

    def _step(self) -> None:
        self.now_ms += self.dice.randrange(5)
        roll = self.dice.random()
        if roll < 0.06:
            self._die_in_the_middle()
        elif roll < 0.10:
            self._tell("kill -9")
            self._reopen_after_kill()
        elif roll < 0.14:
            self._tell("power cut")
            self.disk.crash()
            self._reopen(lost_from=self.durable_end)
        elif roll < 0.17:
            self._reopen_cleanly()
        else:
            self._operate()

    def _operate(self) -> None:
        operation = self.dice.choices(
            [
                self._append,
                self._retry,
                self._end_transaction,
                self._plain,
                self._flush,
                self._roll,
                self._retain,
                self._move_start,
                self._truncate,
            ],
            weights=[40, 14, 12, 6, 8, 4, 3, 2, 2],
        )[0]
        operation()

    def _append(self) -> None:
        writer = self.dice.choice(self.writers)
        if self.dice.random() < 0.05 and not writer.in_transaction:
            writer.epoch, writer.next_sequence, writer.recent = writer.epoch + 1, 0, []
        count = self.dice.randrange(1, 4)
        data = build_batch(
            self._records(count),
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            base_sequence=writer.next_sequence,
            transactional=writer.transactional,
        )
        stored = self._submit(
            data, f"append {writer.producer_id}/{writer.epoch}/{writer.next_sequence}+{count}"
        )
        writer.next_sequence += count
        writer.recent.append(stored)
        writer.in_transaction = writer.transactional

    def _plain(self) -> None:
        self._submit(build_batch(self._records(1)), "append without a producer")

    def _records(self, count: int) -> list[RecordInput]:
        return [
            RecordInput(
                key=b"key",
                value=self.dice.randbytes(self.dice.randrange(60)),
                timestamp_ms=self.now_ms + self.dice.randrange(-50, 50),
            )
            for _ in range(count)
        ]

    def _submit(self, data: bytearray, what: str) -> Stored:
        numbered = bytearray(data)
        batch.set_base_offset(numbered, 0, self.log.log_end_offset)
        batch.set_partition_leader_epoch(numbered, 0, self.leader_epoch)
        self.under_way = Stored(batch.read_header(numbered), bytes(numbered))
        self._tell(what)
        result = self.log.append(data, leader_epoch=self.leader_epoch, now_ms=self.now_ms)
        if not isinstance(result, Appended) or result.base_offset != self.under_way.header.base_offset:
            raise self._broken(f"{what} was answered {result}")
        return self._settle()

    def _settle(self) -> Stored:
        """The batch under way is acknowledged."""
        stored = self.under_way
        if stored is None:
            raise self._broken("a batch was acknowledged that was never sent")
        self.under_way = None
        self.model.append(stored)
        self.log.advance_high_watermark(self.log.log_end_offset)
        if self.log.last_stable_offset < self.stable_offset:
            raise self._broken(
                f"the last stable offset moved back from {self.stable_offset} to {self.log.last_stable_offset}"
            )
        self.stable_offset = self.log.last_stable_offset
        return stored

    def _retry(self) -> None:
        """A client that did not get its answer sends any of its last five batches again."""
        writer = self.dice.choice(self.writers)
        if not writer.recent:
            return
        again = self.dice.choice(writer.recent[-_WINDOW:])
        self._check_retry(again)

    def _check_retry(self, again: Stored) -> None:
        data = bytearray(again.data)
        batch.set_base_offset(data, 0, 0)
        end = self.log.log_end_offset
        result = self.log.append(data, leader_epoch=self.leader_epoch, now_ms=self.now_ms)
        header = again.header
        self._tell(f"retry {header.producer_id}/{header.producer_epoch}/{header.base_sequence}: {result}")
        if (
            not isinstance(result, Duplicate)
            or result.base_offset != header.base_offset
            or self.log.log_end_offset != end
        ):
            raise self._broken(f"the retry of offset {header.base_offset} was answered {result}")

    def _end_transaction(self) -> None:
        writer = self.dice.choice(self.writers)
        if not writer.in_transaction:
            return
        commit = self.dice.random() < 0.5
        self._tell(f"{'commit' if commit else 'abort'} {writer.producer_id}")
        self.under_way = None
        before = self.log.log_end_offset
        self._marker_under_way(writer, commit, before)
        result = self.log.append_marker(
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            coordinator_epoch=0,
            commit=commit,
            leader_epoch=self.leader_epoch,
            now_ms=self.now_ms,
        )
        if isinstance(result, Refuse):
            raise self._broken(f"the marker was refused: {result}")
        self._settle()
        writer.in_transaction = False

    def _marker_under_way(self, writer: Writer, commit: bool, offset: int) -> None:
        data = build_marker(
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            coordinator_epoch=0,
            commit=commit,
            timestamp_ms=self.now_ms,
            base_offset=offset,
            partition_leader_epoch=self.leader_epoch,
        )
        self.under_way = Stored(batch.read_header(data), bytes(data))

    def _flush(self) -> None:
        self._tell("flush")
        job = self.log.begin_flush()
        job.run()
        self.log.finish_flush(job, self.now_ms)
        self.durable_end = max(self.durable_end, job.end_offset)
        if self.dice.random() < 0.5:
            self.recovery_point = self.log.recovery_point  # The checkpoint of the directory.

    def _roll(self) -> None:
        self._tell("roll")
        self.log.roll(self.now_ms)

    def _retain(self) -> None:
        """As the broker does it: the log goes on wherever that waits for a thread."""
        count = 0
        retirement = Retirement.plan(self.log, self.disk, self.now_ms)
        if retirement is not None:
            retirement.sync_snapshot()
            self._write_meanwhile()
            retirement.name_snapshot()
            retirement.sync_names()
            self._write_meanwhile()
            count = retirement.drop(self.now_ms)
            self._write_meanwhile()
            retirement.sync_names()
        self._tell(f"retention removes {count} segments")
        self.log.remove_deleted_files(self.now_ms + self.dice.choice([0, 100_000]))

    def _write_meanwhile(self) -> None:
        if self.dice.random() < 0.3:
            self.dice.choice((self._append, self._roll, self._flush, self._truncate))()

    def _move_start(self) -> None:
        """DeleteRecords: the log below is synced, then the new start is in the directory's checkpoint."""
        span = self.log.high_watermark - self.log.log_start_offset
        if span > 0:
            offset = self.log.log_start_offset + self.dice.randrange(span + 1)
            self._tell(f"delete records below {offset}")
            self._flush()
            self.durable_start_offset = offset
            self.log.advance_log_start(offset)

    def _truncate(self) -> None:
        """A new leader has less: batches from some offset on never happened."""
        kept = [
            s
            for s in self.model
            if s.header.base_offset >= max(self.log.log_start_offset, self.durable_start_offset)
        ]
        if not kept or self.dice.random() < 0.5:
            return
        offset = self.dice.choice(kept).header.base_offset
        self._tell(f"truncate to {offset}")
        self.durable_end = min(self.durable_end, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.truncating_to = offset
        self.log.truncate_to(offset, self.now_ms)
        self.truncating_to = None
        self.leader_epoch += 1
        self.model = [stored for stored in self.model if stored.header.base_offset < offset]
        self._writers_follow_the_log()
        self._check()

    # Deaths

    def _die_in_the_middle(self) -> None:
        death = self._plan_a_death()
        self._tell(f"{death} to come")
        try:
            for _ in range(20):
                self._operate()
            self._reopen_cleanly()
        except DiskCrashed:
            self._tell(f"{death} came")
            self.disk.restart()
            self._reopen(lost_from=None if death == "kill" else self.durable_end)
        else:
            self.disk.clear_faults()

    def _plan_a_death(self) -> Death:
        return self._plan_death(in_write=0.5, bytes_max=400, operations_max=12)

    def _reopen_after_kill(self) -> None:
        self.disk.kill()
        self._reopen(lost_from=None)

    def _reopen_cleanly(self) -> None:
        self._tell("close and open")
        self.log.close(self.now_ms)
        self.recovery_point = self.durable_end = self.log.log_end_offset
        self.durable_start_offset = max(self.durable_start_offset, self.log.log_start_offset)
        self.log = self._open(clean=True)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self._check()

    def _reopen(self, *, lost_from: int | None) -> None:
        """Open after a death. None: nothing acknowledged may be missing; else nothing below that offset."""
        while self.dice.random() < 0.2:
            death = self._plan_a_death()
            self._tell(f"open, {death}")
            if death == "power cut":
                lost_from = self.durable_end
            try:
                self._open(clean=False)
            except DiskCrashed:
                self.disk.restart()
            else:
                self.disk.clear_faults()
                self.disk.kill()
        self.log = self._open(clean=False)
        end = self.log.log_end_offset
        promised = [bound for bound in (lost_from, self.truncating_to) if bound is not None]
        must = [s for s in self.model if not promised or s.header.next_offset <= min(promised)]
        if must and end < must[-1].header.next_offset:
            raise self._broken(f"the log ends at {end}, {must[-1].header.next_offset} was promised")
        survivors = [*self.model, *([self.under_way] if self.under_way else [])]
        self.model = [stored for stored in survivors if stored.header.next_offset <= end]
        model_end = self.model[-1].header.next_offset if self.model else 0
        if model_end != end and end != self.log.log_start_offset:
            raise self._broken(f"the log ends at {end}, no appended batch does")
        self.under_way = self.truncating_to = None
        self.leader_epoch += 1
        self.durable_end = end  # Recovery leaves everything synced.
        self.recovery_point = self.dice.choice([self.recovery_point, end])
        self.log.advance_high_watermark(end)
        self._writers_follow_the_log()
        self._check()

    def _writers_follow_the_log(self) -> None:
        """Clients learn from a broker what it has; here they look at the model."""
        for writer in self.writers:
            mine = [s for s in self.model if s.header.producer_id == writer.producer_id]
            data = [s for s in mine if not s.header.is_control]
            if not data:
                writer.epoch, writer.next_sequence, writer.recent, writer.in_transaction = (
                    writer.epoch,
                    0,
                    [],
                    False,
                )
                continue
            last = data[-1].header
            writer.epoch = last.producer_epoch
            writer.next_sequence = last.last_sequence + 1
            writer.recent = [s for s in data if s.header.producer_epoch == writer.epoch][-_WINDOW:]
            writer.in_transaction = writer.transactional and not mine[-1].header.is_control

    def _open(self, *, clean: bool) -> PartitionLog:
        opening = Opening(
            topic_partition=TopicPartition("orders", 0),
            directory=_DIRECTORY,
            config=self.config,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.durable_start_offset,
        )
        return open_log(self.disk, opening)

    # The checks

    def _check(self) -> None:
        """After the log was opened or cut back."""
        self.stable_offset = self.log.last_stable_offset
        expected = self._expected_producers()
        if self.log.producers.entries() != expected.entries():
            raise self._broken(
                f"producers are {_shown(self.log.producers.entries())}, expected {_shown(expected.entries())}"
            )
        stable = expected.last_stable_offset(self.log.high_watermark, self.log.log_start_offset)
        if self.log.last_stable_offset != stable:
            raise self._broken(f"last stable offset {self.log.last_stable_offset}, expected {stable}")
        self._check_content()
        self._check_epochs()
        self._check_aborted()
        for writer in self.writers:
            for stored in writer.recent[-_WINDOW:]:
                self._check_retry(stored)

    def _expected_producers(self) -> ProducerState:
        state = ProducerState(producer_id_expiration_ms=10**12)
        for stored in self.model:
            if stored.header.has_producer_id:
                record_batch(state, stored.header, stored.data, None, self.now_ms)
        state.on_high_watermark(self.log.high_watermark)
        return state

    def _check_content(self) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        visible = [stored for stored in self.model if stored.header.last_offset >= start]
        if visible:
            found = b"".join(self._read_all(start))
            if found != b"".join(stored.data for stored in visible):
                raise self._broken(f"the bytes from offset {start} to {end} are not those appended")
            stored = self.dice.choice(visible)
            offset = max(start, self.dice.randrange(stored.header.base_offset, stored.header.next_offset))
            piece = reading.read(self.log, offset, max_bytes=1, upper_bound=end)
            if piece is None or piece.read() != stored.data:
                raise self._broken(f"a read at offset {offset} gave {piece}")
            self._check_timestamp(visible)

    def _read_all(self, offset: int) -> list[bytes]:
        pieces = []
        while offset < self.log.log_end_offset:
            piece = reading.read(self.log, offset, max_bytes=1 << 20, upper_bound=self.log.log_end_offset)
            if piece is None:
                raise self._broken(
                    f"nothing can be read at offset {offset}, the log ends at {self.log.log_end_offset}"
                )
            data = piece.read()
            pieces.append(data)
            offset = [header for _position, header in batch.headers(data)][-1].next_offset
        return pieces

    def _check_timestamp(self, visible: list[Stored]) -> None:
        records = [r for stored in visible for r in iter_records(stored.data, 0, stored.header)]
        wanted = self.dice.choice(records).timestamp_ms + self.dice.randrange(-2, 3)
        later = [r for r in records if r.timestamp_ms >= wanted and r.offset >= self.log.log_start_offset]
        found = reading.searched(reading.offset_for_timestamp(self.log, wanted))
        if (found.offset if found else None) != (later[0].offset if later else None):
            raise self._broken(f"timestamp {wanted} was found at {found}, expected {later[:1]}")

    def _check_epochs(self) -> None:
        start, epochs = self.log.log_start_offset, self.log.leader_epochs
        begins: dict[int, int] = {}
        for stored in self.model:
            epoch = stored.header.partition_leader_epoch
            begins.setdefault(epoch, stored.header.base_offset)
            if stored.header.last_offset >= start:
                found = epochs.epoch_for(max(start, stored.header.base_offset))
                if found != epoch:
                    raise self._broken(
                        f"offset {stored.header.base_offset} was written in leader epoch {epoch}, not in {found}"
                    )
        for entry in epochs.entries:
            if entry.start_offset > start and entry.start_offset != begins.get(entry.epoch):
                raise self._broken(f"{entry} is known, the log shows {begins}")

    def _check_aborted(self) -> None:
        """Every aborted transaction of the model whose marker is still in the log is found, and no other."""
        index = TxnIndex.empty(MemoryDisk(random.Random(0)), "/model")
        state = ProducerState(producer_id_expiration_ms=10**12)
        for stored in self.model:
            if stored.header.has_producer_id:
                record_batch(state, stored.header, stored.data, index.note, self.now_ms)
        start, end = self.log.segments[0].base_offset, self.log.log_end_offset
        low = self.dice.randrange(start, end + 1) if end > start else start
        high = self.dice.randrange(low, end + 1)
        first_segment = self.log.segment_at(low).base_offset
        expected = [
            entry
            for entry in index.entries
            if entry.last_offset >= max(low, first_segment) and entry.first_offset < high
        ]
        found = reading.aborted_transactions(self.log, low, high)
        if found != expected:
            raise self._broken(f"aborted in [{low}, {high}): {found}, expected {expected}")

    def _moment(self) -> str:
        return f"end={self.log.log_end_offset if hasattr(self, 'log') else 0}"


def _shown(entries: list[ProducerEntry]) -> str:
    return "\n   ".join(map(str, entries))


def run(seed: int, *, steps: int = 60) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed, steps=steps).run()
