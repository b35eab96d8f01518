"""One partition of __consumer_offsets: its groups and their offsets.

Role.   The host loads, calls and times `GroupShard`. The shard routes rows to the kinds of groups and itself handles
        offsets and groups of any kind: commit, fetch, delete, list, describe.
Flow.   handler -> host.ask -> an operation here, or of `classic` / `consumer` -> Outcome -> rows come back by `apply`.
Rules.  * Operations read the applied state and change nothing themselves.
        * A group with offsets is in `groups`: without members, as a `SimpleGroup`.
Elsewhere. Decisions about commits and fetches: `committing`, `fetching`. Expiry: `sweep`.
"""

from collections.abc import Iterable
from typing import Final

from semel.core.coordination.outcome import LogRow, Origin, Ticket
from semel.core.groups import committing, fetching
from semel.core.groups.classic.coordinator import ClassicCoordinator
from semel.core.groups.consumer.coordinator import CONSUMER_GROUP_KEYS, ConsumerCoordinator
from semel.core.groups.group import Caller, GroupOutcome, GroupPart, Groups, GroupType
from semel.core.groups.offsets import Offsets
from semel.core.groups.rows import offset_tombstone
from semel.core.groups.simple import SimpleGroup
from semel.core.groups.sweep import Sweep
from semel.core.wire.message import Row
from semel.core.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from semel.core.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from semel.core.wire.messages.group_rows import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.leave_group import LeaveGroupRequest
from semel.core.wire.messages.list_groups import ListedGroup
from semel.core.wire.messages.offset_commit import OffsetCommitRequest
from semel.core.wire.messages.offset_delete import OffsetDeleteRequest
from semel.core.wire.messages.offset_fetch import OffsetFetchRequestGroup
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from semel.errors import ErrorCode, InvariantError

_DEAD: Final = "Dead"
_NOT_FOUND_IS_AN_ERROR_SINCE: Final = 6


class GroupShard:
    """Groups and offsets of one partition. Implements `core.coordination.outcome.Shard`."""

    def __init__(self, groups: Groups) -> None:
        self.shared = groups
        self.groups = groups.by_id
        self.offsets = Offsets()
        self._sweep = Sweep(groups, self.offsets)
        self._parts: list[GroupPart] = []
        self._routes: dict[type[Row], GroupPart] = {}
        self.classic = ClassicCoordinator(groups)
        self.host_part(self.classic, [GroupMetadataKey])
        self.consumer = ConsumerCoordinator(groups, self.classic)
        self.host_part(self.consumer, CONSUMER_GROUP_KEYS)

    def host_part(self, part: GroupPart, keys: Iterable[type[Row]]) -> None:
        """Route rows with these keys to a kind of groups."""
        self._parts.append(part)
        self._routes.update(dict.fromkeys(keys, part))

    # The shard as its host sees it

    def apply(self, row: LogRow, origin: Origin) -> None:
        key = row.key
        if isinstance(key, OffsetCommitKey):
            if row.value is not None and not isinstance(row.value, OffsetCommitValue):
                raise InvariantError(f"a commit's row has the value {row.value}")
            self.offsets.apply(key, row.value, origin)
            if row.value is not None and key.group not in self.groups:
                self.groups[key.group] = SimpleGroup(key.group)
            return
        if (
            row.value is None
            and isinstance(key, GroupMetadataKey)
            and isinstance(self.groups.get(key.group), SimpleGroup)
        ):
            del self.groups[key.group]
            return
        part = self._routes.get(type(key))
        if part is None:
            raise InvariantError(f"a row with the key {key} is of no kind this shard has")
        part.apply(row, origin)

    def apply_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:  # noqa: ARG002  # Log-checked.
        self.offsets.apply_marker(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> GroupOutcome:
        for group_id in self.offsets.group_ids:
            if group_id not in self.groups:
                self.groups[group_id] = SimpleGroup(group_id)
        self._sweep.begin(now_ms)  # Topics may have been deleted meanwhile.
        return _merged(part.loaded(now_ms) for part in self._parts)

    def next_deadline_ms(self) -> int | None:
        deadlines = [part.next_deadline_ms() for part in self._parts]
        deadlines.append(self._sweep.next_deadline_ms())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def due(self, now_ms: int) -> GroupOutcome:
        outcome = _merged(part.due(now_ms) for part in self._parts)
        if outcome.rows or outcome.replies:
            return outcome  # The sweep can wait for the next call.
        return GroupOutcome(rows=self._sweep.due(now_ms), rows_only=True)

    def topics_gone(self, now_ms: int) -> None:
        """Topics were deleted: remove their offsets."""
        self._sweep.begin(now_ms)

    # Members of either protocol

    def join(
        self, request: JoinGroupRequest, ticket: Ticket, caller: Caller, now_ms: int, *, unique: str
    ) -> GroupOutcome:
        """JoinGroup: to a classic group, or to one of KIP-848 that has members. An empty one becomes classic."""
        group = self.consumer.group(request.group_id)
        if group is None:
            return self.classic.join(request, ticket, caller, now_ms, unique=unique)
        if not group.is_empty:
            members = self.consumer.classic_members
            return members.join(group, request, ticket, caller, now_ms, new_member_id=unique)
        del self.groups[request.group_id]
        outcome = self.classic.join(request, ticket, caller, now_ms, unique=unique)
        if request.group_id in self.groups:
            outcome.rows = group.tombstones() + outcome.rows
        else:  # It was refused.
            self.groups[request.group_id] = group
        return outcome

    def sync(self, request: SyncGroupRequest, ticket: Ticket, caller: Caller, now_ms: int) -> GroupOutcome:
        """SyncGroup."""
        group = self.consumer.group(request.group_id)
        if group is None or group.is_empty:
            return self.classic.sync(request, ticket, caller, now_ms)
        return self.consumer.classic_members.sync(group, request, ticket, now_ms)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> GroupOutcome:
        """Heartbeat."""
        group = self.consumer.group(request.group_id)
        if group is None:
            return self.classic.heartbeat(request, ticket, now_ms)
        return self.consumer.classic_members.heartbeat(group, request, ticket, now_ms)

    def leave(self, request: LeaveGroupRequest, ticket: Ticket, caller: Caller, now_ms: int) -> GroupOutcome:
        """LeaveGroup."""
        group = self.consumer.group(request.group_id)
        if group is None:
            return self.classic.leave(request, ticket, caller, now_ms)
        return self.consumer.classic_members.leave(group, request, ticket, caller, now_ms)

    # Offsets

    def commit(self, request: OffsetCommitRequest, version: int, ticket: Ticket, now_ms: int) -> GroupOutcome:
        """OffsetCommit."""
        return committing.commit(self.shared, request, version, ticket, now_ms)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, ticket: Ticket, now_ms: int
    ) -> GroupOutcome:
        """TxnOffsetCommit, after the transaction was verified to be open and to include this group."""
        return committing.commit_in_transaction(self.shared, request, version, ticket, now_ms)

    def fetch(
        self, asked: OffsetFetchRequestGroup, ticket: Ticket, *, require_stable: bool, by_id: bool
    ) -> GroupOutcome:
        """OffsetFetch for one group."""
        answer = fetching.fetch(self.shared, self.offsets, asked, require_stable=require_stable, by_id=by_id)
        return GroupOutcome(replies=[(ticket, answer)], rows_only=True)

    def delete_offsets(self, request: OffsetDeleteRequest, ticket: Ticket) -> GroupOutcome:
        """OffsetDelete."""
        return committing.delete_offsets(self.shared, self.offsets, request, ticket)

    # Groups of any kind

    def delete_group(self, group_id: str, ticket: Ticket) -> GroupOutcome:
        """DeleteGroups for one group: it goes with all of its offsets, those of open transactions included."""
        group = self.groups.get(group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
        result = DeletableGroupResult(group_id=group_id, error_code=code)
        outcome = GroupOutcome(replies=[(ticket, DeleteGroupsResponse(results=[result]))], rows_only=True)
        if group is not None and not code:
            places = [
                (topic, partition)
                for topic, partitions in self.offsets.of_group(group_id).items()
                for partition in partitions
            ]
            places += self.offsets.pending(group_id)
            outcome.rows = [offset_tombstone(group_id, *place) for place in dict.fromkeys(places)]
            outcome.rows += group.tombstones()
        return outcome

    def describe(self, group_id: str, version: int, ticket: Ticket) -> GroupOutcome:
        """DescribeGroups for one group."""
        group = self.groups.get(group_id)
        found = None if group is None else group.describe()
        if found is None:
            found = DescribedGroup(group_id=group_id, group_state=_DEAD)
            if version >= _NOT_FOUND_IS_AN_ERROR_SINCE:
                found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                found.error_message = (
                    f"Group {group_id} not found."
                    if group is None
                    else f"Group {group_id} is not a classic group."
                )
        return GroupOutcome(replies=[(ticket, DescribeGroupsResponse(groups=[found]))], rows_only=True)

    def listed(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        """ListGroups: groups in one of these states and of one of these types; an empty filter matches all."""
        states_wanted = {state.lower() for state in states}
        types_wanted = {name.lower() for name in types}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=_TYPE_NAMES[group.type],
            )
            for group in self.groups.values()
            if (not states_wanted or group.state.lower() in states_wanted)
            and (not types_wanted or group.type in types_wanted)
        ]


_TYPE_NAMES: Final = {GroupType.CLASSIC: "classic", GroupType.CONSUMER: "consumer"}


def _merged(outcomes: Iterable[GroupOutcome]) -> GroupOutcome:
    merged = GroupOutcome()
    for outcome in outcomes:
        merged.rows += outcome.rows
        merged.replies += outcome.replies
    return merged
