"""A random life of a compacted log: producers, transactions, tombstones, codecs, and cleanings in between.

`Story` writes it; what must be true of the log afterwards is told by the plainest means: a list of all records ever
appended, and a dictionary.
"""

import random
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from semel.core.records.build import RecordInput, build_batch
from semel.log import reading
from semel.log.compaction.cleaning import CleanerLimits
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.runtime.files import Files
from semel.types import NO_PRODUCER_ID
from support.log.compaction_kit import clean, told
from support.log.log_kit import NOW, open_at, send
from support.log.log_kit import end as end_transaction

RETENTION_MS = 1000


@dataclass(slots=True)
class Written:
    """A record as it was appended."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    producer_id: int
    transactional: bool
    batch: tuple[int, int]
    aborted: bool | None = None
    """None while its transaction is open."""


@dataclass(slots=True)
class Story:
    """The log and the model beside it."""

    dice: random.Random
    files: Files
    directory: str
    keys: int = 12
    stamped: bool = False
    written: list[Written] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)
    """First offset of a batch → when its tombstones may go."""
    gone_tombstones: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[Written]] = field(default_factory=dict)
    now_ms: int = NOW
    cleaned_offset: int = 0
    config: LogConfig = field(init=False)
    log: PartitionLog = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.config = LogConfig(
            segment_bytes=self.dice.choice([700, 1500, 4000]),
            index_interval_bytes=self.dice.choice([0, 150, 4096]),
            cleanup_compact=True,
            cleanup_delete=False,
            delete_retention_ms=RETENTION_MS,
            producer_id_expiration_ms=10**13,
        )
        self.log = open_at(self.files, self.config, directory=self.directory)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        self.now_ms += self.dice.randrange(20)
        roll = self.dice.random()
        if roll < 0.75:
            self.append()
        elif roll < 0.92 and self.open:
            self.end_one()
        elif roll < 0.96:
            self.log.roll(self.now_ms)

    def append(self) -> None:
        producer_id = self.dice.choice([NO_PRODUCER_ID, NO_PRODUCER_ID, 1, 2, 101, 102, 103])
        transactional = producer_id > 100
        rows = [
            RecordInput(
                key=b"key %d" % self.dice.randrange(self.keys),
                value=None if self.dice.random() < 0.15 else self.dice.randbytes(self.dice.randrange(40)),
                timestamp_ms=self.now_ms + self.dice.randrange(-30, 30),
                headers=[("h", b"v")] if self.dice.random() < 0.1 else (),
            )
            for _ in range(self.dice.choice([1, 1, 2, 3, 8]))
        ]
        producer: dict[str, Any] = {}
        if producer_id != NO_PRODUCER_ID:
            producer = {"producer_id": producer_id, "producer_epoch": 0}
            producer["base_sequence"] = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(rows)
        codec = self.dice.choice([0, 0, 0, 1, 2, 3, 4])
        data = build_batch(rows, compression=codec, transactional=transactional, **producer)
        result = send(self.log, data, now_ms=self.now_ms)
        assert isinstance(result, Appended), result
        new = [
            Written(
                offset=result.base_offset + n,
                key=row.key or b"",
                value=row.value,
                timestamp_ms=row.timestamp_ms,
                producer_id=producer_id,
                transactional=transactional,
                batch=(result.base_offset, result.last_offset),
                aborted=None if transactional else False,
            )
            for n, row in enumerate(rows)
        ]
        self.written += new
        if transactional:
            self.open.setdefault(producer_id, []).extend(new)

    def end_one(self, *, commit: bool | None = None) -> None:
        producer_id = self.dice.choice(sorted(self.open))
        commit = self.dice.random() < 0.6 if commit is None else commit
        end_transaction(self.log, producer_id, commit=commit, now_ms=self.now_ms)
        for one in self.open.pop(producer_id):
            one.aborted = not commit

    def clean(self, limits: CleanerLimits | None = None) -> None:
        """Clean what can be, and let the model follow."""
        self.log.flush(self.now_ms)
        cleaning = clean(
            self.log, now_ms=self.now_ms, cleaned_offset=self.cleaned_offset, limits=limits or CleanerLimits()
        )
        if (
            cleaning.end_offset > cleaning.dirt.first_dirty_offset
        ):  # Else nothing was dirty, and nothing done.
            self.follow(cleaning.end_offset, cleaning.dirt.first_uncleanable_offset)

    def follow(self, end_offset: int, written_up_to: int) -> None:
        """Tombstones get their horizon where they are let stand, and go where it has passed."""
        self.cleaned_offset = end_offset
        latest = self.latest(end_offset)
        batches: dict[int, list[Written]] = {}
        rewritten = self.rewritten_up_to(end_offset, written_up_to)
        for one in self.written:
            if one.offset < rewritten:
                batches.setdefault(one.batch[0], []).append(one)
        for first_offset, ones in batches.items():
            horizon_ms = self.horizons.get(first_offset)
            stands = False
            for one in ones:
                if one.value is not None or one.aborted or one.offset in self.gone_tombstones:
                    continue
                if one.offset < end_offset:
                    if latest.get(one.key) != one.offset:
                        continue
                    if horizon_ms is not None and horizon_ms <= self.now_ms:
                        self.gone_tombstones.add(one.offset)
                        continue
                stands = True
            if stands and horizon_ms is None:
                self.horizons[first_offset] = self.now_ms + RETENTION_MS

    def rewritten_up_to(self, end_offset: int, written_up_to: int) -> int:
        """Where the segment ends that the last cleaned offset lies in: all of it was gone through."""
        bases = [segment.base_offset for segment in self.log.segments]
        return min(written_up_to, min((base for base in bases if base >= end_offset), default=written_up_to))

    def latest(self, end_offset: int) -> dict[bytes, int]:
        """The last offset of every key below an offset, of what was not aborted."""
        return {
            one.key: one.offset for one in self.written if one.offset < end_offset and one.aborted is False
        }

    # What must be true

    def check(self) -> None:
        self.check_survivors()
        self.check_markers()
        self.check_producers()
        self.check_times()
        self.check_aborted()
        self.check_segments()

    def expected(self) -> list[Written]:
        latest = self.latest(self.cleaned_offset)
        return [
            one
            for one in self.written
            if one.offset >= self.cleaned_offset
            or (not one.aborted and latest[one.key] == one.offset and one.offset not in self.gone_tombstones)
        ]

    def check_survivors(self) -> None:
        found = [
            (record.offset, record.key, record.value, record.timestamp_ms)
            for one in told(self.log)
            if not one.header.is_control
            for record in one.records
            # An aborted record above what was noted goes too if its segment was gone through.
            if not (record.offset >= self.cleaned_offset and self._aborted(record.offset))
        ]
        expected = [
            (one.offset, one.key, one.value, one.timestamp_ms)
            for one in self.expected()
            if not (one.offset >= self.cleaned_offset and one.aborted)
        ]
        assert found == expected

    def _aborted(self, offset: int) -> bool:
        at = bisect_left(self.written, offset, key=lambda one: one.offset)
        return self.written[at].offset == offset and bool(self.written[at].aborted)

    def check_markers(self) -> None:
        """While a batch of a transaction is there, its marker is."""
        open_by_producer: dict[int, int] = {}
        for one in told(self.log):
            header = one.header
            if header.is_control and one.records:
                open_by_producer.pop(header.producer_id, None)
            elif header.is_transactional and not header.is_control:
                open_by_producer.setdefault(header.producer_id, header.base_offset)
        assert set(open_by_producer) == set(self.open)

    def check_producers(self) -> None:
        """Every producer's last batch is there, if only as a header, and says the sequence to go on from."""
        last = {one.header.producer_id: one.header for one in told(self.log) if not one.header.is_control}
        for producer_id, next_sequence in self.sequences.items():
            assert last[producer_id].last_sequence == next_sequence - 1
        for window in self.log.producers.producers.values():
            assert window.batches

    def check_times(self) -> None:
        records = [r for one in told(self.log) for r in one.records]
        if not records:
            return
        for wanted in [
            r.timestamp_ms + n for r in self.dice.sample(records, min(5, len(records))) for n in (0, 1)
        ]:
            later = [r.offset for r in records if r.timestamp_ms >= wanted]
            found = reading.searched(reading.offset_for_timestamp(self.log, wanted))
            assert (found.offset if found else None) == (later[0] if later else None)
        newest = max(r.timestamp_ms for r in records)
        found = reading.searched(reading.offset_of_max_timestamp(self.log))
        assert found is not None
        assert (found.timestamp_ms, found.offset) == (
            newest,
            next(r.offset for r in records if r.timestamp_ms == newest),
        )

    def check_aborted(self) -> None:
        """A reader of committed records, told of aborts by the index, sees no aborted record and misses no other."""
        end = self.log.last_stable_offset
        aborted = reading.aborted_transactions(self.log, 0, end)
        void: set[int] = set()
        for one in told(self.log):
            header = one.header
            if not header.is_transactional or header.is_control:
                continue
            if any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset < entry.last_offset
                for entry in aborted
            ):
                void.update(record.offset for record in one.records)
        left = {one.offset for one in self.written if one.aborted}
        there = {r.offset for one in told(self.log) if not one.header.is_control for r in one.records}
        assert {offset for offset in void if offset < end} == {o for o in left & there if o < end}

    def check_segments(self) -> None:
        """No gap between segments, every batch found by its offset."""
        for segment, following in zip(self.log.segments, self.log.segments[1:], strict=False):
            last = [header for _position, header in segment.walk()][-1:]
            assert [header.next_offset for header in last] in ([], [following.base_offset])
        for one in told(self.log):
            found = one.segment.locate(one.header.last_offset)
            assert found is not None
            assert found[1] == one.header
