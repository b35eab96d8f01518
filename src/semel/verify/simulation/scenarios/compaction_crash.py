"""A compacted log on a disk that kills and cuts the power while it is cleaned: the latest of every key is always there.

Role.   `run(seed)` plays one story: producers and transactions write keys, values and tombstones; cleanings run in between,
        slice by slice, with appends among the slices. At any file operation the process is killed or the power is cut. The
        log is opened again and everything it says is compared with a plain list of the appended records.
Flow.   Tests run some seeds, and one log killed at every single operation of its cleaning; `make campaign` runs many.
Rules.  The promises after every opening:
        * kill -9: everything acknowledged counts. Power cut: everything that was synced does.
        * The latest committed value of every key is that of the list; a key whose latest is a tombstone has none, or that.
        * Every record in the log is one that was appended, at its offset. From where cleaning ended, none is missing.
        * No aborted record is shown to a reader of committed ones; no transaction is open that was ended.
        * A producer's last batch is known: its retry is a duplicate, the next one is taken.
        * It is known which leader epoch wrote which offset, and where each began, though its first records are gone.
        * One more cleaning leaves exactly one record per key. Nothing is left of cleanings that were interrupted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from semel.core.idempotence.producer_window import Duplicate
from semel.core.records import batch
from semel.core.records.batch import BatchHeader
from semel.core.records.build import Record, RecordInput, build_batch, iter_records
from semel.errors import CorruptBatchError, LogError, Refuse
from semel.log import names, reading
from semel.log.compaction.cleaned_segment import Swap
from semel.log.compaction.cleaning import CleanedGroup, CleanerLimits, Cleaning
from semel.log.compaction.plan import dirtiness
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.log.recovery import Opening, open_log
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.types import NO_PRODUCER_ID, TopicPartition
from semel.verify.simulation.scenarios.disk_story import DiskStory

_DIRECTORY: Final = "/data/table-0"
_SECRET: Final = bytes(range(16))
_PRODUCERS: Final = (NO_PRODUCER_ID, 1, 2, 101, 102)
_TRANSACTIONAL_FROM: Final = 100
_Marker = tuple[int, int, bool]
"""Its offset, its producer, whether it commits."""


def clean_in_steps(cleaning: Cleaning, log: PartitionLog, now_ms: int) -> Iterator[None]:
    """A cleaning with its exchanges of segments, as the broker's cleaner does it, with a pause wherever that has one."""
    for step in cleaning.steps():
        if isinstance(step, CleanedGroup):
            swap = Swap(cleaning.files, log, step.cleaned, step.old, now_ms)
            if not swap.begin():
                step.cleaned.discard()
                raise LogError(f"{log.topic_partition}: its segments changed while it was cleaned")
            swap.commit()
            yield
            swap.replace()
            yield
            swap.retire()
            yield
            swap.settle(now_ms)
            yield
            swap.finish()
            swap.end()
        yield


@dataclass(slots=True)
class Written:
    """A record that was appended."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int
    aborted: bool | None
    """None while its transaction is open."""


class Story(DiskStory):
    """The log under test, the list beside it, and what happened so far."""

    name = "compaction_crash"

    def __init__(self, seed: int, *, steps: int = 40) -> None:
        super().__init__(seed, steps=steps)
        self.written: list[Written] = []
        self.last_batches: dict[int, tuple[BatchHeader, bytes]] = {}
        self.ends: list[_Marker] = []
        self.under_way: tuple[list[Written], tuple[BatchHeader, bytes] | None, _Marker | None] | None = None
        """Records, their batch, or a marker: sent, and not acknowledged yet."""
        self.leader_epoch = 0
        self.epochs: dict[int, int] = {}
        """Where each leader epoch began."""
        self.durable_end = 0
        self.recovery_point = 0
        self.cleaned_offset = 0
        self.config = LogConfig(
            segment_bytes=self.dice.choice([500, 900, 3000]),
            index_interval_bytes=self.dice.choice([1, 150, 4096]),
            cleanup_compact=True,
            cleanup_delete=False,
            delete_retention_ms=self.dice.choice([0, 50]),
            producer_id_expiration_ms=10**13,
        )
        self.log = self._open(clean=True)

    def _end(self) -> None:
        self.reopen("kill")

    def _step(self) -> None:
        self.now_ms += self.dice.randrange(10)
        roll = self.dice.random()
        if roll < 0.16:
            self._clean_and_die()
        elif roll < 0.24:
            self.clean()
            self.check()
        else:
            self.write()

    # Writing

    def write(self) -> None:
        """One batch, marker, roll or sync."""
        roll = self.dice.random()
        open_ones = self._open_transactions()
        if roll < 0.2 and open_ones:
            self._end_transaction(self.dice.choice(open_ones))
        elif roll < 0.26:
            self.log.roll(self.now_ms)
        elif roll < 0.36:
            self.flush()
        else:
            self._append()

    def flush(self) -> None:
        self.log.flush(self.now_ms)
        self.durable_end = self.log.log_end_offset
        if self.dice.random() < 0.5:
            self.recovery_point = self.log.recovery_point

    def _append(self) -> None:
        producer_id = self.dice.choice(_PRODUCERS)
        rows = [
            RecordInput(
                key=b"key %d" % self.dice.randrange(8),
                value=None if self.dice.random() < 0.15 else self.dice.randbytes(self.dice.randrange(50)),
                timestamp_ms=self.now_ms,
            )
            for _ in range(self.dice.choice([1, 1, 2, 4]))
        ]
        more: dict[str, Any] = {"compression": self.dice.choice([0, 0, 3])}
        if producer_id != NO_PRODUCER_ID:
            last = self.last_batches.get(producer_id)
            sequence = last[0].last_sequence + 1 if last else 0
            more |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            more["transactional"] = producer_id >= _TRANSACTIONAL_FROM
        data = build_batch(rows, base_offset=self.log.log_end_offset, **more)
        header = batch.read_header(data)
        aborted = None if more.get("transactional") else False
        new = [
            Written(header.base_offset + n, row.key or b"", row.value, producer_id, aborted)
            for n, row in enumerate(rows)
        ]
        self.under_way = new, (header, bytes(data)), None
        sent = bytearray(data)
        batch.set_base_offset(sent, 0, 0)
        result = self.log.append(sent, leader_epoch=self.leader_epoch, now_ms=self.now_ms)
        if not isinstance(result, Appended):
            raise self._broken(f"an append was answered {result}")
        self._tell(f"append {producer_id} at {result.base_offset}")
        self._settle()

    def _settle(self) -> None:
        """The append under way is in the log."""
        if self.under_way is None:
            raise self._broken("something was acknowledged that was never sent")
        (new, sent, marker), self.under_way = self.under_way, None
        self.epochs.setdefault(self.leader_epoch, new[0].offset if new else marker[0] if marker else 0)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.written += new
        if sent is not None and sent[0].has_producer_id:
            self.last_batches[sent[0].producer_id] = sent
        if marker is not None:
            self.ends.append(marker)
            self._settle_transactions()

    def _open_transactions(self) -> list[int]:
        return sorted({one.producer_id for one in self.written if one.aborted is None})

    def _end_transaction(self, producer_id: int) -> None:
        commit = self.dice.random() < 0.5
        self.under_way = [], None, (self.log.log_end_offset, producer_id, commit)
        result = self.log.append_marker(
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            commit=commit,
            leader_epoch=self.leader_epoch,
            now_ms=self.now_ms,
        )
        if isinstance(result, Refuse):
            raise self._broken(f"a marker was refused: {result}")
        self._tell(f"{'commit' if commit else 'abort'} {producer_id} at {result.base_offset}")
        self._settle()

    def _settle_transactions(self) -> None:
        """Whether records are aborted, from the markers that are in the log."""
        for one in self.written:
            if one.producer_id >= _TRANSACTIONAL_FROM:
                later = [
                    commit for at, who, commit in self.ends if who == one.producer_id and at > one.offset
                ]
                one.aborted = not later[0] if later else None

    # Cleaning and dying

    def clean(self) -> None:
        """One cleaning, with appends in between."""
        self.flush()
        dirt = dirtiness(self.log, self.cleaned_offset, self.now_ms)
        limits = CleanerLimits(dedupe_bytes=self.dice.choice([24 * 6, 1 << 20]), io_bytes=1)
        cleaning = Cleaning.begin(
            self.log, dirt, files=self.disk, limits=limits, secret=_SECRET, now_ms=self.now_ms
        )
        self._tell(f"clean {dirt.first_dirty_offset} to {dirt.first_uncleanable_offset}")
        for _ in clean_in_steps(cleaning, self.log, self.now_ms):
            if self.dice.random() < 0.3:
                self._append()
        self.cleaned_offset = cleaning.end_offset  # The directory's checkpoint from now on.
        self._tell(f"clean up to {self.cleaned_offset}")
        self.log.remove_deleted_files(self.now_ms + self.dice.choice([0, 10**6]))

    def _clean_and_die(self) -> None:
        death = self._plan_death(in_write=0.3, bytes_max=3000, operations_max=40)
        self._tell(f"{death} to come")
        try:
            self.clean()
        except DiskCrashed:
            self._tell(f"{death} came")
            self.disk.restart()
            self.reopen(death)
        else:
            self.disk.clear_faults()
            self.check()

    def reopen(self, death: Death) -> None:
        """Open the log after a death, perhaps dying again meanwhile, and check everything."""
        if death == "kill":
            self.disk.kill()
        while self.dice.random() < 0.2:
            self.disk.crash_at_operation(self.dice.randrange(12), death="power cut")
            death = "power cut"
            try:
                self._open(clean=False)
            except DiskCrashed:
                self._tell("power cut while opening")
                self.disk.restart()
            else:
                self.disk.clear_faults()
                self.disk.kill()
        self.log = self._open(clean=False)
        end = self.log.log_end_offset
        promised = self.written[-1].offset + 1 if self.written and death == "kill" else self.durable_end
        if end < promised:
            raise self._broken(f"the log ends at {end}, {promised} was promised after a {death}")
        if self.under_way is not None:
            new, _sent, marker = self.under_way
            if end > (new[-1].offset if new else marker[0] if marker else end):
                self._settle()
            self.under_way = None
        self.leader_epoch += 1
        self.epochs = {epoch: begin for epoch, begin in self.epochs.items() if begin < end}
        self.durable_end = end
        self.recovery_point = self.dice.choice([self.recovery_point, end])
        self.written = [one for one in self.written if one.offset < end]
        self.ends = [one for one in self.ends if one[0] < end]
        self._settle_transactions()
        for producer_id, (header, _data) in list(self.last_batches.items()):
            if header.base_offset >= end:
                self._forget_last(producer_id)
        self.check()

    def _forget_last(self, producer_id: int) -> None:
        """The power cut took its last batch: the one before it is told by the log."""
        window = self.log.producers.producers.get(producer_id)
        del self.last_batches[producer_id]
        if window is not None and window.batches:
            last = window.batches[-1]
            data = build_batch(
                [RecordInput(b"key", b"", self.now_ms)] * (last.offset_delta + 1),
                base_offset=last.base_offset,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=last.first_sequence,
                transactional=producer_id >= _TRANSACTIONAL_FROM,
            )
            self.last_batches[producer_id] = batch.read_header(data), bytes(data)

    def _open(self, *, clean: bool) -> PartitionLog:
        log = open_log(
            self.disk,
            Opening(
                topic_partition=TopicPartition("table", 0),
                directory=_DIRECTORY,
                config=self.config,
                now_ms=self.now_ms,
                clean=clean,
                recovery_point=self.recovery_point,
                cleaned_offset=self.cleaned_offset,
            ),
        )
        log.advance_high_watermark(log.log_end_offset)
        return log

    # The checks

    def check(self) -> None:
        """Everything that must hold at any moment."""
        if left := [
            n for n in self.disk.list_directory(_DIRECTORY) if n.endswith((names.CLEANED, names.SWAP))
        ]:
            raise self._broken(f"files of a cleaning are left: {left}")
        there = self._records()
        known = {one.offset: one for one in self.written}
        for offset, record in there.items():
            one = known.get(offset)
            if one is None or (one.key, one.value) != (record.key, record.value):
                raise self._broken(f"the log has {record}, what was appended there is {one}")
        missing = [
            one for one in self.written if one.offset >= self.cleaned_offset and one.offset not in there
        ]
        if missing and not self._cleaning_was_cut_off(missing):
            raise self._broken(
                f"{missing[0]} is gone, though nothing was cleaned above {self.cleaned_offset}"
            )
        if (
            known_epochs := {one.epoch: one.start_offset for one in self.log.leader_epochs.entries}
        ) != self.epochs:
            raise self._broken(f"leader epochs are {known_epochs}, expected {self.epochs}")
        self._check_latest(there)
        self._check_aborted(there)
        self._check_producers()

    def _cleaning_was_cut_off(self, missing: list[Written]) -> bool:
        """A crash between an exchange of segments and the checkpoint: gone may be what is superseded, or aborted."""
        latest = {one.key: one.offset for one in self.written if one.aborted is False}
        return all(
            one.aborted or latest.get(one.key, -1) > one.offset or one.value is None for one in missing
        )

    def _records(self) -> dict[int, Record]:
        return {
            record.offset: record
            for segment in self.log.segments
            for _position, header, data in segment.scan()
            if not header.is_control
            for record in iter_records(data, 0, header)
        }

    def _check_latest(self, there: dict[int, Record]) -> None:
        latest = {one.key: one for one in self.written if one.aborted is False}
        found: dict[bytes, int] = {}
        aborted = {one.offset for one in self.written if one.aborted is not False}
        for offset, record in there.items():
            if offset not in aborted:
                found[record.key or b""] = offset
        for key, one in latest.items():
            if found.get(key) != one.offset and not (one.value is None and key not in found):
                raise self._broken(f"the latest of {key!r} is {one}, the log has offset {found.get(key)}")

    def _check_aborted(self, there: dict[int, Record]) -> None:
        end = self.log.last_stable_offset
        first_open = min((one.offset for one in self.written if one.aborted is None), default=None)
        if first_open is not None and end > first_open:
            raise self._broken(f"the last stable offset {end} is above the open transaction at {first_open}")
        if first_open is None and end != self.log.log_end_offset:
            raise self._broken(f"the last stable offset is {end}, the log ends at {self.log.log_end_offset}")
        entries = reading.aborted_transactions(self.log, self.log.log_start_offset, end)
        for one in self.written:
            if one.offset not in there or one.offset >= end or one.producer_id < _TRANSACTIONAL_FROM:
                continue
            void = any(
                e.producer_id == one.producer_id and e.first_offset <= one.offset < e.last_offset
                for e in entries
            )
            if void is not bool(one.aborted):
                raise self._broken(f"{one} is void for readers: {void}")

    def _check_producers(self) -> None:
        for producer_id, (header, data) in self.last_batches.items():
            sent = bytearray(data)
            batch.set_base_offset(sent, 0, 0)
            again = self.log.append(sent, leader_epoch=self.leader_epoch, now_ms=self.now_ms)
            if not isinstance(again, Duplicate) or again.base_offset != header.base_offset:
                raise self._broken(f"the retry of {producer_id}'s batch at {header.base_offset} gave {again}")

    def check_one_per_key(self) -> None:
        """Clean everything that can be, and count."""
        self.log.roll(self.now_ms)
        self.flush()
        for producer_id in self._open_transactions():
            self._end_transaction(producer_id)
        self.log.roll(self.now_ms)
        self.flush()
        dirt = dirtiness(self.log, None, self.now_ms)
        cleaning = Cleaning.begin(
            self.log, dirt, files=self.disk, limits=CleanerLimits(), secret=_SECRET, now_ms=self.now_ms
        )
        try:
            for _ in clean_in_steps(cleaning, self.log, self.now_ms):
                pass
        except CorruptBatchError as error:
            raise self._broken(f"a cleaning of everything finds damage: {error}") from error
        keys = [record.key for record in self._records().values()]
        if len(keys) != len(set(keys)):
            raise self._broken(f"after a cleaning of everything there are {sorted(keys, key=str)}")
        self.cleaned_offset = cleaning.end_offset
        self.check()

    def _moment(self) -> str:
        return f"end={self.log.log_end_offset}"


def run(seed: int, *, steps: int = 40) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    story = Story(seed, steps=steps)
    story.run()
    story.check_one_per_key()


def run_death_at(seed: int, operation: int, death: Death) -> bool:
    """One log, one cleaning, death at one of its file operations; whether it came to that."""
    story = Story(seed)
    for _ in range(40):
        story.write()
    story.flush()
    story.recovery_point = story.log.recovery_point
    story.disk.crash_at_operation(operation, death=death)
    try:
        story.clean()
    except DiskCrashed:
        story.disk.restart()
        story.reopen(death)
        story.check_one_per_key()
        return True
    story.disk.clear_faults()
    return False
