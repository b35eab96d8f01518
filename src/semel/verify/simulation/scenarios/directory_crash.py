"""A data directory on a disk that loses, tears and kills: partitions come, go and come again under the same name.

Role.   `run(seed)` plays one story: partitions are created, written to, flushed, cut back and deleted; checkpoints are
        written. The process ends in order, is killed, or the power is cut, at any change of the disk, during a start or a
        stop too. After every start everything is compared with a plain model.
Flow.   As `log_crash`, which knows far more of one log; here the subject is what the logs of a directory share.
Rules.  The promises after every start:
        * A partition that was created is there with its topic id; a deleted partition is not.
        * kill -9: every acknowledged batch is there. Power cut: every batch below the flushed offset is.
        * A log is a prefix of what was appended, byte for byte, and begins where it was told to begin.
        * A partition created again knows nothing of the one before it: no records, no producers, no log start.
        * A retry of a producer's last five batches is answered with its first offset.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Duplicate
from semel.core.records import batch
from semel.core.records.build import RecordInput, build_batch
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.partition_log import Appended, PartitionLog
from semel.log.producers import record_batch
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.types import TopicPartition
from semel.verify.simulation.scenarios.disk_story import DiskStory
from semel.verify.simulation.scenarios.log_crash import Stored

_PATH: Final = "/data"
_WINDOW: Final = 5


@dataclass(slots=True)
class Kept:
    """One life of a partition as the story knows it."""

    topic_id: uuid.UUID
    batches: list[Stored] = field(default_factory=list)
    """Every batch it was given, those deleted from its beginning included."""
    durable_end: int = 0
    durable_start: int = 0
    start_max: int = 0
    """The log start it had, or was about to have: it can be no higher."""
    cut_to: int | None = None
    """Set while a truncation is under way: records above may be there or not."""
    under_way: Stored | None = None
    sure: bool = True
    """False while it is being created or deleted: it may be there or not."""

    @property
    def end(self) -> int:
        return self.batches[-1].header.next_offset if self.batches else 0


class Story(DiskStory):
    """The directory under test, the model beside it, and what happened so far."""

    name = "directory_crash"

    def __init__(self, seed: int, *, steps: int = 80) -> None:
        super().__init__(seed, steps=steps)
        self.config = LogConfig(
            segment_bytes=self.dice.choice([400, 900]),
            index_interval_bytes=100,
            retention_bytes=self.dice.choice([-1, 1500]),
            producer_id_expiration_ms=10**12,
        )
        self.kept: dict[TopicPartition, Kept] = {}
        self.directory = self._start(lost_power=False)

    def _end(self) -> None:
        self.disk.kill()
        self.directory = self._start(lost_power=False)

    def _step(self) -> None:
        self.now_ms += self.dice.randrange(5)
        roll = self.dice.random()
        if roll < 0.10:
            self._die_in_the_middle()
        elif roll < 0.14:
            self._tell("kill -9")
            self.disk.kill()
            self.directory = self._start(lost_power=False)
        elif roll < 0.18:
            self._tell("power cut")
            self.disk.crash()
            self.directory = self._start(lost_power=True)
        elif roll < 0.22:
            self._stop()
            self.directory = self._start(lost_power=False)
        else:
            self._operate()

    def _operate(self) -> None:
        operations: dict[Callable[[], None], int] = {
            self._append: 40,
            self._retry: 8,
            self._flush: 8,
            self._create: 7,
            self._delete: 4,
            self._delete_records: 4,
            self._truncate: 4,
            self._roll: 4,
            self._retain: 3,
            self._checkpoint: 5,
        }
        self.dice.choices(list(operations), list(operations.values()))[0]()

    # Actions of a directory's owner

    def _create(self) -> None:
        partition = TopicPartition("orders", self.dice.randrange(3))
        if partition in self.kept:
            return
        kept = self.kept[partition] = Kept(uuid.UUID(int=self.dice.getrandbits(128)), sure=False)
        self._tell(f"create {partition}")
        self.directory.create(partition, kept.topic_id, self.config, self.now_ms)
        kept.sure = True

    def _delete(self) -> None:
        if (chosen := self._choose()) is None:
            return
        partition, kept, _log = chosen
        kept.sure = False
        self._tell(f"delete {partition}")
        self.directory.delete([partition], f"{self.dice.getrandbits(64):016x}")
        del self.kept[partition]
        if self.dice.random() < 0.5:
            self.directory.remove_deleted(self.now_ms)

    def _append(self) -> None:
        if (chosen := self._choose()) is None:
            return
        partition, kept, log = chosen
        values = [self.dice.randbytes(self.dice.randrange(60)) for _ in range(self.dice.randrange(1, 4))]
        sequence = kept.batches[-1].header.last_sequence + 1 if kept.batches else 0
        data = build_batch(
            [RecordInput(key=b"k", value=value, timestamp_ms=self.now_ms) for value in values],
            base_offset=kept.end,
            partition_leader_epoch=0,
            producer_id=partition.partition,  # The same in every life of the partition.
            producer_epoch=0,
            base_sequence=sequence,
        )
        kept.under_way = Stored(batch.read_header(data), bytes(data))
        self._tell(f"append {partition} {kept.end}+{len(values)}")
        batch.set_base_offset(data, 0, 0)
        answer = log.append(data, leader_epoch=0, now_ms=self.now_ms)
        if not isinstance(answer, Appended) or answer.base_offset != kept.end:
            raise self._broken(f"{partition}: a new batch was answered {answer}")
        kept.batches.append(kept.under_way)
        kept.under_way = None
        log.advance_high_watermark(log.log_end_offset)

    def _retry(self) -> None:
        if (chosen := self._choose()) is not None and chosen[1].batches:
            partition, kept, log = chosen
            self._check_retry(partition, log, self.dice.choice(kept.batches[-_WINDOW:]))

    def _flush(self) -> None:
        if (chosen := self._choose()) is not None:
            partition, kept, log = chosen
            self._tell(f"flush {partition}")
            log.flush(self.now_ms)
            kept.durable_end = log.recovery_point

    def _roll(self) -> None:
        if (chosen := self._choose()) is not None:
            self._tell(f"roll {chosen[0]}")
            chosen[2].roll(self.now_ms)

    def _retain(self) -> None:
        if (chosen := self._choose()) is not None:
            partition, kept, log = chosen
            self._tell(f"retention of {partition}")
            kept.start_max = log.log_end_offset
            log.delete_old_segments(self.now_ms)
            kept.start_max = log.log_start_offset
            self.directory.remove_deleted(self.now_ms + self.dice.choice([0, 100_000]))

    def _delete_records(self) -> None:
        if (chosen := self._choose()) is None:
            return
        partition, kept, log = chosen
        offset = self.dice.randint(log.log_start_offset, log.high_watermark)
        self._tell(f"delete records of {partition} below {offset}")
        kept.start_max = max(kept.start_max, offset)
        self.directory.delete_records(partition, offset, self.now_ms)
        kept.durable_start = max(kept.durable_start, offset)
        kept.durable_end = max(kept.durable_end, log.recovery_point)

    def _truncate(self) -> None:
        if (chosen := self._choose()) is None or not chosen[1].batches:
            return
        partition, kept, log = chosen
        offset = self.dice.choice(kept.batches).header.base_offset
        if offset < log.log_start_offset:
            return  # Where a cut below the start is interrupted, the log begins anew, without its producers.
        self._tell(f"truncate {partition} to {offset}")
        kept.cut_to = offset
        kept.durable_end = min(kept.durable_end, offset)
        self.directory.truncate(partition, offset, self.now_ms)
        kept.cut_to = None
        kept.batches = [stored for stored in kept.batches if stored.header.base_offset < offset]
        kept.start_max = log.log_start_offset
        self._check(partition, kept, log)

    def _checkpoint(self) -> None:
        self._tell("checkpoint")
        self.directory.checkpoint()

    def _choose(self) -> tuple[TopicPartition, Kept, PartitionLog] | None:
        if not self.kept:
            return None
        partition = self.dice.choice(sorted(self.kept))
        return partition, self.kept[partition], self.directory.logs[partition]

    # Ends and beginnings.

    def _die_in_the_middle(self) -> None:
        death = self._plan_a_death(30)
        self._tell(f"{death} to come")
        try:
            for _ in range(15):
                self._operate()
            self._stop()
        except DiskCrashed:
            self._tell(f"{death} came")
            self.disk.restart()
            self.directory = self._start(lost_power=death == "power cut")
        else:
            self.disk.clear_faults()
            self.directory = self._start(lost_power=False)

    def _stop(self) -> None:
        self._tell("stop")
        self.directory.close(self.now_ms)
        for kept in self.kept.values():
            kept.durable_end = kept.end

    def _plan_a_death(self, operations_max: int) -> Death:
        return self._plan_death(in_write=0.3, bytes_max=2000, operations_max=operations_max)

    def _start(self, *, lost_power: bool) -> LogDirectory:
        """Open the directory, perhaps dying on the way, and check everything."""
        while self.dice.random() < 0.3:
            death = self._plan_a_death(40)
            try:
                self._load().release()
            except DiskCrashed:
                self.disk.restart()
            else:
                self.disk.clear_faults()
                self.disk.kill()
            lost_power = lost_power or death == "power cut"
            self._tell(f"start, {death}")
        directory = self._load()
        self._tell("start")
        unknown = set(directory.logs) - set(self.kept)
        if unknown:
            raise self._broken(f"{sorted(unknown)} were deleted and are there")
        for partition, kept in list(self.kept.items()):
            if partition not in directory.logs:
                if kept.sure:
                    raise self._broken(f"{partition} is gone")
                del self.kept[partition]
                continue
            self._settle(directory, partition, kept, lost_power)
        return directory

    def _load(self) -> LogDirectory:
        directory = LogDirectory.open(
            self.disk, _PATH, node_id=1, cluster_id="cluster", directory_id="directory"
        )
        first = sorted(self.kept)[:1]
        if first and self.disk.exists(f"{_PATH}/{first[0]}") and self.dice.random() < 0.5:
            directory.load(first[0], self.config, self.now_ms)  # As a broker loads its metadata first.
            directory.checkpoint()
        directory.load_all(lambda _partition: self.config, self.now_ms)
        return directory

    def _settle(
        self, directory: LogDirectory, partition: TopicPartition, kept: Kept, lost_power: bool
    ) -> None:
        """Take over what a death left undecided, and check the rest."""
        if directory.topic_ids.get(partition, kept.topic_id) != kept.topic_id:
            raise self._broken(
                f"{partition} has the id {directory.topic_ids[partition]}, not {kept.topic_id}"
            )
        if partition not in directory.topic_ids:
            if kept.sure:
                raise self._broken(f"{partition} has lost its topic id")
            directory.adopt(partition, kept.topic_id)
        kept.sure = True
        log = directory.logs[partition]
        promised = kept.durable_end if lost_power else kept.end
        if kept.cut_to is not None:
            promised = min(promised, kept.cut_to)
        if log.log_end_offset < promised:
            raise self._broken(f"{partition} ends at {log.log_end_offset}, {promised} was promised")
        under_way = [kept.under_way] if kept.under_way is not None else []
        kept.batches = [s for s in [*kept.batches, *under_way] if s.header.next_offset <= log.log_end_offset]
        kept.under_way = kept.cut_to = None
        kept.durable_end = log.log_end_offset  # A start leaves everything synced.
        if not kept.durable_start <= log.log_start_offset <= kept.start_max:
            raise self._broken(
                f"{partition} starts at {log.log_start_offset}, between {kept.durable_start} and {kept.start_max} "
                "was expected"
            )
        kept.durable_start = kept.start_max = log.log_start_offset
        log.advance_high_watermark(log.log_end_offset)
        self._check(partition, kept, log)

    # The checks.

    def _check(self, partition: TopicPartition, kept: Kept, log: PartitionLog) -> None:
        if log.log_end_offset != max(kept.end, log.log_start_offset):
            raise self._broken(f"{partition} ends at {log.log_end_offset}, the model at {kept.end}")
        visible = [s for s in kept.batches if s.header.last_offset >= log.log_start_offset]
        if self._content(log) != b"".join(stored.data for stored in visible):
            raise self._broken(
                f"the bytes of {partition} from {log.log_start_offset} on are not those appended"
            )
        expected = ProducerState(producer_id_expiration_ms=10**12)
        for stored in kept.batches:
            record_batch(expected, stored.header, stored.data, None, self.now_ms)
        if log.producers.entries() != expected.entries():
            raise self._broken(f"{partition} knows {log.producers.entries()}, not {expected.entries()}")
        for stored in kept.batches[-_WINDOW:]:
            self._check_retry(partition, log, stored)

    def _content(self, log: PartitionLog) -> bytes:
        pieces, offset, end = [], log.log_start_offset, log.log_end_offset
        while (piece := reading.read(log, offset, max_bytes=1 << 20, upper_bound=end)) is not None:
            pieces.append(piece.read())
            offset = [header for _position, header in batch.headers(pieces[-1])][-1].next_offset
        return b"".join(pieces)

    def _check_retry(self, partition: TopicPartition, log: PartitionLog, stored: Stored) -> None:
        data = bytearray(stored.data)
        batch.set_base_offset(data, 0, 0)
        answer = log.append(data, leader_epoch=0, now_ms=self.now_ms)
        if not isinstance(answer, Duplicate) or answer.base_offset != stored.header.base_offset:
            raise self._broken(
                f"{partition}: the retry of offset {stored.header.base_offset} was answered {answer}"
            )

    def _moment(self) -> str:
        ends = " ".join(f"{p.partition}:{kept.end}" for p, kept in sorted(self.kept.items()))
        return f"[{ends}]"


def run(seed: int, *, steps: int = 80) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed, steps=steps).run()
