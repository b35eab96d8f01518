"""The offsets of a shard's groups: committed ones, and those whose transaction is still open.

Role.   The memory behind OffsetCommit, OffsetFetch and their like; changed only by rows and markers.
Flow.   `shard` reads the offsets to decide; `apply` takes rows over, live and in replay alike.
Rules.  * A transactional row is invisible until its marker; an abort drops it.
        * Of two commits for a partition the later row wins, whenever its transaction ends: a plain commit written after
          a transaction's row is not overwritten by the marker.
        * A tombstone also removes pending offsets: a deleted group's offsets do not come back with a marker.
Elsewhere. Commit checks: `group.Group`. Expiry: `sweep`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from semel.core.coordination.outcome import Origin
from semel.core.groups.rows import CommittedOffset, committed
from semel.core.wire.messages.group_rows import OffsetCommitKey, OffsetCommitValue
from semel.types import NO_PRODUCER_ID

_Place = tuple[str, int]
_NONE: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}


class Offsets:
    """Committed and pending offsets by group, topic and partition."""

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending: dict[int, dict[str, dict[_Place, CommittedOffset]]] = {}  # By producer.
        self._open: dict[
            str, dict[_Place, dict[int, None]]
        ] = {}  # Producers with open transactions, by group and partition.

    # Queries

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """A group's committed offsets, by topic and partition."""
        return self._committed.get(group_id, _NONE)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self._committed.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition."""
        places = self._open.get(group_id)
        return places is not None and (topic, partition) in places

    def pending(self, group_id: str) -> dict[_Place, list[CommittedOffset]]:
        """The group's offsets of open transactions, by partition."""
        return {
            place: [self._pending[producer_id][group_id][place] for producer_id in producer_ids]
            for place, producer_ids in self._open.get(group_id, {}).items()
        }

    @property
    def group_ids(self) -> Iterator[str]:
        """Every group that has offsets, committed or pending."""
        yield from self._committed
        yield from (group_id for group_id in self._open if group_id not in self._committed)

    # Changed by rows and markers only

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None, origin: Origin) -> None:
        """Take over a commit, or a tombstone."""
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        elif origin.producer_id == NO_PRODUCER_ID:
            self._put(key.group, key.topic, key.partition, committed(value, origin.offset))
        else:
            place = (key.topic, key.partition)
            offsets = self._pending.setdefault(origin.producer_id, {}).setdefault(key.group, {})
            offsets[place] = committed(value, origin.offset)
            self._open.setdefault(key.group, {}).setdefault(place, {})[origin.producer_id] = None

    def apply_marker(self, producer_id: int, *, commit: bool) -> list[str]:
        """The producer's transaction has ended; returns the groups it had offsets for."""
        ended = self._pending.pop(producer_id, {})
        for group_id, offsets in ended.items():
            for (topic, partition), pending in offsets.items():
                self._close(group_id, (topic, partition), producer_id)
                if commit:
                    before = self.get(group_id, topic, partition)
                    if before is None or before.row_offset < pending.row_offset:
                        self._put(group_id, topic, partition, pending)
        return list(ended)

    def _put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._committed.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._committed[group_id]
        place = (topic, partition)
        for producer_id in list(self._open.get(group_id, {}).get(place, ())):
            offsets = self._pending[producer_id][group_id]
            del offsets[place]
            if not offsets:
                del self._pending[producer_id][group_id]
            if not self._pending[producer_id]:
                del self._pending[producer_id]
            self._close(group_id, place, producer_id)

    def _close(self, group_id: str, place: _Place, producer_id: int) -> None:
        places = self._open[group_id]
        del places[place][producer_id]
        if not places[place]:
            del places[place]
        if not places:
            del self._open[group_id]
