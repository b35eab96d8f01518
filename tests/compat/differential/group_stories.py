"""Both brokers as one, for stories of KIP-848 groups: every heartbeat goes to both and must be answered alike.

`Pair.beat` sends a heartbeat to both sides, with each side's own topic ids, and compares the answers field by field,
error messages included. `Walker` is a member as a client library keeps one: it knows its epoch and what it owns, gives
up what it is told to, and confirms at its next heartbeat.
"""

import difflib
import pprint
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compat.differential.exchange import Side
from semel.core.groups.consumer.metadata_hash import group_hash, topic_hash
from semel.core.groups.rows import GROUP_ROWS
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire.message import Message
from semel.core.wire.messages import (
    consumer_protocol,
    create_partitions,
    create_topics,
    find_coordinator,
    group_rows,
    heartbeat,
    join_group,
    leave_group,
    metadata,
    sync_group,
)
from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from semel.core.wire.schema import Struct

_PATIENCE_SECONDS: Final = 20.0
Names = Mapping[str, list[int]]


@dataclass
class Pair:
    """Ours and Kafka's."""

    ours: Side
    theirs: Side
    partitions: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    member_ids: dict[str, dict[str, str]] = field(default_factory=lambda: {"Semel": {}, "Kafka": {}})
    """By side: ids the brokers made -> the names stories have for them."""

    def told(self, side: Side, value: Any) -> Any:
        """An answer as plain values, under the names of the story."""
        return plain(side, value, self.member_ids[side.name])

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.ours, self.theirs

    def ask(self, title: str, build: Callable[[Side], Message], version: int) -> Any:
        """The answer both give, as plain values under the topics' names."""
        answers = [self.told(side, side.ask(build(side), version)) for side in self.sides]
        self.log.append(f"{title} -> {answers[0]}")
        told = "\n".join(self.log[-12:])
        shown = [pprint.pformat(answer, width=100).splitlines() for answer in answers]
        lines = "\n".join(difflib.unified_diff(shown[0], shown[1], "ours", "Kafka's", lineterm="", n=2))
        differ = f"{title} v{version}:\n{lines}\n{told}"
        assert answers[0] == answers[1], differ
        return answers[0]

    def beat(
        self, title: str = "heartbeat", version: int = 1, owned: Names | None = None, **fields: Any
    ) -> Any:
        """One heartbeat to both."""

        def build(side: Side) -> Message:
            request = ConsumerGroupHeartbeatRequest(**fields)
            if owned is not None:
                request.topic_partitions = [
                    TopicPartitions(topic_id=side.topic_ids[name], partitions=list(parts))
                    for name, parts in owned.items()
                ]
            return request

        return self.ask(f"{title} {fields} owned={owned}", build, version)

    def until(
        self, title: str, build: Callable[[Side], Message], version: int, good: Callable[[Any], bool]
    ) -> None:
        """Ask each side until its answer is good: Kafka's parts learn of a change one after the other."""
        for side in self.sides:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not good(answer := self.told(side, side.ask(build(side), version))):
                assert time.monotonic() < deadline, f"{title}: {side.name}: {answer}"
                time.sleep(0.05)

    def create_topics(self, **partitions: int) -> None:
        """Make topics on both sides and learn their ids."""
        topics = [
            create_topics.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in partitions.items()
        ]
        for side in self.sides:
            side.ask(create_topics.CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        self.partitions.update(partitions)
        for name, count in partitions.items():
            self._learn(name, count)

    def grow(self, name: str, count: int) -> None:
        """Let a topic have more partitions."""
        topics = [create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)]
        for side in self.sides:
            side.ask(create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=10_000), 3)
        self.partitions[name] = count
        self._learn(name, count)

    def _learn(self, name: str, count: int) -> None:
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
        for side in self.sides:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while True:
                answer = side.ask(request, 12)
                assert isinstance(answer, metadata.MetadataResponse)
                topic = answer.topics[0]
                if not topic.error_code and len(topic.partitions) == count:
                    side.topic_ids[name] = topic.topic_id
                    break
                assert time.monotonic() < deadline, f"{side.name} does not know {name}"
                time.sleep(0.05)

    def wait_for_coordinator(self, group_id: str) -> None:
        """Until both can be asked about a group: Kafka makes its fifty partitions first."""
        find = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
        self.until("find", lambda _side: find, 4, lambda answer: not answer["coordinators"][0]["error_code"])
        probe = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="probe", member_epoch=-1)
        self.until("probe", lambda _side: probe, 1, lambda answer: answer["error_code"] == 69)


def plain(side: Side, value: Any, member_ids: Mapping[str, str]) -> Any:
    """A message as dictionaries and lists; topics by their names, what may come in any order sorted."""
    if isinstance(value, Struct):
        fields = {
            name: plain(side, getattr(value, name), member_ids)
            for name in type(value).__annotations__
            if name[0] != "_"
        }
        fields.pop("throttle_time_ms", None)
        if isinstance(fields.get("assignment"), bytes) and fields["assignment"]:
            fields["assignment"] = _assigned(fields["assignment"])
        return fields
    if isinstance(value, str):
        for own, name in member_ids.items():
            value = value.replace(own, name)
        return value
    if isinstance(value, list):
        items = [plain(side, item, member_ids) for item in value]
        return sorted(items, key=repr) if items and not isinstance(items[0], int) else sorted(items)
    if isinstance(value, bytes) and len(value) == 16:
        return {topic_id: name for name, topic_id in side.topic_ids.items()}.get(value, value.hex())
    return value


def _assigned(data: bytes) -> dict[str, list[int]]:
    """An assignment inside SyncGroup: its topics may come in any order."""
    message = consumer_protocol.ConsumerProtocolAssignment.decode(data, int.from_bytes(data[:2], "big"), 2)
    return {one.topic: one.partitions for one in message.assigned_partitions}


@dataclass
class Walker:
    """A member that behaves; what it does not do, a story does in its name."""

    pair: Pair
    group_id: str
    member_id: str
    topics: list[str]
    assignor: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)
    timeout_ms: int = 1_800_000

    def join(self) -> Any:
        """Begin, or begin again."""
        self.epoch, self.owned = 0, {}
        return self._took(
            self.pair.beat(
                f"{self.member_id} joins",
                owned={},
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=0,
                instance_id=self.instance_id,
                rebalance_timeout_ms=self.timeout_ms,
                subscribed_topic_names=self.topics,
                server_assignor=self.assignor,
            )
        )

    def beat(self, *, full: bool = False, silent: bool = False, **more: Any) -> Any:
        """Live on: with what it owns, with everything it has to say, or with nothing but its epoch."""
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        if full:
            fields |= {
                "rebalance_timeout_ms": self.timeout_ms,
                "subscribed_topic_names": self.topics,
                "server_assignor": self.assignor,
            }
        fields |= more
        owned = None if silent else dict(self.owned)
        return self._took(self.pair.beat(f"{self.member_id} beats", owned=owned, **fields))

    def subscribe(self, *topics: str) -> Any:
        """Read other topics from now on."""
        self.topics = list(topics)
        return self.beat(full=True)

    def leave(self, epoch: int = -1) -> Any:
        """Go, or (-2) go for a while."""
        return self.pair.beat(
            f"{self.member_id} leaves",
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )

    def _took(self, answer: Any) -> Any:
        if not answer["error_code"]:
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                given = answer["assignment"]["topic_partitions"]
                self.owned = {one["topic_id"]: one["partitions"] for one in given}
        return answer


@dataclass
class ClassicWalker:
    """A static member that speaks the classic protocol; the brokers make its ids."""

    pair: Pair
    group_id: str
    instance_id: str
    topics: list[str]
    generation_id: int = -1
    owned: dict[str, list[int]] = field(default_factory=dict)
    protocol: str = "range"

    @property
    def name(self) -> str:
        return f"the member {self.instance_id} of {self.group_id}"

    def member_id(self, side: Side) -> str:
        """What this side calls it."""
        return next((own for own, name in self.pair.member_ids[side.name].items() if name == self.name), "")

    def join(self, *, anew: bool = False, version: int = 9) -> Any:
        """JoinGroup, with what it owns. Ids that are new are learned before the answers are compared."""
        subscription = consumer_protocol.ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                consumer_protocol.TopicPartition(topic=name, partitions=parts)
                for name, parts in self.owned.items()
            ],
            generation_id=self.generation_id,
        )
        metadata_bytes = b"\x00\x03" + subscription.encode(3)

        def build(side: Side) -> Message:
            return join_group.JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=1_800_000,
                rebalance_timeout_ms=1_800_000,
                member_id="" if anew else self.member_id(side),
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol(name=self.protocol, metadata=metadata_bytes)],
            )

        answers = []
        for side in self.pair.sides:
            answer = side.ask(build(side), version)
            assert isinstance(answer, join_group.JoinGroupResponse)
            if not answer.error_code:
                known = self.pair.member_ids[side.name]
                for own in [
                    own for own, name in known.items() if name == self.name and own != answer.member_id
                ]:
                    known[own] = f"{self.name} before"
                known[answer.member_id] = self.name
            answers.append(self.pair.told(side, answer))
        self.pair.log.append(f"{self.name} joins -> {answers[0]}")
        assert answers[0] == answers[1], f"{answers[1]} says Kafka\n" + "\n".join(self.pair.log[-8:])
        if not answers[0]["error_code"]:
            self.generation_id = answers[0]["generation_id"]
        return answers[0]

    def sync(self, given: Names | None = None) -> Any:
        """SyncGroup; who leads hands in the assignment."""

        def build(side: Side) -> Message:
            message = consumer_protocol.ConsumerProtocolAssignment(
                assigned_partitions=[
                    consumer_protocol.ConsumerProtocolAssignmentTopicPartition(
                        topic=name, partitions=list(parts)
                    )
                    for name, parts in (given or {}).items()
                ]
            )
            assignments = [
                sync_group.SyncGroupRequestAssignment(
                    member_id=self.member_id(side), assignment=b"\x00\x03" + message.encode(3)
                )
            ]
            return sync_group.SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id(side),
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=[] if given is None else assignments,
            )

        answer = self.pair.ask(f"{self.name} syncs", build, 5)
        if not answer["error_code"]:
            self.owned = answer["assignment"] or {}
        return answer

    def beat(self, generation_id: int | None = None) -> int:
        """Heartbeat; the code it is answered with."""
        generation = self.generation_id if generation_id is None else generation_id

        def build(side: Side) -> Message:
            return heartbeat.HeartbeatRequest(
                group_id=self.group_id,
                generation_id=generation,
                member_id=self.member_id(side),
                group_instance_id=self.instance_id,
            )

        code = self.pair.ask(f"{self.name} beats", build, 4)["error_code"]
        assert isinstance(code, int)
        return code

    def leave(self) -> Any:
        """LeaveGroup, as an administrator would, by the instance id."""
        request = leave_group.LeaveGroupRequest(
            group_id=self.group_id,
            members=[leave_group.MemberIdentity(member_id="", group_instance_id=self.instance_id)],
        )
        return self.pair.ask(f"{self.name} leaves", lambda _: request, 5)


def group_rows_of(directory: Path, pair: Pair, side: Side) -> dict[str, Any]:
    """The last row of each key of KIP-848 groups in a broker's log, as plain values without times."""
    rows: dict[str, Any] = {}
    hashes = {
        name: topic_hash(name, topic_id, pair.partitions[name]) for name, topic_id in side.topic_ids.items()
    }
    for file in sorted(directory.glob("__consumer_offsets-*/*.log")):
        data = file.read_bytes()
        for position, header in batch.headers(data):
            for record in iter_records(data, position, header):
                row = GROUP_ROWS.decode(record)
                assert row is not None
                value = pair.told(side, row.value)
                key = repr(row.key)
                for own, name in pair.member_ids[side.name].items():
                    key = key.replace(own, name)
                if isinstance(row.value, group_rows.ConsumerGroupMetadataValue):
                    value["metadata_hash"] = _topics_behind(row.value.metadata_hash, hashes)
                elif isinstance(row.value, group_rows.ConsumerGroupTargetAssignmentMetadataValue):
                    value["assignment_timestamp"] = row.value.assignment_timestamp > 0
                elif isinstance(row.value, group_rows.ConsumerGroupRegularExpressionValue):
                    value["timestamp"], value["version"] = row.value.timestamp > 0, None
                elif isinstance(row.value, group_rows.GroupMetadataValue):
                    value["current_state_timestamp"] = row.value.current_state_timestamp > 0
                elif isinstance(row.value, group_rows.OffsetCommitValue):
                    value["commit_timestamp"] = row.value.commit_timestamp > 0
                rows[f"{file.parent.name} {key}"] = value
    return rows


def _topics_behind(metadata_hash: int, hashes: Mapping[str, int]) -> Any:
    """Which topics a hash was made of, as far as one or two of today's explain it."""
    names = sorted(hashes)
    for some in [[], *([name] for name in names), *([a, b] for a in names for b in names if a < b), names]:
        if group_hash({name: hashes[name] for name in some}) == metadata_hash:
            return some
    return "other"
