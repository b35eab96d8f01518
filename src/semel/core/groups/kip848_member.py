"""A member of a KIP-848 group, seen from the client: heartbeats carry its state, the broker assigns, the member
follows.

Role.   `Kip848Member` is the client's end of ConsumerGroupHeartbeat, without I/O and without a clock: it shares the
        instructions of `core.groups.member`, so that one shell can run either protocol.
Flow.   `subscribe`, `polled` -> FindCoordinator -> heartbeat with epoch 0 -> the broker names an epoch and partitions
        -> Revoke partitions that are not among them -> Own new ones -> an immediate heartbeat reports the owned
        partitions.
Rules.  * A heartbeat carries the changes since the last answered one. The first one, and the first after an error or a
          lost answer, carries everything, because the broker may have missed the last.
        * Partitions come by topic id. Partitions of an unknown topic id wait; `LookAtIds` asks the shell for the name.
        * One reconciliation runs at a time; a newer target waits for its end. All revocations come before the first new
          partition, and the heartbeat reports the result only after both. Every followed assignment is reported, even
          without a change: the broker may wait for the release of a partition the member never owned.
        * A member that is fenced or unknown, or whose group is gone, loses all partitions and rejoins with its old id
          and epoch 0.
        * A member that does not poll for `max.poll.interval.ms` leaves, and rejoins with the next poll.
        * A static member leaves with epoch -2: its partitions wait for it. A member that leaves while joining sends the
          leave too, because the join may have been accepted.
        * A static member that gets UNRELEASED_INSTANCE_ID may hold the instance id itself, from a join whose answer was
          lost. It leaves with its own member id, which cannot release another member's instance, and rejoins.
Elsewhere. The broker's end: `core.groups.consumer`. Offsets are committed by the shell, with `identity`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from semel.core.groups.coordinator_search import CoordinatorSearch
from semel.core.groups.member_words import (
    Fail,
    FindCoordinator,
    Identity,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
)
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.errors import ErrorCode, error_code
from semel.types import TopicPartition

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
_NO_GENERATION: Final = -1
_OUT: Final = frozenset({Phase.OUT, Phase.LEAVING, Phase.FAILED})
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_FREE: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})


class SendHeartbeat(NamedTuple):
    """Send this to the coordinator; then `answered` or `unanswered`."""

    request: ConsumerGroupHeartbeatRequest


class LookAtIds(NamedTuple):
    """Find the names of the topics with these ids; then `names_known`."""

    topic_ids: tuple[bytes, ...]


Instruction: TypeAlias = FindCoordinator | SendHeartbeat | LookAtIds | Revoke | Lose | Own | Fail
_Place: TypeAlias = tuple[bytes, int]


class _Said(NamedTuple):
    """The state a heartbeat reported."""

    topics: tuple[str, ...]
    regex: str | None
    owned: tuple[TopicPartition, ...]
    followed: int
    """How many assignments have been followed to their end."""


class Kip848Member:
    """One member. `member_id` is its own choice, for life."""

    def __init__(self, config: MemberConfig, member_id: str, *, server_assignor: str | None = None) -> None:
        self.config = config
        self.phase = Phase.OUT
        self.topics: tuple[str, ...] = ()
        self.regex: str | None = None
        self.member_id = member_id
        self.member_epoch = JOINING_EPOCH
        self.owned: tuple[TopicPartition, ...] = ()
        self._server_assignor = server_assignor
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._target: tuple[_Place, ...] | None = None
        self._targets = 0
        self._followed = 0
        self._is_looking = False
        self._is_leaving = False
        self._unreleased: str | None = None
        """The broker's message about the instance id that is being released."""
        self._said: _Said | None = None
        self._saying: _Said | None = None
        self._pending: ConsumerGroupHeartbeatRequest | None = None
        self._search = CoordinatorSearch()
        self._beat_ms = 0
        self._polled_ms = 0
        self._revoking: tuple[TopicPartition, ...] = ()

    @property
    def identity(self) -> Identity:
        """The identity of commits; the epoch is -1 outside the group."""
        epoch = self.member_epoch if self.member_epoch > JOINING_EPOCH else _NO_GENERATION
        return Identity(self.config.group_id, epoch, self.member_id, self.config.group_instance_id)

    # The user's calls

    def subscribe(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Subscribe to these topics, and to topics the broker matches by regex, from the next poll on."""
        self.topics = tuple(sorted(set(topics)))
        self.regex = regex

    def polled(self, now_ms: int) -> list[Instruction]:
        """The user asked for records: it is alive, and wants to be in the group."""
        self._polled_ms = now_ms
        if self.phase is Phase.OUT and (self.topics or self.regex):
            self._is_leaving = False
            self._search.resume()
            self._begin(now_ms)
        return self._advance(now_ms)

    def leave(self, now_ms: int) -> list[Instruction]:
        """The user is done."""
        if self.phase in _OUT:
            return []
        self._is_leaving = True
        if self.phase is Phase.REVOKING:
            return []  # `revoked` continues.
        return self._revoke(self.owned) if self.owned else self._go(now_ms)

    # The shell's reports

    def coordinator_found(self, now_ms: int) -> list[Instruction]:
        """Heartbeats can be sent."""
        self._search.found()
        return self._advance(now_ms)

    def coordinator_lost(self, now_ms: int) -> list[Instruction]:
        """The coordinator cannot be found or reached now: retry after the backoff."""
        self._search.lost()
        self._search.pause(now_ms + self.config.retry_backoff_ms)
        return []

    def revoked(self, now_ms: int) -> list[Instruction]:
        """The user has let go of what `Revoke` named."""
        if self.phase is not Phase.REVOKING:
            return []  # The partitions were lost in the meantime.
        self.owned = tuple(one for one in self.owned if one not in self._revoking)
        self._revoking = ()
        self.phase = Phase.STABLE
        if self._is_leaving:
            return self._revoke(self.owned) if self.owned else self._go(now_ms)
        return self._reconcile(now_ms)

    def names_known(self, names: Mapping[bytes, str], now_ms: int) -> list[Instruction]:
        """Names for `LookAtIds`, as far as they were found."""
        self._is_looking = False
        for topic_id, name in names.items():
            self._names[topic_id] = name
            self._ids[name] = topic_id
        if self.phase is not Phase.STABLE:
            return []
        return self._reconcile(now_ms)

    def answered(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        now_ms: int,
    ) -> list[Instruction]:
        """The coordinator answered."""
        if request is not self._pending:
            return []
        self._pending = None
        if self.phase is Phase.LEAVING:
            self.phase = Phase.OUT
            return []
        code = error_code(response.error_code)
        if self._unreleased is not None:
            return self._stepped_aside(code, now_ms)
        if code:
            return self._refused(code, response.error_message, now_ms)
        self._said = self._saying
        self.member_epoch = response.member_epoch
        self._beat_ms = now_ms + max(1, response.heartbeat_interval_ms)
        if response.assignment is not None:
            target = tuple(
                (bytes(topic.topic_id), index)
                for topic in response.assignment.topic_partitions
                for index in sorted(topic.partitions)
            )
            self._targets += target != self._target
            self._target = target
        if self.phase is Phase.JOINING:
            self.phase = Phase.STABLE
        if self.phase is Phase.REVOKING:
            return []
        return self._reconcile(now_ms)

    def unanswered(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> list[Instruction]:
        """No answer came, or the heartbeat could not be sent."""
        if request is not self._pending:
            return []
        self._pending = None
        if self.phase is Phase.LEAVING:
            self.phase = Phase.OUT
            return []
        self._said = self._unreleased = None
        return self.coordinator_lost(now_ms)

    def committed(self, code: ErrorCode, now_ms: int) -> list[Instruction]:
        """A commit of this member was answered; after an error, a heartbeat at once learns the cause."""
        if code and self.phase not in _OUT:
            self._beat_ms = now_ms
        return self._advance(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When to call `due`."""
        if self.phase in _OUT:
            return None
        deadlines = [self._polled_ms + self.config.max_poll_interval_ms]
        if self._search.retry_at_ms is not None:
            deadlines.append(self._search.retry_at_ms)
        elif self._pending is None and self._search.is_found:
            deadlines.append(self._beat_ms)
        return min(deadlines)

    def due(self, now_ms: int) -> list[Instruction]:
        """Do what the passing of time asks for. May be called early or late."""
        if self.phase in _OUT:
            return []
        if now_ms >= self._polled_ms + self.config.max_poll_interval_ms:
            return self._go(now_ms)
        self._search.due(now_ms)
        return self._advance(now_ms)

    # Going on

    def _begin(self, now_ms: int) -> None:
        self.phase = Phase.JOINING
        self.member_epoch = JOINING_EPOCH
        self._said = self._unreleased = None
        self._target = None
        self._beat_ms = now_ms

    def _advance(self, now_ms: int) -> list[Instruction]:
        """A heartbeat, if it is time for one or there is something to say."""
        if self.phase in _OUT or self._search.retry_at_ms is not None:
            return []
        if not self._search.is_found:
            return [FindCoordinator()] if self._search.begin() else []
        if self._pending is not None:
            return []
        now = _Said(self.topics, self.regex, self.owned, self._followed)
        has_news = self._said != now and self.phase is not Phase.REVOKING
        if now_ms < self._beat_ms and not has_news:
            return []
        self._saying = now if self.phase is not Phase.REVOKING else self._said
        self._pending = self._heartbeat(now, self._said)
        return [SendHeartbeat(self._pending)]

    def _heartbeat(self, now: _Said, before: _Said | None) -> ConsumerGroupHeartbeatRequest:
        config = self.config
        request = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            instance_id=config.group_instance_id,
        )
        if before is None:
            request.rack_id = config.client_rack
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.server_assignor = self._server_assignor
        if before is None or before.topics != now.topics:
            request.subscribed_topic_names = list(now.topics)
        if now.regex is not None and (before is None or before.regex != now.regex):
            request.subscribed_topic_regex = now.regex
        elif before is not None and before.regex is not None and now.regex is None:
            request.subscribed_topic_regex = ""  # An empty regex unsubscribes from it.
        # During a revocation the heartbeat omits the partitions: they are neither owned nor released.
        has_moved = before is None or (before.owned, before.followed) != (now.owned, now.followed)
        if before is None or (self.phase is not Phase.REVOKING and has_moved):
            request.topic_partitions = self._said_partitions(now.owned)
        return request

    def _said_partitions(self, owned: tuple[TopicPartition, ...]) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for one in owned:
            by_topic.setdefault(one.topic, []).append(one.partition)
        return [
            TopicPartitions(topic_id=self._ids[name], partitions=indexes)
            for name, indexes in by_topic.items()
        ]

    def _reconcile(self, now_ms: int) -> list[Instruction]:
        """Move towards the target: revoke first, then own."""
        if self._target is None or self.phase is not Phase.STABLE:
            return self._advance(now_ms)
        looking: list[Instruction] = []
        unknown = tuple(
            dict.fromkeys(topic_id for topic_id, _ in self._target if topic_id not in self._names)
        )
        if unknown and not self._is_looking:
            self._is_looking = True
            looking.append(LookAtIds(unknown))
        target = tuple(
            sorted(
                TopicPartition(self._names[topic_id], index)
                for topic_id, index in self._target
                if topic_id in self._names
            )
        )
        gone = tuple(one for one in self.owned if one not in target)
        if gone:
            return [*looking, *self._revoke(gone)]
        new = tuple(one for one in target if one not in self.owned)
        self.owned = target
        if not unknown:
            self._followed = self._targets
        return [*looking, *([Own(new)] if new else []), *self._advance(now_ms)]

    def _revoke(self, partitions: tuple[TopicPartition, ...]) -> list[Instruction]:
        self.phase = Phase.REVOKING
        self._revoking = partitions
        return [Revoke(partitions)]

    # Ends

    def _refused(self, code: ErrorCode, message: str | None, now_ms: int) -> list[Instruction]:
        is_forgotten = code is ErrorCode.GROUP_ID_NOT_FOUND and self.member_epoch > JOINING_EPOCH
        if code in _FENCED or is_forgotten:
            lost = self._lose()
            if self._is_leaving:
                self.phase = Phase.OUT
                return lost
            self._begin(now_ms)
            return [*lost, *self._advance(now_ms)]
        self._said = None
        if code in _MOVED:
            return self.coordinator_lost(now_ms)
        if code.retriable or code is ErrorCode.REQUEST_TIMED_OUT:
            self._search.pause(now_ms + self.config.retry_backoff_ms)
            return []
        if code is ErrorCode.UNRELEASED_INSTANCE_ID and self.phase is Phase.JOINING:
            self._unreleased = message or code.name
            self._pending = self._goodbye()
            return [SendHeartbeat(self._pending)]
        return self._fail(code, message)

    def _stepped_aside(self, code: ErrorCode, now_ms: int) -> list[Instruction]:
        """Handle the answer to the leave: rejoin if the instance id was this member's own, else fail."""
        message = self._unreleased
        self._begin(now_ms)
        if code in _FREE:
            return self._advance(now_ms)
        if code in _MOVED:
            return self.coordinator_lost(now_ms)
        if code.retriable:
            self._search.pause(now_ms + self.config.retry_backoff_ms)
            return []
        return self._fail(ErrorCode.UNRELEASED_INSTANCE_ID, message)

    def _fail(self, code: ErrorCode, message: str | None) -> list[Instruction]:
        self.phase = Phase.FAILED
        why = message or code.name
        reason = f"the coordinator of group {self.config.group_id} refuses this member: {why} ({code.name})"
        return [*self._lose(), Fail(code, reason)]

    def _lose(self) -> list[Instruction]:
        """Drop all partitions."""
        lost, self.owned = self.owned, ()
        self._revoking = ()
        self._target = None
        self._pending = self._unreleased = None
        return [Lose(lost)] if lost else []

    def _go(self, _now_ms: int) -> list[Instruction]:
        """Leave the group."""
        may_be_in = self.member_epoch > JOINING_EPOCH or self._pending is not None
        instructions = self._lose()
        self.member_epoch = JOINING_EPOCH
        if not may_be_in or not self._search.is_found:
            self.phase = Phase.OUT
            return instructions
        self.phase = Phase.LEAVING
        self._pending = self._goodbye()
        return [*instructions, SendHeartbeat(self._pending)]

    def _goodbye(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self.config.group_instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=STATIC_LEAVING_EPOCH if is_static else LEAVING_EPOCH,
            instance_id=self.config.group_instance_id,
        )
