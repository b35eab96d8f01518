"""Stories of one KIP-848 group, told to whoever answers: a shard by itself, or a broker (ours, or Apache Kafka).

A `Desk` answers requests. A `Story` is one group there: it makes the requests, remembers what members were told, and
shortens answers to texts, which the tables of tests/core/groups/consumer list. tests/compat/differential tells the same
stories to Apache Kafka and expects the same texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from semel.core.wire.message import Message
from semel.core.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.errors import ErrorCode

Names = Mapping[str, Sequence[int]]
"""Topic -> partitions."""
PARTITIONS: Mapping[str, int] = {"t": 4, "u": 2}
"""The topics of every desk."""
ALL_OF_T: Names = {"t": [0, 1, 2, 3]}
TIMEOUT_MS = 1_800_000
FULL: Mapping[str, Any] = {"rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["t"]}
"""What a heartbeat with everything has besides its partitions."""


class Desk(Protocol):
    """Whoever answers."""

    @property
    def topic_ids(self) -> Mapping[str, bytes]: ...

    def ask(self, request: Message, version: int) -> Message | str: ...


@dataclass
class Story:
    """One group at a desk, and what its members know."""

    desk: Desk
    group_id: str
    epochs: dict[str, int] = field(default_factory=dict)
    """Member -> the epoch of its last answer."""
    given: dict[str, Names] = field(default_factory=dict)
    """Member -> the assignment it was given last."""
    instances: dict[str, str] = field(default_factory=dict)
    """Member -> its instance id."""

    def beat(
        self, member_id: str, epoch: int | None = None, owned: Names | None = None, **fields: Any
    ) -> str:
        """ConsumerGroupHeartbeat. Without an epoch it is the one the member was told; the answer is remembered."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=self.epochs.get(member_id, 0) if epoch is None else epoch,
            **{"instance_id": self.instances.get(member_id), **fields},
        )
        if owned is not None:
            request.topic_partitions = [
                TopicPartitions(topic_id=self.desk.topic_ids[name], partitions=list(partitions))
                for name, partitions in owned.items()
            ]
        answer = self.desk.ask(request, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse), answer
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        if epoch is None or epoch >= 0:
            self.epochs[member_id] = answer.member_epoch
        if answer.assignment is None:
            return str(answer.member_epoch)
        names = {topic_id: name for name, topic_id in self.desk.topic_ids.items()}
        self.given[member_id] = {
            names[bytes(one.topic_id)]: sorted(one.partitions) for one in answer.assignment.topic_partitions
        }
        return f"{answer.member_epoch} {shown(self.given[member_id])}"

    def join(self, member_id: str, *topics: str, **fields: Any) -> str:
        """The first heartbeat, with everything; it subscribes to `t` unless topics are named."""
        if "instance_id" in fields:
            self.instances[member_id] = fields["instance_id"]
        named = {**FULL, "subscribed_topic_names": list(topics or ("t",)), **fields}
        return self.beat(member_id, 0, {}, **named)

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> str:
        """The last heartbeat; -2 to return."""
        return self.beat(member_id, epoch, **fields)

    def confirm(self, member_id: str) -> str:
        """A heartbeat of a member that follows: it owns what it was given."""
        return self.beat(member_id, owned=self.given[member_id])

    def group_state(self) -> str:
        """The state in ConsumerGroupDescribe; `none` if there is no such KIP-848 group."""
        answer = self.desk.ask(ConsumerGroupDescribeRequest(group_ids=[self.group_id]), 1)
        assert isinstance(answer, ConsumerGroupDescribeResponse), answer
        [group] = answer.groups
        return "none" if group.error_code else group.group_state


def shown(assignment: Names) -> str:
    """An assignment as the tables write it: `t0123 u01`, or `nothing`."""
    parts = [f"{name}{''.join(map(str, assignment[name]))}" for name in sorted(assignment)]
    return " ".join(parts) or "nothing"
