"""The shell around a member of a group: carries out what it decides, and brings to the user what only the user can do.

Role.   `Membership` owns a `Member` (classic) or a `Kip848Member` and their common way to the coordinator. Heartbeats, joins
        and looks at topics go on beside everything else. A change of the user's partitions waits as a `Call` for the next
        poll, because callbacks run where the user polls.
Flow.   an event (a poll, an answer, time) -> the member -> instructions: requests are sent at once, Revoke, Lose and Own become
        calls -> `next_call` -> the user's callback -> `done`.
Rules.  * Calls are made in the order the member decided. While a Revoke waits no more records of its partitions are handed
          out. A lost partition is gone at once, whether the user has been told or not.
        * Until the user has heard of a loss, nothing is done in this member's name. It may be in the group again, under a new
          epoch, while the user still commits partitions that another member owns. The user has heard when the listener is
          done: listeners store positions.
        * The member that asked for it is told that partitions are let go: not the one that was lost and joined again.
        * The coordinator has a connection of its own: a JoinGroup holds up what is sent behind it.
        * A failure that ends the membership is raised by the next poll, and by every one after it. An unreachable cluster is
          no such failure: a member has reached a broker before, and waits for it to come back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from semel.client.client_metrics import ConsumerMetrics
from semel.client.cluster import Cluster, passes
from semel.client.consumer.coordinator import coordinator_of, report_coordinator
from semel.client.consumer.topics import Topics
from semel.client.settings import ConsumerConfig
from semel.core.client.subscription import PartitionState, Subscription
from semel.core.groups.assignors.members import Racks
from semel.core.groups.kip848_member import Instruction as Kip848Instruction
from semel.core.groups.kip848_member import Kip848Member, LookAtIds, SendHeartbeat
from semel.core.groups.member import Member
from semel.core.groups.member_words import (
    Fail,
    FindCoordinator,
    Identity,
    Instruction,
    LookAtTopics,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
    Send,
)
from semel.core.wire.message import Request
from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import DisconnectedError, ErrorCode, RefusedError, SemelError, UnreachableError, error_code
from semel.exceptions import KafkaException, as_exception, exception_for
from semel.types import TopicPartition

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_OUT: Final = frozenset({Phase.OUT, Phase.FAILED})
_LOST_GENERATION: Final = 0
"""No coordinator gives this one, so each refuses it; that there is none (-1) an empty group would accept."""

AnyInstruction: TypeAlias = Instruction | Kip848Instruction
Event: TypeAlias = Callable[[int], Sequence[AnyInstruction]]
"""An event, as a call of the member's; it is given the time."""


class Told(Enum):
    """A call to the user about partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


class RebalanceCall(NamedTuple):
    """Tell the user; then `Membership.done`."""

    told: Told
    partitions: tuple[TopicPartition, ...]


class Claim(NamedTuple):
    """The consumer's state at the time of a request that is carried out later."""

    losses: int
    states: Mapping[TopicPartition, PartitionState]


def member_config(config: ConsumerConfig, group_id: str) -> MemberConfig:
    """The settings of a member in a consumer's."""
    return MemberConfig(
        group_id=group_id,
        partition_assignment_strategy=config.partition_assignment_strategy,
        group_instance_id=config.group_instance_id,
        client_rack=config.client_rack or None,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        retry_backoff_ms=max(1, config.retry_backoff_ms),
    )


class Membership:
    """One consumer's place in its group."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        subscription: Subscription,
        member: Member | Kip848Member,
        *,
        on_news: Callable[[], None],
        on_dropped: Callable[[Sequence[TopicPartition]], None],
        metrics: ConsumerMetrics,
    ) -> None:
        self.member = member
        self._metrics = metrics
        self._rebalancing_since_ms: int | None = None
        self._cluster = cluster
        """For the coordinator alone."""
        self._topics = topics
        self._subscription = subscription
        self._on_news = on_news
        self._on_dropped = on_dropped
        self._calls: deque[RebalanceCall] = deque()
        self._coordinator = -1
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: KafkaException | None = None
        self.losses = 0
        """How often partitions were lost: a request made before the last time concerns partitions that are gone."""
        self._telling: RebalanceCall | None = None
        self._telling_since = 0
        """After how many losses the user began to be told."""

    @property
    def is_out(self) -> bool:
        return self.member.phase in _OUT

    @property
    def is_joined(self) -> bool:
        return self.member.phase is Phase.STABLE

    @property
    def has_lost(self) -> bool:
        """Whether partitions are gone that the user still believes to have."""
        is_being_told = self._telling is not None and self._telling.told is Told.LOST
        return is_being_told or any(call.told is Told.LOST for call in self._calls)

    @property
    def identity(self) -> Identity:
        """As whom the user speaks to the coordinator: as one it refuses while the user believes to have what is lost."""
        identity = self.member.identity
        return identity._replace(generation_id=_LOST_GENERATION) if self.has_lost else identity

    def claim(self, partitions: Iterable[TopicPartition]) -> Claim:
        """The ones of these that the user has now."""
        held = self._subscription.partitions
        return Claim(self.losses, {where: held[where] for where in partitions if where in held})

    def holds(self, claim: Claim) -> bool:
        """Whether the user has had all partitions of the claim ever since: one lost and regained does not count."""
        held = self._subscription.partitions
        return self.losses == claim.losses and all(
            held.get(where) is state for where, state in claim.states.items()
        )

    # The user

    def polled(self) -> None:
        """The user asked for records."""
        self._tell(self.member.polled)

    def leave(self) -> None:
        """The user is done: calls may follow, then `is_out`."""
        self._tell(self.member.leave)

    def rejoin(self) -> bool:
        """Have the partitions divided anew; whether this protocol knows such a thing."""
        if not isinstance(self.member, Member):
            return False
        self._tell(self.member.rejoin)
        return True

    def committed(self, code: ErrorCode) -> None:
        """A commit with the member's identity was refused."""
        self._tell(lambda now_ms: self.member.committed(code, now_ms))

    def next_call(self) -> RebalanceCall | None:
        """The next call to the user. Nothing else is handed out before it is `done`."""
        if not self._calls:
            return None
        call = self._telling = self._calls.popleft()
        self._telling_since = self.losses
        match call.told:
            case Told.ASSIGNED:
                self._subscription.assign_owned(self.member.owned)
            case Told.REVOKED:
                self._subscription.leave(call.partitions)
            case Told.LOST:
                pass  # Gone since it was decided.
        return call

    def not_told(self, call: RebalanceCall) -> None:
        """The user could not be told: it is what comes next again, unless there is nothing to let go any more."""
        self._telling = None
        if call.told is not Told.REVOKED or self._telling_since == self.losses:
            self._calls.appendleft(call)

    def done(self, call: RebalanceCall) -> None:
        """The user has been told."""
        self._telling = None
        match call.told:
            case Told.ASSIGNED:
                self._subscription.arrived()
                self._metrics.assigned(len(self._subscription.partitions))
                self._topics.wanted()
            case Told.REVOKED:
                self._drop(call.partitions)
                if self._telling_since == self.losses:
                    self._tell(self.member.revoked)
            case Told.LOST:
                pass

    # News of topics

    @property
    def topics_to_watch(self) -> tuple[str, ...]:
        """The topics a leader must know about, beside its own subscription."""
        return self.member.group_topics if isinstance(self.member, Member) else ()

    def topics_changed(self) -> None:
        """The view of the topics is new: a leader compares it with what it divided."""
        if isinstance(self.member, Member) and self.member.group_topics:
            known = self._racks(self.member.group_topics)
            if all(known.values()):  # A missing topic may be missing for a moment only.
                member = self.member
                self._tell(lambda now_ms: member.topics_known(known, now_ms))

    def _racks(self, topics: Sequence[str]) -> dict[str, list[Racks]]:
        racks = {node_id: node.rack for node_id, node in self._cluster.nodes.items()}
        found: dict[str, list[Racks]] = {topic: [] for topic in topics}
        for topic in topics:
            if topic in self._topics.views:
                found[topic] = [
                    frozenset(rack for node in one.replicas if (rack := racks.get(node)) is not None)
                    for one in self._topics.views[topic].partitions
                ]
        return found

    # Instructions of the member

    def _tell(self, event: Event) -> None:
        """Tell the member what happened, and do what it says."""
        for instruction in event(self._now_ms()):
            self._do(instruction)
        self._arm()

    def _do(self, instruction: AnyInstruction) -> None:
        match instruction:
            case FindCoordinator():
                self._spawn(self._find(), "find the coordinator")
            case Send(request, wait_ms):
                if isinstance(request, JoinGroupRequest) and self._rebalancing_since_ms is None:
                    self._rebalancing_since_ms = self._now_ms()
                self._spawn(self._send(request, wait_ms), "group request")
            case SendHeartbeat(request):
                self._spawn(self._send(request, 0), "group heartbeat")
            case LookAtTopics(topics):
                self._spawn(self._look(topics), "look at topics")
            case LookAtIds(topic_ids):
                self._spawn(self._look_at_ids(topic_ids), "look at topic ids")
            case Revoke(partitions):
                if self._rebalancing_since_ms is None:
                    self._rebalancing_since_ms = self._now_ms()
                self._subscription.leave(partitions)
                self._calls.append(RebalanceCall(Told.REVOKED, partitions))
                self._on_news()
            case Lose(partitions):
                self._lose(partitions)
            case Own(partitions):
                since_ms, self._rebalancing_since_ms = self._rebalancing_since_ms, None
                self._metrics.rebalanced(0 if since_ms is None else self._now_ms() - since_ms)
                self._calls.append(RebalanceCall(Told.ASSIGNED, partitions))
                self._on_news()
            case Fail(code, reason):
                self.failure = exception_for(code, reason)
                self._on_news()

    def _lose(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._metrics.rebalance_failed()
        self.losses += 1
        self._drop(partitions)
        # Whom a Revoke was waiting for hears that it is too late for that.
        gone = set(partitions)
        self._calls = deque(
            call
            for call in self._calls
            if call.told is not Told.REVOKED or not gone.issuperset(call.partitions)
        )
        self._calls.append(RebalanceCall(Told.LOST, partitions))
        self._on_news()

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        self._subscription.drop(partitions)
        self._on_dropped(partitions)
        for where in partitions:
            self._metrics.released(where)
        self._metrics.assigned(len(self._subscription.partitions))

    def _arm(self) -> None:
        """Have the member called when time asks for it."""
        deadline_ms = self.member.next_deadline_ms()
        if deadline_ms == self._deadline_ms:
            return
        self._deadline_ms = deadline_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            wait_ms = max(0, deadline_ms - self._now_ms())
            self._timer = self._cluster.runtime.tasks.call_later(wait_ms / 1000, self._due)

    def _due(self) -> None:
        self._timer = self._deadline_ms = None
        self._tell(self.member.due)

    # Requests

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._cluster.runtime.tasks.spawn(work, name=name, on_failure=self._failed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _failed(self, name: str, error: BaseException) -> None:
        """An unexpected error is told to the user."""
        if isinstance(error, SemelError):
            self.failure = as_exception(error)
        else:
            self.failure = KafkaException(f"{name} failed: {error!r}")
            self.failure.__cause__ = error
        self._on_news()

    async def _find(self) -> None:
        try:
            self._coordinator = await coordinator_of(self._cluster, self.member.config.group_id)
        except (DisconnectedError, RefusedError) as error:
            if isinstance(error, RefusedError) and not error.code.retriable:
                raise
            self._tell(self.member.coordinator_lost)
        else:
            self._tell(self.member.coordinator_found)

    async def _send(self, request: Request[Any], wait_ms: int) -> None:
        member = cast("Any", self.member)  # Each protocol has requests and answers of its own, in pairs.
        since_ms = self._now_ms()
        longer_ms = max(0, wait_ms - self._cluster.config.request_timeout_ms)
        try:
            answer = await self._cluster.send(request, node_id=self._coordinator, timeout_ms=longer_ms)
        except (DisconnectedError, RefusedError) as error:
            _logger.debug("the coordinator of group %s: %s", member.config.group_id, error)
            self._tell(lambda now_ms: member.unanswered(request, now_ms))
        else:
            report_coordinator(self._cluster, member.config.group_id, error_code(answer.error_code))
            self._count(request, self._now_ms() - since_ms)
            self._tell(lambda now_ms: member.answered(request, answer, now_ms))
        self._on_news()

    def _count(self, request: Request[Any], latency_ms: int) -> None:
        match request:
            case JoinGroupRequest():
                self._metrics.joined(latency_ms)
            case SyncGroupRequest():
                self._metrics.synced(latency_ms)
            case HeartbeatRequest() | ConsumerGroupHeartbeatRequest():
                self._metrics.beat(latency_ms)
            case _:
                pass  # Leaving is not measured.

    async def _look(self, topics: Sequence[str]) -> None:
        """The partitions of these topics with the racks of their replicas; asked until somebody answers."""

        async def ask() -> None:
            await self._cluster.metadata([])  # Racks belong to brokers, and this connection knows its own.
            await self._topics.refresh(topics)

        await self._patiently(ask)
        known = self._racks(topics)
        member = self.member
        if isinstance(member, Member):
            classic = member
            self._tell(lambda now_ms: classic.topics_known(known, now_ms))

    async def _look_at_ids(self, topic_ids: Sequence[bytes]) -> None:
        async def ask() -> dict[bytes, str]:
            return await self._topics.names_of(topic_ids)

        found = await self._patiently(ask)
        if len(found) < len(topic_ids):  # The member will ask for the rest at once.
            await self._cluster.runtime.tasks.sleep(self.member.config.retry_backoff_ms / 1000)
        member = self.member
        if isinstance(member, Kip848Member):
            kip848 = member
            self._tell(lambda now_ms: kip848.names_known(found, now_ms))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await self._cluster.patiently(
            ask, timeout_ms=self.member.config.max_poll_interval_ms, may_repeat=_may_pass
        )

    # The end

    def stop(self) -> None:
        """Send nothing more, without a word to anybody."""
        if self._timer is not None:
            self._timer.cancel()
        self._cluster.close()

    async def close(self) -> None:
        """End what is under way, without a word to anybody."""
        self.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _now_ms(self) -> int:
        return self._cluster.runtime.clock.monotonic_ms()


def _may_pass(error: DisconnectedError | RefusedError) -> bool:
    return isinstance(error, UnreachableError) or passes(error)
