"""A classic group: its members, its generation, its leader, and the checks on requests.

Role.   `ClassicGroup` is the state of one group, the classic kind of `group.Group`. It adds and removes members and
        checks requests; it sends nothing.
Flow.   `joining`, `coordinator` and `rebalance` change it; `take_over` loads a row. Offsets and the admin requests ask
        `check_*` and `describe`.
Rules.  * A group instance id belongs to one member.
        * All members share at least one protocol: a member that would break this is refused.
        * The leader is a member. The first to join leads; if it goes, the one that joined next.
        * A row is written for a generation that got its assignments, and for a group that became empty. So a group
          loaded from the log is Stable or Empty; an interrupted rebalance starts again when heartbeats fail.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.core.coordination.outcome import LogRow, Ticket
from semel.core.groups.classic.member import Member, MemberProtocol
from semel.core.groups.classic.protocols import CONSUMER_PROTOCOL_TYPE, select_protocol, subscribed_topics
from semel.core.groups.classic.states import MOVES, ClassicGroupState
from semel.core.groups.classic.timers import Timer, TimerKind, Timers
from semel.core.groups.group import CommitFrom, GroupType, OffsetExpiry
from semel.core.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue
from semel.core.wire.messages.join_group import JoinGroupResponseMember
from semel.errors import ErrorCode, InvariantError

ROW_VERSION: Final = 3
_NO_TIMESTAMP: Final = -1


@dataclass(slots=True)
class InitialDelay:
    """The delay in which a formerly empty group waits for more members."""

    delay_ms: int
    remaining_ms: int
    """The delay that may still follow this one."""
    extended: bool = False
    """Whether a member joined during this delay, which causes another one."""


@dataclass(slots=True)
class ClassicGroup:
    """One group."""

    group_id: str
    timers: Timers = field(repr=False, compare=False)
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation_id: int = 0
    protocol_type: str = ""
    """Empty before the first join."""
    protocol_name: str | None = None
    leader_id: str | None = None
    state_timestamp_ms: int | None = None
    """Time of the last change of state; unknown in rows of the oldest version."""
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Group instance id -> member id."""
    pending_joins: dict[str, None] = field(default_factory=dict)
    """Member ids that were given out and have not joined yet."""
    pending_syncs: dict[str, None] = field(default_factory=dict)
    """Members of this generation that have not sent SyncGroup yet."""
    initial_delay: InitialDelay | None = None
    subscribed_topics: frozenset[str] | None = None
    """Topics subscribed to in this generation; None if unknown."""
    awaiting_join: int = 0
    """Number of members waiting for the rebalance to end."""
    _knowing: Counter[str] = field(default_factory=Counter)
    """Number of members that know each protocol."""

    # Members

    def add(self, member: Member) -> None:
        """Add a member, which may already wait for the rebalance to end."""
        if member.group_instance_id is not None:
            if member.group_instance_id in self.static_members:
                raise InvariantError(f"{self.group_id}: {member.group_instance_id} is a member already")
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._knowing.update(member.protocol_names())
        self.awaiting_join += member.join_ticket is not None
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, or an id that was given out; the caller answers its waiting requests."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._knowing.subtract(member.protocol_names())
        self.awaiting_join -= member.join_ticket is not None
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def update(
        self,
        member: Member,
        protocols: tuple[MemberProtocol, ...],
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Update a member from its new JoinGroup."""
        self._knowing.subtract(member.protocol_names())
        member.protocols = protocols
        self._knowing.update(member.protocol_names())
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def start_waiting(self, member: Member, ticket: Ticket) -> None:
        """The member waits for the rebalance to end."""
        self.awaiting_join += member.join_ticket is None
        member.join_ticket = ticket

    def stop_waiting(self, member: Member) -> None:
        """The member's JoinGroup is answered."""
        self.awaiting_join -= member.join_ticket is not None
        member.join_ticket = None

    def all_joined(self) -> bool:
        """Whether every member has joined and every id that was given out has come."""
        return self.awaiting_join == len(self.members) and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def heard_from(self, member: Member, now_ms: int) -> None:
        """Restart the member's session."""
        timer = Timer(TimerKind.SESSION, self.group_id, member.member_id)
        self.timers.set(timer, now_ms + member.session_timeout_ms)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether the member exists and holds the instance id."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols fits into the group."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(
            self._knowing[name] == len(self.members) for name in names
        )

    def next_protocol(self) -> str:
        """The protocol the next generation of these members would choose."""
        candidates = {name for name, count in self._knowing.items() if count == len(self.members)}
        return select_protocol(self.members.values(), candidates)

    def update_subscribed_topics(self) -> None:
        """Read the members' topics, in a group of consumers."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (self.members and self.protocol_name is None):
            self.subscribed_topics = None
        else:
            name = self.protocol_name or ""
            self.subscribed_topics = subscribed_topics(
                member.metadata(name) for member in self.members.values()
            )

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """The members as listed in the leader's JoinGroup response."""
        name = self.protocol_name or ""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(name),
            )
            for member in self.members.values()
        ]

    # States

    def move_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Change the state, if that is a legal move."""
        self.check_move(state)
        self.state = state
        self.state_timestamp_ms = now_ms

    def check_move(self, state: ClassicGroupState) -> None:
        if state not in MOVES[self.state]:
            raise InvariantError(f"group {self.group_id}: {self.state} -> {state} in {self.generation_id}")

    def elect_leader(self) -> bool:
        """Elect a leader among the joined members; whether there is one. The current leader stays if it has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    # Rows

    def as_row(
        self, assignments: Mapping[str, bytes], now_ms: int, *, generation_id: int | None = None
    ) -> LogRow:
        """The group's row with these assignments."""
        name = self.protocol_name if self.members else None
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation_id if generation_id is None else generation_id,
            protocol=name,
            leader=self.leader_id if self.members else None,
            current_state_timestamp=now_ms,
            members=[
                member.as_row(name or "", assignments.get(member.member_id, b""))
                for member in self.members.values()
            ],
        )
        return LogRow(GroupMetadataKey(group=self.group_id), value, ROW_VERSION)

    def created_row(self, now_ms: int) -> LogRow:
        """The row of a new group without members."""
        value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=now_ms)
        return LogRow(GroupMetadataKey(group=self.group_id), value, ROW_VERSION)

    def take_over(self, value: GroupMetadataValue) -> None:
        """Load a row. A waiting join of a new group is in no row, and stays."""
        if self.awaiting_join:
            return
        known = self.members
        protocol_name = value.protocol or ""
        self.members, self.static_members, self._knowing = {}, {}, Counter()
        self.leader_id = value.leader if any(row.member_id == value.leader for row in value.members) else None
        for row in value.members:
            self.add(Member.of_row(row, protocol_name, known.get(row.member_id)))
        self.pending_syncs = {one: None for one in self.pending_syncs if one in self.members}
        self.generation_id = value.generation
        self.protocol_type = value.protocol_type
        self.protocol_name = value.protocol
        timestamp_ms = value.current_state_timestamp
        self.state_timestamp_ms = None if timestamp_ms == _NO_TIMESTAMP else timestamp_ms
        self.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        self.update_subscribed_topics()

    # Queries of offsets and admin requests

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def is_empty(self) -> bool:
        """A pending member id counts as a member, so that the group is not deleted before it joins."""
        return self.state is ClassicGroupState.EMPTY and not self.pending_joins

    def check_commit(self, commit: CommitFrom) -> ErrorCode:
        """Whether these offsets may be stored. A commit without a generation is from a client that assigns its
        partitions itself."""
        generation_id = commit.generation_or_epoch
        if generation_id < 0 and self.state is ClassicGroupState.EMPTY:
            return ErrorCode.NONE
        if generation_id >= 0 or commit.member_id or commit.group_instance_id is not None:
            refused = self.check_member(commit.member_id, commit.group_instance_id)
            if refused:
                return refused
            if generation_id != self.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif not commit.transactional and self.state is not ClassicGroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not commit.transactional and self.state is ClassicGroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS  # The member has not received its new assignment yet.
        return ErrorCode.NONE

    def commit_heard(self, member_id: str, now_ms: int) -> None:
        """A commit extends the session: old clients relied on that."""
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
            member = self.members.get(member_id)
            if member is not None:
                self.heard_from(member, now_ms)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002  # Open to all.
        return ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        """A group of consumers may lose offsets of unsubscribed topics; the topics of other groups are unknown."""
        if self.state is ClassicGroupState.EMPTY or self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.state is ClassicGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; True if the consumers' topics are unknown."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def offset_expiry(self) -> OffsetExpiry | None:
        if not self.protocol_type:
            return OffsetExpiry(since_ms=None)
        if self.state is ClassicGroupState.EMPTY:
            return OffsetExpiry(since_ms=self.state_timestamp_ms)
        if self.state is ClassicGroupState.STABLE and self.subscribed_topics is not None:
            return OffsetExpiry(since_ms=None)
        return None

    def describe(self) -> DescribedGroup | None:
        """Subscriptions are shown only in Stable, when a protocol is chosen."""
        name = self.protocol_name if self.state is ClassicGroupState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type,
            protocol_data=name or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if name is None else member.metadata(name),
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    def tombstones(self) -> list[LogRow]:
        return [LogRow(GroupMetadataKey(group=self.group_id), None)]
