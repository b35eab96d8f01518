"""The files of replicas beside each other: batches, leader epochs, producers. They are what replication is for.

Role.   `judge` says how the replicas of a topic differ; `settled_differences` waits for quiet first. `producers` reads what a clean
        end has left.
Rules.  * Kafka's replicas are byte for byte equal, for a follower stores what it fetched as it is. So are ours. Segments may be cut
          elsewhere, so it is batches that are compared, from the larger log start on.
        * A leader notes the epoch it begins with at once, a follower with the first batch of it. Epochs without a batch do not count.
        * What compaction has been over is compared by contents: each replica is compacted by itself, at times of its own.
        * The producers in a snapshot are compared by their last batch, which is all that Kafka keeps there.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from semel.core.idempotence import snapshot
from semel.core.records import batch
from semel.core.records.batch import HEADER_SIZE, BatchHeader
from semel.core.records.build import Record, iter_records
from semel.log import names

_QUIET_SECONDS: Final = 60.0
_EPOCHS: Final = "leader-epoch-checkpoint"
_LOG_STARTS: Final = "log-start-offset-checkpoint"
_PATHS_SHOWN: Final = 5


class StoredBatch(NamedTuple):
    """A batch as it is on the disk."""

    header: BatchHeader
    bytes: bytes


class ReplicaFiles(NamedTuple):
    """One replica's directory, read."""

    log_start: int
    """Of what is stored: a log start inside of a segment is in the checkpoint."""
    batches: tuple[StoredBatch, ...]
    epochs: tuple[tuple[int, int], ...]
    """Epoch and the offset it begins at, as its checkpoint says."""

    @property
    def log_end(self) -> int:
        return self.batches[-1].header.next_offset if self.batches else self.log_start

    def from_offset(self, offset: int) -> list[bytes]:
        return [one.bytes for one in self.batches if one.header.next_offset > offset]

    def records(self) -> Iterator[Record]:
        """Those of producers, not the markers."""
        for one in self.batches:
            if not one.header.is_control:
                yield from iter_records(one.bytes, 0, one.header)

    def contents(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(one.offset, one.key, one.value) for one in self.records() if one.offset >= self.log_start]

    def renewed(self) -> set[int]:
        """Numbers that stand here more than once because their producer itself began a new epoch in between."""
        epochs: dict[int, set[tuple[int, int]]] = {}
        copies: Counter[int] = Counter()
        for one in self.batches:
            if not one.header.is_control:
                for record in iter_records(one.bytes, 0, one.header):
                    number = int(record.value or b"-1")
                    copies[number] += 1
                    epochs.setdefault(number, set()).add((one.header.producer_id, one.header.producer_epoch))
        return {number for number, count in copies.items() if count == len(epochs[number]) > 1}

    def latest(self) -> dict[bytes | None, tuple[int, bytes | None]]:
        """The last record of each key that is not deleted: what compaction keeps."""
        found = {one.key: (one.offset, one.value) for one in self.records()}
        return {key: (offset, value) for key, (offset, value) in found.items() if value is not None}


def read(directory: Path) -> ReplicaFiles:
    """A partition's directory, while its broker may be writing to it: a batch that is not whole yet is left out."""
    batches: list[StoredBatch] = []
    logs = sorted(one for one in directory.iterdir() if one.suffix == names.LOG)
    for log in logs:
        data = log.read_bytes()
        position = 0
        while position + HEADER_SIZE <= len(data):
            header = batch.read_header(data, position)
            end = position + header.size_bytes
            if header.magic != batch.MAGIC or end > len(data):
                break
            batches.append(StoredBatch(header, data[position:end]))
            position = end
    first = int(logs[0].stem) if logs else 0
    noted = _log_starts(directory.parent).get(directory.name, 0)
    return ReplicaFiles(max(first, noted), tuple(batches), _epochs(directory / _EPOCHS))


def _epochs(checkpoint: Path) -> tuple[tuple[int, int], ...]:
    rows = _rows(checkpoint)
    return tuple((int(epoch), int(start)) for epoch, start in (row.split() for row in rows))


def _log_starts(data: Path) -> dict[str, int]:
    found = {}
    for row in _rows(data / _LOG_STARTS):
        topic, partition, offset = row.split()
        found[f"{topic}-{partition}"] = int(offset)
    return found


def _rows(checkpoint: Path) -> list[str]:
    """Of a version, a count, and so many rows; none where there is no file."""
    try:
        _version, _count, *rows = checkpoint.read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ValueError):
        return []
    return rows


def differences(replicas: Mapping[str, ReplicaFiles]) -> list[str]:
    """How these replicas of one partition differ, in words; empty if they do not."""
    found = []
    (first_name, first), *others = replicas.items()
    for name, other in others:
        between = f"{first_name} and {name}"
        if first.log_end != other.log_end:
            found.append(f"{between} end at {first.log_end} and {other.log_end}")
        start = max(first.log_start, other.log_start)
        found += _differing_batches(between, first, other, start)
        found += _differing_epochs(between, first, other, start)
    return found


def _differing_epochs(between: str, first: ReplicaFiles, other: ReplicaFiles, start: int) -> list[str]:
    ours, theirs = _epochs_from(first, start), _epochs_from(other, start)
    if ours != theirs:
        return [f"{between} have the leader epochs {ours} and {theirs}"]
    return []


def _differing_batches(between: str, first: ReplicaFiles, other: ReplicaFiles, start: int) -> list[str]:
    """Byte for byte, up to the smaller end."""
    for ours, theirs in zip(first.from_offset(start), other.from_offset(start), strict=False):
        if ours != theirs:
            return [f"{between} differ: {batch.read_header(ours)} and {batch.read_header(theirs)}"]
    return []


def _epochs_from(replica: ReplicaFiles, start: int) -> list[tuple[int, int]]:
    """Epochs that have batches, as of a log that begins at `start`."""
    begun = [(epoch, at) for epoch, at in replica.epochs if at < replica.log_end]
    old = [(epoch, start) for epoch, at in begun if at <= start][-1:]
    return old + [(epoch, at) for epoch, at in begun if at > start]


def content_differences(replicas: Mapping[str, ReplicaFiles]) -> list[str]:
    """Of a compacted topic: the end, and for each key its last record."""
    found = []
    (first_name, first), *others = replicas.items()
    for name, other in others:
        between = f"{first_name} and {name}"
        if first.log_end != other.log_end:
            found.append(f"{between} end at {first.log_end} and {other.log_end}")
        ours, theirs = first.latest(), other.latest()
        if ours != theirs:
            keys = [key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
            shown = [(key, ours.get(key), theirs.get(key)) for key in keys[:_PATHS_SHOWN]]
            found.append(f"{between} differ in {len(keys)} keys, as {shown}")
    return found


def settled_differences(paths: Mapping[str, Path], *, compacted: bool = False) -> list[str]:
    """The differences that are left once they are equal or time is over: a follower and a checkpoint may be a moment behind."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while True:
        replicas = {name: read(path) for name, path in paths.items()}
        found = content_differences(replicas) if compacted else differences(replicas)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def producers(directory: Path) -> dict[int, tuple[int, int, int, int, int, int, int | None]]:
    """By their ids, from the snapshot that stands for the whole log. Raises `AssertionError` where there is none."""
    end = read(directory).log_end
    file = directory / names.file_name(end, names.SNAPSHOT)
    if not file.exists():
        there = sorted(one.name for one in directory.iterdir())
        raise AssertionError(f"{directory} has no snapshot for its end {end}: {there}")
    return {
        one.producer_id: (
            one.producer_epoch,
            one.last_sequence,
            one.last_offset,
            one.batches[-1].offset_delta if one.batches else 0,
            one.last_timestamp_ms,
            one.coordinator_epoch,
            one.current_txn_first_offset,
        )
        for one in snapshot.decode(file.read_bytes())
    }


def producer_differences(paths: Mapping[str, Path]) -> list[str]:
    """After clean ends: the producers that replicas know."""
    (first_name, first), *others = ((name, producers(path)) for name, path in paths.items())
    return [
        f"{first_name} knows the producers {first}, {name} knows {other}"
        for name, other in others
        if other != first
    ]


def segments(directory: Path) -> Sequence[Path]:
    """The segments of a log, oldest first."""
    return sorted(one for one in directory.iterdir() if one.suffix == names.LOG)
