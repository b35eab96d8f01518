"""Rebalances: a group moves from one generation to the next, driven by members and timers.

Role.   `Rebalance` begins a rebalance, ends it, and handles the timers.
Flow.   `joining`, `syncing` and `leaving` change who is in a group and then call `prepare_or_complete` or
        `complete_if_all_joined`. `coordinator.due` calls `session_due`, `join_due` and `sync_due`.

        Empty ──prepare──▶ PreparingRebalance ──complete_join──▶ CompletingRebalance ──(a row)──▶ Stable
          ▲                   │     ▲                                  │                            │
          └──────(a row)──────┘     └─────────────prepare──────────────┴────────────────────────────┘

Rules.  * A formerly empty group waits for `group.initial.rebalance.delay.ms`, again while members keep joining, and at
          most for their longest rebalance timeout.
        * Any other rebalance ends when every member has joined again and every id that was given out has come, or after
          the rebalance timeout. A member that has not joined by then is removed; a static one keeps its place until its
          session ends.
        * A member that does not send SyncGroup within the rebalance timeout is removed.
        * A removed member's waiting requests are answered.
        * An operation writes one row of a group at most; moving to Stable and Empty is left to `take_over`.
"""

from dataclasses import dataclass, field

from semel.core.coordination.outcome import Outcome, Ticket
from semel.core.groups.classic import replies
from semel.core.groups.classic.group import ClassicGroup, InitialDelay
from semel.core.groups.classic.states import MOVES, ClassicGroupState
from semel.core.groups.classic.timers import Timer, TimerKind, Timers
from semel.core.groups.group import GroupOutcome, Groups
from semel.core.wire.message import Response
from semel.errors import ErrorCode


@dataclass(slots=True)
class Turn:
    """One operation in progress."""

    now_ms: int
    outcome: GroupOutcome = field(default_factory=Outcome)

    def reply(self, ticket: Ticket, response: Response) -> None:
        self.outcome.replies.append((ticket, response))


class Rebalance:
    """Generations and their timers, for all groups of a shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.timers: Timers = Timers()

    @property
    def group_max_size(self) -> int:
        return self._groups.settings.group_max_size

    # Removing members

    def dismiss(
        self, group: ClassicGroup, member_id: str, turn: Turn, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    ) -> None:
        """Remove a member or a pending id, and answer its waiting requests."""
        self.timers.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))
        member = group.remove(member_id)
        if member is not None:
            if member.join_ticket is not None:
                # A member that is not fenced may rejoin with a new id.
                said = member_id if code is ErrorCode.FENCED_INSTANCE_ID else ""
                turn.reply(member.join_ticket, replies.join_refused(code, said))
            if member.sync_ticket is not None:
                turn.reply(member.sync_ticket, replies.sync_refused(code))

    def forget(self, group: ClassicGroup) -> None:
        """Stop every timer of a deleted group."""
        for member_id in (*group.members, *group.pending_joins):
            self.timers.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))
        self.timers.cancel(Timer(TimerKind.JOIN, group.group_id))
        self.timers.cancel(Timer(TimerKind.SYNC, group.group_id))

    # From one generation to the next

    def prepare_or_complete(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin a rebalance; if one is running, complete it once all members have joined."""
        if ClassicGroupState.PREPARING_REBALANCE in MOVES[group.state]:
            self.prepare(group, turn)
        else:
            self.complete_if_all_joined(group, turn)

    def prepare(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin a rebalance: all members must rejoin."""
        self._send_away_syncs(group, turn)
        group.pending_syncs.clear()
        self.timers.cancel(Timer(TimerKind.SYNC, group.group_id))
        initial = group.state is ClassicGroupState.EMPTY
        group.move_to(ClassicGroupState.PREPARING_REBALANCE, turn.now_ms)
        if initial:
            delay_ms = self._groups.settings.group_initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
            self._join_within(group, delay_ms, turn)
        elif group.all_joined():
            self.complete_join(group, turn)
        else:
            self._join_within(group, group.rebalance_timeout_ms(), turn)

    def complete_if_all_joined(self, group: ClassicGroup, turn: Turn) -> None:
        """Complete the rebalance if all members have joined; a formerly empty group waits for its delay."""
        if (
            group.state is ClassicGroupState.PREPARING_REBALANCE
            and group.initial_delay is None
            and group.all_joined()
        ):
            self.complete_join(group, turn)

    def complete_join(self, group: ClassicGroup, turn: Turn) -> None:
        """Complete the rebalance with the members that have joined."""
        self.timers.cancel(Timer(TimerKind.JOIN, group.group_id))
        absent = [member for member in group.members.values() if member.join_ticket is None]
        for member in absent:
            if not member.is_static:
                self.dismiss(group, member.member_id, turn)
        if not group.members:
            group.check_move(ClassicGroupState.EMPTY)
            group.initial_delay = None
            turn.outcome.rows.append(group.as_row({}, turn.now_ms, generation_id=group.generation_id + 1))
        elif group.elect_leader():
            self._begin_generation(group, turn)
        else:  # Only static members, and none has joined: wait for their sessions to end.
            self._join_within(group, group.rebalance_timeout_ms(), turn)

    def _begin_generation(self, group: ClassicGroup, turn: Turn) -> None:
        group.initial_delay = None
        group.generation_id += 1
        group.protocol_name = group.next_protocol()
        group.update_subscribed_topics()
        group.move_to(ClassicGroupState.COMPLETING_REBALANCE, turn.now_ms)
        for member in group.members.values():
            if member.join_ticket is not None:
                leads = member.member_id == group.leader_id
                turn.reply(member.join_ticket, replies.joined(group, member.member_id, lists_members=leads))
            group.stop_waiting(member)
            member.is_new = False
            group.heard_from(member, turn.now_ms)
        group.pending_syncs = dict.fromkeys(group.members)
        self.timers.set(Timer(TimerKind.SYNC, group.group_id), turn.now_ms + group.rebalance_timeout_ms())

    def _send_away_syncs(self, group: ClassicGroup, turn: Turn) -> None:
        """The generation ends before its leader has sent assignments."""
        if group.state is not ClassicGroupState.COMPLETING_REBALANCE:
            return
        for member in group.members.values():
            member.assignment = b""
            if member.sync_ticket is not None:
                turn.reply(member.sync_ticket, replies.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
                member.sync_ticket = None
                group.heard_from(member, turn.now_ms)

    def _join_within(self, group: ClassicGroup, timeout_ms: int, turn: Turn) -> None:
        self.timers.set(Timer(TimerKind.JOIN, group.group_id), turn.now_ms + timeout_ms)

    # Timers

    def session_due(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """A member's session ended, or a pending id never joined."""
        member = group.members.get(member_id)
        if member is None:
            if member_id not in group.pending_joins:
                return
        elif member.needs_no_heartbeat:
            return  # Its session restarts with its answer.
        self.dismiss(group, member_id, turn)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            if group.all_joined():
                self.complete_join(group, turn)
        elif member is not None:
            self.prepare(group, turn)

    def join_due(self, group: ClassicGroup, turn: Turn) -> None:
        """The time to join is over; a formerly empty group may get another delay."""
        delay = group.initial_delay
        if delay is None or not delay.extended or delay.remaining_ms == 0:
            self.complete_join(group, turn)
            return
        next_ms = min(self._groups.settings.group_initial_rebalance_delay_ms, delay.remaining_ms)
        group.initial_delay = InitialDelay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0))
        self._join_within(group, next_ms, turn)

    def sync_due(self, group: ClassicGroup, turn: Turn) -> None:
        """The time to sync is over: remove members that did not."""
        late = list(group.pending_syncs)
        for member_id in late:
            self.dismiss(group, member_id, turn)
        if late:
            self.prepare(group, turn)
