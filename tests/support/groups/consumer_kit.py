"""A shard of __consumer_offsets without a broker, for tests of KIP-848 groups: its log, its time, and topics at will.

Every row goes through its bytes and is applied twice: to the shard under test, and to one that only reads, which must
be the same at any time.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from semel.core.coordination.outcome import LogRow, Origin, Ticket
from semel.core.coordination.row_format import RowFormat
from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.group import Caller, GroupOutcome, Groups, GroupSettings
from semel.core.groups.rows import GROUP_ROWS
from semel.core.groups.shard import GroupShard
from semel.core.records.build import Record
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

GROUP = "g"
CALLER = Caller("client", "/127.0.0.1", 1)
SESSION_MS, REBALANCE_MS = 45_000, 20_000
Partition = tuple[bytes, int]


class FakeTopic(NamedTuple):
    name: str
    topic_id: uuid.UUID
    partitions: int


@dataclass
class FakeTopics:
    topics: dict[str, FakeTopic] = field(default_factory=dict)

    def create(self, name: str, partitions: int) -> None:
        topic_id = self.topics[name].topic_id if name in self.topics else uuid.uuid5(uuid.NAMESPACE_DNS, name)
        self.topics[name] = FakeTopic(name, topic_id, partitions)

    def topic(self, name: str) -> FakeTopic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> FakeTopic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id.bytes == topic_id), None)


class World:
    """A shard, the log it writes, and a shard that only reads it."""

    def __init__(self, **settings_: Any) -> None:
        self.topics = FakeTopics()
        self.settings = GroupSettings(**settings_)
        self.shard = GroupShard(Groups(self.topics, self.settings))
        self.reader = GroupShard(Groups(self.topics, self.settings))
        self.rows: list[LogRow] = []
        self.now_ms = 1_000_000
        self.shard.loaded(self.now_ms)

    def take(self, outcome: GroupOutcome) -> list[Any]:
        for row in outcome.rows:
            written = _through_bytes(GROUP_ROWS, row, len(self.rows))
            for shard in (self.shard, self.reader):
                shard.apply(written, Origin(len(self.rows), self.now_ms))
            self.rows.append(written)
        return [response for _, response in outcome.replies]

    def pass_time(self, ms: int) -> None:
        """Let time pass, doing all that is due on the way."""
        until_ms = self.now_ms + ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(self.shard.due(self.now_ms))
        self.now_ms = until_ms

    def restart(self) -> None:
        """The broker is killed: what rows do not tell is forgotten."""
        self.shard = GroupShard(Groups(self.topics, self.settings))
        for offset, row in enumerate(self.rows):
            self.shard.apply(row, Origin(offset, self.now_ms))
        self.take(self.shard.loaded(self.now_ms))

    def beat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        outcome = self.shard.consumer.heartbeat(
            request, Ticket(object()), CALLER, self.now_ms, new_member_id="unused"
        )
        (response,) = self.take(outcome)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    @property
    def group(self) -> ConsumerGroup | None:
        return self.shard.consumer.group(GROUP)


def _through_bytes(rows: RowFormat, row: LogRow, offset: int) -> LogRow:
    record = rows.encode(row, 0)
    decoded = rows.decode(Record(offset, 0, record.key, record.value, (), -1))
    assert decoded is not None
    return decoded
