"""A member of a classic group, seen from the client: it joins, learns what it owns, stays alive, leaves.

Role.   `Member` is the client's end of JoinGroup, SyncGroup, Heartbeat and LeaveGroup. It does no I/O and has no clock:
        every method takes an event and the time, and returns the shell's instructions, in order.
Flow.   `subscribe`, `polled` -> FindCoordinator -> JoinGroup -> the leader: LookAtTopics, an assignor -> SyncGroup ->
        Own. Heartbeats by `due`. An error or a lost answer may send the member back to JoinGroup.
Rules.  * It joins with the first poll, and leaves when the user does not poll for `max.poll.interval.ms`.
        * Eager: everything owned is revoked before it joins. Cooperative: only what it must give up, after the assignment;
          then it joins once more, so that others get it.
        * A partition is owned from `Own` to the `Revoke` or `Lose` that names it. If no heartbeat is answered for a
          session, counted from the sending of the last answered one, the member gives all partitions up as lost:
          another member may own them. No session runs during JoinGroup, on either side.
        * One joining or leaving request and one heartbeat are in flight at a time; an answer to any other request is
          stale and ignored.
        * It claims its partitions with the generation in which it got them, not with a later one.
Elsewhere. The leader's decisions: `leadership`. Offsets are committed by the shell, with `identity`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from semel.core.groups.assignors import ASSIGNORS
from semel.core.groups.assignors import members as assigning
from semel.core.groups.assignors.protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    encode_subscription,
)
from semel.core.groups.coordinator_search import CoordinatorSearch
from semel.core.groups.leadership import Leadership
from semel.core.groups.member_words import (
    MOVES,
    NO_GENERATION,
    NO_MEMBER_ID,
    Fail,
    FindCoordinator,
    GroupRequest,
    GroupResponse,
    Identity,
    Instruction,
    LookAtTopics,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
    Send,
    code_of,
)
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from semel.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.core.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from semel.errors import ConfigError, ErrorCode, InvariantError, WireError
from semel.types import TopicPartition

_JOIN_LAPSE_MS: Final = (
    5_000  # JoinGroup may be answered as late as the end of the rebalance; the margin is Java's.
)
_ALIVE: Final = frozenset({Phase.DECIDING, Phase.SYNCING, Phase.STABLE, Phase.REVOKING})
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_WAIT: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS})
_THROWN_OUT: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class Member:
    """One member."""

    def __init__(self, config: MemberConfig) -> None:
        unknown = [name for name in config.partition_assignment_strategy if name not in ASSIGNORS]
        if unknown or not config.partition_assignment_strategy:
            raise ConfigError(
                f"partition.assignment.strategy={','.join(config.partition_assignment_strategy)}: "
                f"use {', '.join(sorted(ASSIGNORS))}"
            )
        self.config = config
        self.phase = Phase.OUT
        self.topics: tuple[str, ...] = ()
        self.member_id = NO_MEMBER_ID
        self.generation_id = NO_GENERATION
        self.owned: tuple[TopicPartition, ...] = ()
        self.is_cooperative = all(
            ASSIGNORS[name].is_cooperative for name in config.partition_assignment_strategy
        )
        self._owned_generation = NO_GENERATION
        self._remembered: tuple[TopicPartition, ...] = ()
        self._joined_topics: tuple[str, ...] = ()
        self._must_rejoin = False
        self._is_leaving = False
        self._protocol = ""
        self._leadership = Leadership()
        self._search = CoordinatorSearch()
        self._pending: GroupRequest | None = None
        self._joining_since_ms = 0
        self._heartbeat: HeartbeatRequest | None = None
        self._heartbeat_ms = 0
        self._heard_ms = 0
        self._polled_ms = 0
        self._assigned: tuple[TopicPartition, ...] = ()
        self._after_revoking: Callable[[int], list[Instruction]] | None = None

    @property
    def identity(self) -> Identity:
        """The member's identity in commits; without a generation the coordinator would refuse them."""
        return Identity(
            self.config.group_id, self.generation_id, self.member_id, self.config.group_instance_id
        )

    @property
    def group_topics(self) -> tuple[str, ...]:
        """The group's topics, if this member leads it: the ones to watch."""
        return self._leadership.topics

    # The user's calls

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics from the next poll on."""
        self.topics = tuple(sorted(set(topics)))

    def polled(self, now_ms: int) -> list[Instruction]:
        """The user asked for records: it is alive, and wants to be in the group."""
        self._polled_ms = now_ms
        if self.phase is Phase.OUT and self.topics:
            self._to(Phase.UNJOINED)
            self._is_leaving = False
            self._search.resume()
        elif self.phase is Phase.STABLE and self._joined_topics != self.topics:
            self._must_rejoin = True
        return self._advance(now_ms)

    def rejoin(self, now_ms: int) -> list[Instruction]:
        """The user asks for a rebalance."""
        if self.phase is Phase.STABLE:
            self._must_rejoin = True
        return self._advance(now_ms)

    def leave(self, now_ms: int) -> list[Instruction]:
        """The user is done."""
        if self.phase in (Phase.OUT, Phase.LEAVING, Phase.FAILED):
            return []
        self._pending = None
        self._is_leaving = True
        if self.phase is Phase.REVOKING:
            return []  # `revoked` continues.
        return self._revoke(self.owned, self._go) if self.owned else self._go(now_ms)

    # The shell's reports

    def coordinator_found(self, now_ms: int) -> list[Instruction]:
        """Requests can be sent."""
        self._search.found()
        return self._advance(now_ms)

    def coordinator_lost(self, now_ms: int) -> list[Instruction]:
        """The coordinator cannot be found or reached now: retry after the backoff."""
        self._search.lost()
        self._search.pause(now_ms + self.config.retry_backoff_ms)
        return []

    def revoked(self, now_ms: int) -> list[Instruction]:
        """The user has released the partitions of `Revoke`."""
        if self.phase is not Phase.REVOKING or self._after_revoking is None:
            return []  # The partitions were lost in the meantime.
        return self._after_revoking(now_ms)

    def topics_known(self, topics: assigning.Topics, now_ms: int) -> list[Instruction]:
        """The topics of `LookAtTopics`, or a later change of them. A missing topic is listed without partitions."""
        if not self._leadership.asked_for(topics):
            return []  # This answers a request of an earlier generation.
        have_changed = self._leadership.have_changed(topics)
        if self.phase is Phase.DECIDING:
            return self._sync(self._leadership.divide(self._protocol, topics))
        if self.phase is Phase.STABLE and have_changed:
            self._must_rejoin = True
        return self._advance(now_ms)

    def answered(self, request: GroupRequest, response: GroupResponse, now_ms: int) -> list[Instruction]:
        """The coordinator answered."""
        if request is self._heartbeat:
            self._heartbeat = None
            return self._beaten(code_of(response), now_ms)
        if request is not self._pending:
            return []
        self._pending = None
        match response:
            case JoinGroupResponse():
                return self._joined(response, now_ms)
            case SyncGroupResponse():
                return self._synced(response, now_ms)
            case _:
                self._to(Phase.OUT)  # The member has left; if the request was lost, its session will end.
                return []

    def unanswered(self, request: GroupRequest, now_ms: int) -> list[Instruction]:
        """No answer came, or the request could not be sent."""
        if request is self._heartbeat:
            self._heartbeat = None
        elif request is self._pending:
            self._pending = None
            if self.phase is Phase.LEAVING:
                self._to(Phase.OUT)
                return []
            self._to(Phase.UNJOINED)
        else:
            return []
        return self.coordinator_lost(now_ms)

    def committed(self, code: ErrorCode, now_ms: int) -> list[Instruction]:
        """The error code of a commit by this member, handled like a heartbeat's."""
        return self._beaten(code, now_ms) if code and self.phase in _ALIVE else []

    def next_deadline_ms(self) -> int | None:
        """When to call `due`."""
        if self.phase in (Phase.OUT, Phase.LEAVING, Phase.FAILED):
            return None
        deadlines = [self._polled_ms + self.config.max_poll_interval_ms]
        if self._search.retry_at_ms is not None:
            deadlines.append(self._search.retry_at_ms)
        if self._has_session:
            deadlines.append(self._heard_ms + self.config.session_timeout_ms)
            if self.phase in _ALIVE and self._heartbeat is None and self._search.is_found:
                deadlines.append(self._heartbeat_ms + self.config.heartbeat_interval_ms)
        return min(deadlines)

    @property
    def _has_session(self) -> bool:
        """Whether the coordinator runs a session for this member; not while it joins."""
        return self.generation_id != NO_GENERATION and (self.phase in _ALIVE or self.phase is Phase.UNJOINED)

    def due(self, now_ms: int) -> list[Instruction]:
        """Do what the passing of time asks for. May be called early or late."""
        if self.phase in (Phase.OUT, Phase.LEAVING, Phase.FAILED):
            return []
        if now_ms >= self._polled_ms + self.config.max_poll_interval_ms:
            return self._go(now_ms)
        if self._has_session and now_ms >= self._heard_ms + self.config.session_timeout_ms:
            self._search.is_found = False
            return self._start_again(now_ms, forget_member_id=False)
        self._search.due(now_ms)
        if (
            self.phase in _ALIVE
            and self.generation_id != NO_GENERATION
            and self._search.is_found
            and self._heartbeat is None
            and now_ms >= self._heartbeat_ms + self.config.heartbeat_interval_ms
        ):
            self._heartbeat_ms = now_ms
            self._heartbeat = HeartbeatRequest(
                group_id=self.config.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                group_instance_id=self.config.group_instance_id,
            )
            return [Send(self._heartbeat), *self._advance(now_ms)]
        return self._advance(now_ms)

    # Going on

    def _advance(self, now_ms: int) -> list[Instruction]:
        """The next instructions towards joining and owning partitions."""
        if self.phase in (Phase.OUT, Phase.LEAVING, Phase.FAILED) or self._search.retry_at_ms is not None:
            return []
        if not self._search.is_found:
            return [FindCoordinator()] if self._search.begin() else []
        if self.phase is Phase.STABLE and self._must_rejoin:
            self._to(Phase.UNJOINED)
        if self.phase is not Phase.UNJOINED:
            return []
        if self.owned and not self.is_cooperative:
            return self._revoke(self.owned, self._join)
        return self._join(now_ms)

    def _revoke(
        self, partitions: tuple[TopicPartition, ...], then: Callable[[int], list[Instruction]]
    ) -> list[Instruction]:
        """Have the user release these partitions, then continue."""
        self._to(Phase.REVOKING)

        def go_on(now_ms: int) -> list[Instruction]:
            self._after_revoking = None
            self.owned = tuple(one for one in self.owned if one not in partitions)
            if not self._is_leaving:
                return then(now_ms)
            return self._revoke(self.owned, self._go) if self.owned else self._go(now_ms)

        self._after_revoking = go_on
        return [Revoke(partitions)]

    def _join(self, now_ms: int) -> list[Instruction]:
        if not self._search.is_found:  # The coordinator was lost during the revocation.
            self._to(Phase.UNJOINED)
            return self._advance(now_ms)
        self._to(Phase.JOINING)
        self._must_rejoin = False
        self._joining_since_ms = now_ms
        self._joined_topics = self.topics
        self._leadership.end()
        config = self.config
        request = JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=encode_subscription(self._subscription(name)))
                for name in config.partition_assignment_strategy
            ],
        )
        return self._send(request, wait_ms=config.max_poll_interval_ms + _JOIN_LAPSE_MS)

    def _subscription(self, assignor: str) -> assigning.Member:
        generation = self._owned_generation
        return assigning.Member(
            member_id=self.member_id,
            topics=self.topics,
            owned_partitions=self.owned,
            generation_id=generation if generation != NO_GENERATION else None,
            rack_id=self.config.client_rack,
            user_data=ASSIGNORS[assignor].user_data(self._remembered, generation),
        )

    def _send(self, request: GroupRequest, wait_ms: int = 0) -> list[Instruction]:
        self._pending = request
        return [Send(request, wait_ms)]

    # Answers

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> list[Instruction]:
        code = code_of(response)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return self._join(now_ms)
        if code:
            return self._refused(code, "to let it join", now_ms)
        if response.protocol_name not in self.config.partition_assignment_strategy:
            reason = f"the group takes the assignor {response.protocol_name}, which it did not offer"
            return self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
        if response.generation_id != self.generation_id or response.member_id != self.member_id:
            # A new generation starts every member's session, at some time after this join was sent. If the rebalance
            # took about a session, or this process slept, little of the session may be left: send a heartbeat at once.
            config = self.config
            elapsed_ms = now_ms - self._joining_since_ms
            is_recent = elapsed_ms < config.session_timeout_ms - 2 * config.heartbeat_interval_ms
            self._heard_ms = self._joining_since_ms if is_recent else now_ms
            beats_later = elapsed_ms < config.heartbeat_interval_ms
            self._heartbeat_ms = now_ms if beats_later else now_ms - config.heartbeat_interval_ms
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self._protocol = response.protocol_name
        self._heartbeat = None
        if response.leader != response.member_id:
            return self._sync([])
        self._leadership.begin(response.members)
        looking = LookAtTopics(self.group_topics)
        if response.skip_assignment:  # A static leader returned to an unchanged group.
            return [looking, *self._sync([])]
        self._to(Phase.DECIDING)
        return [looking]

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> list[Instruction]:
        self._to(Phase.SYNCING)
        request = SyncGroupRequest(
            group_id=self.config.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=assignments,
        )
        return self._send(request)

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> list[Instruction]:
        code = code_of(response)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._to(Phase.UNJOINED)
            return self._advance(now_ms)
        if code:
            return self._refused(code, "to give it partitions", now_ms)
        try:
            self._assigned = tuple(sorted(decode_assignment(response.assignment).partitions))
        except WireError as error:
            return self._fail(ErrorCode.INVALID_REQUEST, f"the leader's assignment cannot be read: {error}")
        given_up = tuple(one for one in self.owned if one not in self._assigned)
        if not given_up:
            self._to(Phase.STABLE)
            return [*self._take(), *self._advance(now_ms)]
        return self._revoke(given_up, self._settle)

    def _settle(self, now_ms: int) -> list[Instruction]:
        """The revocation is done; a rejoin lets other members get the partitions."""
        self._to(Phase.STABLE)
        self._must_rejoin = True
        return [*self._take(), *self._advance(now_ms)]

    def _take(self) -> list[Instruction]:
        new = tuple(one for one in self._assigned if one not in self.owned)
        self.owned = self._remembered = self._assigned
        self._owned_generation = self.generation_id
        return [Own(new)]

    def _beaten(self, code: ErrorCode, now_ms: int) -> list[Instruction]:
        """The error code of a heartbeat."""
        if self.phase not in _ALIVE:
            return []
        if not code:
            self._heard(self._heartbeat_ms)
            return self._advance(now_ms)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._heard(self._heartbeat_ms)
            self._must_rejoin = True
            return self._advance(now_ms)
        if code in _MOVED:
            return self.coordinator_lost(now_ms)
        if code in _WAIT:
            return []
        return self._refused(code, "its heartbeat", now_ms)

    def _refused(self, code: ErrorCode, what: str, now_ms: int) -> list[Instruction]:
        """An error of JoinGroup or SyncGroup: retry later, rejoin with a new id, or fail."""
        if code in _THROWN_OUT:
            return self._start_again(now_ms, forget_member_id=code is ErrorCode.UNKNOWN_MEMBER_ID)
        if code in _MOVED:
            self._to(Phase.UNJOINED)
            return self.coordinator_lost(now_ms)
        if code in _WAIT:
            self._to(Phase.UNJOINED)
            self._search.pause(now_ms + self.config.retry_backoff_ms)
            return []
        return self._fail(
            code, f"the coordinator of group {self.config.group_id} refuses {what}: {code.name}"
        )

    # Ends

    def _start_again(self, now_ms: int, *, forget_member_id: bool) -> list[Instruction]:
        lost = self._lose()
        if forget_member_id:
            self.member_id = NO_MEMBER_ID
        if self._is_leaving:
            return [*lost, *self._go(now_ms)]
        self._to(Phase.UNJOINED)
        return [*lost, *self._advance(now_ms)]

    def _lose(self) -> list[Instruction]:
        """Drop all partitions and ignore pending answers."""
        lost = self.owned
        self.owned = ()
        self.generation_id = self._owned_generation = NO_GENERATION
        self._pending = self._heartbeat = self._after_revoking = None
        return [Lose(lost)] if lost else []

    def _go(self, _now_ms: int) -> list[Instruction]:
        """Leave the group; a static member only stops."""
        member_id, self.member_id = self.member_id, NO_MEMBER_ID
        instructions = self._lose()
        self._leadership.end()
        if not member_id or self.config.group_instance_id is not None or not self._search.is_found:
            self._to(Phase.OUT)
            return instructions
        self._to(Phase.LEAVING)
        request = LeaveGroupRequest(
            group_id=self.config.group_id, members=[MemberIdentity(member_id=member_id)]
        )
        return [*instructions, *self._send(request)]

    def _fail(self, code: ErrorCode, reason: str) -> list[Instruction]:
        self._to(Phase.FAILED)
        return [*self._lose(), Fail(code, reason)]

    def _heard(self, since_ms: int) -> None:
        self._heard_ms = max(self._heard_ms, since_ms)

    def _to(self, phase: Phase) -> None:
        if phase is not self.phase and phase not in MOVES[self.phase]:
            raise InvariantError(f"a member of {self.config.group_id} cannot go from {self.phase} to {phase}")
        self.phase = phase
