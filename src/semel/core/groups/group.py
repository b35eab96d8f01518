"""The interface of every kind of group, for offsets, listing and deletion.

Role.   `Group` is implemented by classic groups, by KIP-848 groups and by `simple.SimpleGroup` (offsets without
        members). The shard hosts a kind of groups through `GroupPart`, with `GroupSettings` and `Topics` as its inputs.
Flow.   `shard.GroupShard` holds one `Groups` for a partition of __consumer_offsets and shares it with its parts; rows
        of a kind go to its part, which puts groups into `Groups.by_id` and takes them out.
Rules.  * Checks return an `ErrorCode`: NONE accepts the request.
        * A group that changes its kind replaces its entry in `by_id`; its offsets stay.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Never, Protocol, TypeAlias

from semel.core.coordination.outcome import LogRow, Origin, Outcome
from semel.core.wire.messages.describe_groups import DescribedGroup
from semel.errors import ErrorCode

GroupOutcome: TypeAlias = Outcome[Never]
"""Groups have no effects beside rows and replies."""


class GroupType(StrEnum):
    """The kinds of groups, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """The sender of a request, as groups remember it."""

    client_id: str
    client_host: str
    """As Kafka writes it: `/127.0.0.1`."""
    version: int
    """The request's API version."""


class CommitFrom(NamedTuple):
    """The sender of an offset commit, from the request."""

    member_id: str
    group_instance_id: str | None
    generation_or_epoch: int
    transactional: bool = False
    version: int = 0
    """Of OffsetCommit or TxnOffsetCommit."""


class OffsetExpiry(NamedTuple):
    """The time from which a group's offsets age."""

    since_ms: int | None
    """One time for all (when a classic group became empty); None: each from its own commit."""


class Group(Protocol):
    """One group, of any kind."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state(self) -> str:
        """The state in ListGroups: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead; Assigning,
        Reconciling."""

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups; empty for a group that never had members."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be removed after its offsets."""

    def check_commit(self, commit: CommitFrom) -> ErrorCode:
        """Whether these offsets may be stored.

        Classic: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS (never for
        transactions); a commit without member and generation only while the group is empty.
        KIP-848: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """

    def commit_heard(self, member_id: str, now_ms: int) -> None:
        """A member has committed: in a stable or preparing classic group that counts as a heartbeat."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether this member may read offsets (OffsetFetch 9+): UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""

    def check_delete_offsets(self) -> ErrorCode:
        """Whether offsets of unsubscribed topics may be deleted: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def check_delete(self) -> ErrorCode:
        """Whether the group may be deleted: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to this topic, as far as known."""

    def offset_expiry(self) -> OffsetExpiry | None:
        """How offsets of unsubscribed topics age; None: they do not age now.

        Classic with a protocol type: since it became empty, or, stable with known subscriptions, by commit.
        KIP-848: by commit.
        """

    def describe(self) -> DescribedGroup | None:
        """The entry of DescribeGroups, without authorized operations; None for a group that is not classic."""

    def tombstones(self) -> list[LogRow]:
        """The rows that remove the group, without its offsets. `GroupPart.apply` removes the group when it applies
        them."""


class Topic(Protocol):
    """The properties of a topic that groups use."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> uuid.UUID: ...

    @property
    def partitions(self) -> int: ...


class Topics(Protocol):
    """The current topics."""

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id (16 bytes)."""

    def is_gone(self, name: str) -> bool:
        """Whether there is no such topic; one that is not known yet may be there."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of groups, under Kafka's keys and with Kafka's defaults."""

    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10080 * 60_000
    """`offsets.retention.minutes`."""
    offsets_retention_check_interval_ms: int = 600_000
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_size: int = 2_147_483_647
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignment_interval_ms: int = 1000


@dataclass(slots=True)
class Groups:
    """State shared by the parts of a shard."""

    topics: Topics
    settings: GroupSettings = field(default_factory=GroupSettings)
    """Replaced when settings change while the broker runs."""
    by_id: dict[str, Group] = field(default_factory=dict)
    own_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Current settings of single groups, by group id, under Kafka's names."""

    def own_number(self, group_id: str, name: str, otherwise: int) -> int:
        """A numeric setting of one group: its own, or else `otherwise`."""
        value = self.own_settings.get(group_id, {}).get(name)
        return otherwise if value is None else int(value)


class GroupPart(Protocol):
    """One kind of groups inside a shard. The shard merges the outcomes of its parts."""

    def apply(self, row: LogRow, origin: Origin) -> None:
        """Take over a row of this kind; a tombstone removes its subject. Cannot fail."""

    def loaded(self, now_ms: int) -> GroupOutcome:
        """Every row has been applied: start the timers."""

    def next_deadline_ms(self) -> int | None:
        """When to call `due`."""

    def due(self, now_ms: int) -> GroupOutcome:
        """Do what the passing of time asks for."""
