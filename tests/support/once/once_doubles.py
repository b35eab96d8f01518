"""Topics, a consumer and a producer in memory, with just what the consumers that count once need of real ones.

The tests of rules and stories use these, because here a crash can be put between any two steps. That the real clients do
the same is shown by the tests that kill real processes.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.exceptions import ProducerFencedException
from semel.types import TopicPartition


class Crash(BaseException):
    """The process dies here: nobody catches it, nothing after it happens."""


@dataclass(frozen=True, slots=True)
class RecordDouble:
    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class CommittedDouble:
    offset: int
    metadata: str | None = ""


@dataclass(slots=True)
class TopicsDouble:
    """What a broker would keep."""

    logs: dict[TopicPartition, list[RecordDouble]] = field(default_factory=dict)
    committed: dict[tuple[str, TopicPartition], CommittedDouble] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)

    def write(
        self,
        topic: str,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        skip: int = 0,
    ) -> None:
        """Append; `skip` leaves out offsets, as markers and compaction do."""
        log = self.logs.setdefault(TopicPartition(topic, partition), [])
        offset = (log[-1].offset + 1 if log else 0) + skip
        log.append(RecordDouble(topic, partition, offset, value, key, 1_000 + offset, headers))

    def values(self, topic: str) -> list[bytes | None]:
        return [
            record.value for where, log in sorted(self.logs.items()) if where.topic == topic for record in log
        ]


class ConsumerDouble:
    """A member of a group whose rebalances the test decides."""

    def __init__(self, topics: TopicsDouble, group: str = "group", *, records_max: int = 500) -> None:
        self.topics = topics
        self.group = group
        self.records_max = records_max
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.commits: list[dict[TopicPartition, int]] = []
        self.fail_commit: Callable[[], None] = lambda: None
        self._listener: Any = None
        self._events: deque[tuple[str, list[TopicPartition]]] = deque()

    # What a test does to it.

    def give(self, *partitions: tuple[str, int]) -> None:
        self._events.append(("assigned", [TopicPartition(*partition) for partition in partitions]))

    def take(self, *partitions: tuple[str, int], lost: bool = False) -> None:
        what = "lost" if lost else "revoked"
        self._events.append((what, [TopicPartition(*partition) for partition in partitions]))

    # What the code under test does with it.

    def subscribe(self, topics: Collection[str], listener: Any = None) -> None:
        self._listener = listener
        self.give(*sorted(where for where in self.topics.logs if where.topic in topics))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions = {
            TopicPartition(*where): self._committed(TopicPartition(*where)) for where in partitions
        }

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def poll(self, timeout_ms: int = 0) -> list[RecordDouble]:
        while self._events:
            what, partitions = self._events.popleft()
            if what == "assigned":
                self.positions |= {where: self._committed(where) for where in partitions}
            if self._listener is not None:
                getattr(self._listener, f"on_partitions_{what}")(partitions)
            if what != "assigned":
                for where in partitions:
                    self.positions.pop(where, None)
                    self.paused.discard(where)
        polled: list[RecordDouble] = []
        for where in sorted(self.positions):
            if where in self.paused:
                continue
            left = self.records_max - len(polled)
            found = [r for r in self.topics.logs.get(where, []) if r.offset >= self.positions[where]][:left]
            if found:
                self.positions[where] = found[-1].offset + 1
                polled += found
        return polled

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert TopicPartition(*partition) in self.positions, f"{partition} is not assigned"
        self.positions[TopicPartition(*partition)] = offset

    def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            self.seek(where, 0)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        logs = self.topics.logs
        return {where: logs[where][-1].offset + 1 if logs.get(where) else 0 for where in partitions}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.fail_commit()
        self.commits.append(dict(offsets))
        for where, offset in offsets.items():
            self.topics.committed[self.group, where] = CommittedDouble(offset)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedDouble | None]:
        return {where: self.topics.committed.get((self.group, where)) for where in partitions}

    def group_metadata(self) -> str:
        return self.group

    def _committed(self, where: TopicPartition) -> int:
        committed = self.topics.committed.get((self.group, where))
        return 0 if committed is None else committed.offset


class ProducerDouble:
    """A transactional producer: what it sends is there when it commits, all of it, or never."""

    def __init__(self, topics: TopicsDouble, transactional_id: str | None = "relay") -> None:
        self.topics = topics
        self.config = {"transactional.id": transactional_id}
        self.steps: Callable[[str], None] = _nothing  # Called between any two steps; may raise.
        self._id = transactional_id or ""
        self._epoch = -1
        self._open: list[Callable[[], None]] | None = None

    def partitions_for(self, topic: str) -> list[int]:
        self.steps("partitions")
        return [where.partition for where in self.topics.logs if where.topic == topic]

    def init_transactions(self) -> None:
        self.steps("before init")
        self._epoch = self.topics.epochs[self._id] = self.topics.epochs.get(self._id, -1) + 1
        self.steps("after init")

    def begin_transaction(self) -> None:
        assert self._open is None, "a transaction is open"
        self._open = []

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.steps("send")
        self._later(
            lambda: self.topics.write(topic, value, partition=partition or 0, key=key, headers=headers)
        )

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_metadata: str) -> None:
        self.steps("offsets")
        for where, offset in offsets.items():
            committed = CommittedDouble(offset.offset, offset.metadata)
            self._later(
                lambda where=where, committed=committed: self.topics.committed.__setitem__(  # type: ignore[misc] # defaults
                    (group_metadata, where), committed
                )
            )

    def commit_transaction(self) -> None:
        self.steps("before commit")
        if self._epoch != self.topics.epochs[self._id]:
            raise ProducerFencedException("there is a newer producer with the same transactional.id")
        assert self._open is not None
        done, self._open = self._open, None
        for write in done:
            write()
        self.steps("after commit")

    def abort_transaction(self) -> None:
        self._open = None

    def _later(self, write: Callable[[], None]) -> None:
        assert self._open is not None, "no transaction is open"
        self._open.append(write)


def _nothing(step: str) -> None:
    """No crash here."""
