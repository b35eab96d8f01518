"""What every kind of group has in common: what offsets, listing and deletion need to know of one.

Role.   `Group` is implemented by classic groups, by KIP-848 groups and by `simple.SimpleGroup` (offsets without members).
        `GroupPart` is what the shard calls to host a kind of groups; `GroupSettings` and `Topics` are what it hands in.
Flow.   `shard.GroupShard` holds one `Groups` for a partition of __consumer_offsets and shares it with its parts; rows
        of a kind go to its part, which puts groups into `Groups.by_id` and takes them out.
Rules.  * Answers are `ErrorCode`s: NONE lets the request go on.
        * A group that turns from one kind into another replaces its entry in `by_id`; its offsets stay.
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
    """Who sent a request: what a group remembers of its members."""

    client_id: str
    client_host: str
    """As Kafka writes it: `/127.0.0.1`."""
    version: int
    """Of the API that was called."""


class CommitFrom(NamedTuple):
    """Who commits offsets, as the request says."""

    member_id: str
    group_instance_id: str | None
    generation_or_epoch: int
    transactional: bool = False
    version: int = 0
    """Of OffsetCommit or TxnOffsetCommit."""


class OffsetExpiry(NamedTuple):
    """From when a group's offsets grow old."""

    since_ms: int | None
    """The same moment for all (a classic group became empty); None: each from its own commit."""


class Group(Protocol):
    """One group, of any kind."""

    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state(self) -> str:
        """As Kafka names it in ListGroups: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead; Assigning,
        Reconciling."""

    @property
    def protocol_type(self) -> str:
        """As ListGroups tells it; empty for a group that never had members."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may go once its offsets have."""

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
        """Whether offsets of topics it does not read may be deleted: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def check_delete(self) -> ErrorCode:
        """Whether the group may be deleted: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic, as far as the group knows."""

    def offset_expiry(self) -> OffsetExpiry | None:
        """How the offsets of topics it is not subscribed to grow old; None: not now.

        Classic with a protocol type: since it became empty, or, stable with known subscriptions, by commit.
        KIP-848: by commit.
        """

    def describe(self) -> DescribedGroup | None:
        """As DescribeGroups tells it, but for authorized operations; None for a group that is not classic."""

    def tombstones(self) -> list[LogRow]:
        """The rows that remove the group, beside its offsets. `GroupPart.apply` takes it out when they come by."""


class Topic(Protocol):
    """What a group may know of a topic."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> uuid.UUID: ...

    @property
    def partitions(self) -> int: ...


class Topics(Protocol):
    """The topics there are, as of now."""

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """By the sixteen bytes the wire carries."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What governs groups, under Kafka's keys. The defaults are Kafka's."""

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
    """What the parts of a shard share."""

    topics: Topics
    settings: GroupSettings = field(default_factory=GroupSettings)
    """Replaced when settings change while the broker runs."""
    by_id: dict[str, Group] = field(default_factory=dict)
    own_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What was set for single groups, by their ids, under Kafka's names; as of now."""

    def own_number(self, group_id: str, name: str, otherwise: int) -> int:
        """A number that governs one group: its own, or else this one."""
        value = self.own_settings.get(group_id, {}).get(name)
        return otherwise if value is None else int(value)


class GroupPart(Protocol):
    """One kind of groups, inside a shard. The shard merges what its parts answer."""

    def apply(self, row: LogRow, origin: Origin) -> None:
        """Take over a row of this kind; without a value, forget what it was about. Cannot fail."""

    def loaded(self, now_ms: int) -> GroupOutcome:
        """Every row has been applied: begin to count time."""

    def next_deadline_ms(self) -> int | None:
        """When to call `due`."""

    def due(self, now_ms: int) -> GroupOutcome:
        """Do what the passing of time asks for."""
