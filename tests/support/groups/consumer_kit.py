"""A shard of __consumer_offsets without a broker, for tests of KIP-848 groups: its log, its time, and topics at will.

Every row goes through its bytes and is applied twice: to the shard under test, and to one that only reads, which must
be the same at any time. `World.ask` takes any request of a group, as a broker does, and is a `consumer_stories.Desk`.
"""

import copy
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from semel.core.coordination.outcome import LogRow, Origin, Ticket
from semel.core.coordination.row_format import RowFormat
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.consumer.checks import request_flaw
from semel.core.groups.consumer.group import ConsumerGroup
from semel.core.groups.group import Caller, GroupOutcome, Groups, GroupSettings
from semel.core.groups.rows import GROUP_ROWS
from semel.core.groups.shard import GroupShard
from semel.core.records.build import Record
from semel.core.wire.message import Message
from semel.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.core.wire.messages.delete_groups import DeleteGroupsRequest
from semel.core.wire.messages.describe_groups import DescribeGroupsRequest
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.leave_group import LeaveGroupRequest
from semel.core.wire.messages.offset_commit import OffsetCommitRequest
from semel.core.wire.messages.offset_delete import OffsetDeleteRequest
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest
from semel.core.wire.messages.sync_group import SyncGroupRequest

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

    def is_gone(self, name: str) -> bool:
        return self.topic(name) is None

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

    # As a desk

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        return {name: topic.topic_id.bytes for name, topic in self.topics.topics.items()}

    def ask(self, request: Message, version: int) -> Message | str:
        """The answer to any request of a group; deciding on it must change no KIP-848 group."""
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            flaw = request_flaw(request, version, self.settings.group_consumer_assignors)
            if flaw is not None:
                return ConsumerGroupHeartbeatResponse(error_code=flaw.code, error_message=flaw.message)
        before = copy.deepcopy(self.group)
        outcome = self._decide(request, version)
        after = self.shard.groups.get(GROUP)
        if before is not None and not isinstance(
            after, ClassicGroup
        ):  # Becoming classic comes before its rows.
            assert after == before, "the decision changed the group before its rows were applied"
        [answer] = self.take(outcome)
        assert self.group == self.reader.consumer.group(GROUP), "replay differs"
        assert isinstance(answer, Message)
        return answer

    def _decide(self, request: Message, version: int) -> GroupOutcome:
        shard, now_ms, ticket = self.shard, self.now_ms, Ticket(object())
        caller = CALLER._replace(version=version)
        match request:
            case ConsumerGroupHeartbeatRequest():
                return shard.consumer.heartbeat(request, ticket, caller, now_ms, new_member_id="unused")
            case ConsumerGroupDescribeRequest():
                return shard.consumer.describe(request.group_ids[0], ticket)
            case DescribeGroupsRequest():
                return shard.describe(request.groups[0], version, ticket)
            case DeleteGroupsRequest():
                return shard.delete_group(request.groups_names[0], ticket)
            case OffsetCommitRequest():
                return shard.commit(request, version, ticket, now_ms)
            case OffsetFetchRequest():
                return shard.fetch(request.groups[0], ticket, require_stable=False, by_id=False)
            case OffsetDeleteRequest():
                return shard.delete_offsets(request, ticket)
            case JoinGroupRequest():
                return shard.join(request, ticket, caller, now_ms, unique=str(uuid.UUID(int=len(self.rows))))
            case SyncGroupRequest():
                return shard.sync(request, ticket, caller, now_ms)
            case HeartbeatRequest():
                return shard.heartbeat(request, ticket, now_ms)
            case LeaveGroupRequest():
                return shard.leave(request, ticket, caller, now_ms)
        raise AssertionError(f"no request of a group: {request}")


def _through_bytes(rows: RowFormat, row: LogRow, offset: int) -> LogRow:
    record = rows.encode(row, 0)
    decoded = rows.decode(Record(offset, 0, record.key, record.value, (), -1))
    assert decoded is not None
    return decoded
