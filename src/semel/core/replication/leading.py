"""The leader of a partition: its knowledge of replicas, and its consequences: ISR, high watermark, acks=all.

Role.   Kafka's rules for one led partition, without log, clock or network: offsets and times come in as arguments.
Flow.   `become` when a controller says so. `fetched` with every follower's fetch, then `expand`; `shrink` from time to time.
        Either may return a `Proposal` for the controller, whose answer comes back to `altered`. `replicated_offset` says how
        far the high watermark may move; `judge_append` and `judge_replicated` are acks=all before and after.
Rules.  * The high watermark is at most the smallest log end of the maximal ISR: the committed one, and with it the replica that
          a pending proposal adds. A pending removal changes nothing before the controller has written it (KIP-497).
        * A replica that is caught up and may join is waited for like a member, else it would never reach the high watermark.
        * With fewer members than `min.insync.replicas` the high watermark stands still: acknowledged records could be lost.
        * A replica joins with its log at the high watermark and at the start of this leader epoch. Committed records may lie
          between the two while the high watermark is an older leader's (KAFKA-7128).
        * One proposal at a time. The controller's answer counts while its proposal is the pending one; a change that comes
          from the metadata meanwhile drops it.
        * A replica the controller found ineligible is not proposed again before its broker has another epoch or the metadata
          of brokers changes: Kafka's controller answers each attempt with metadata for everybody.
Elsewhere. The follower's rules: `following`. Leader epochs and where they end: `epochs`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias

from semel.core.replication.progress import UNKNOWN_BROKER_EPOCH, Progress
from semel.errors import ErrorCode
from semel.types import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET

NO_PARTITION_EPOCH: Final = -1


class Registered(Protocol):
    """A broker that is alive, as the metadata knows it."""

    @property
    def epoch(self) -> int:
        """Which life of it; -1 where that is not known."""


Alive: TypeAlias = Mapping[int, Registered]
"""The brokers that may be in sync, by id: registered, not shutting down."""
# The controller has not written the proposal, and never will.
_NOT_WRITTEN: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# Whether it has, only newer metadata will tell.
_UNTIL_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR the leader asks the controller for."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of each member, as its last fetch said; -1 where none did."""
    joining: int | None
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class Granted:
    """The ISR the controller has written for a proposal."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


def asks_again(answer: ErrorCode) -> bool:
    """Whether a leader sends the same proposal once more after this error, as long as it is the pending one."""
    return answer not in _NOT_WRITTEN and answer not in _UNTIL_METADATA


class Altered(Enum):
    """The leader's step after the controller's answer."""

    COMMITTED = auto()
    """The ISR is as proposed: the high watermark may move."""
    REVERTED = auto()
    """The ISR stays as it was."""
    WAITING = auto()
    """The proposal stays pending until the metadata says what is."""
    AGAIN = auto()
    """The same proposal is sent once more."""
    LATE = auto()
    """The answer is to a proposal that is no longer pending."""


class Leading:
    """The replication of one partition, seen by its leader."""

    __slots__ = (
        "_ineligible",
        "_lag_max_ms",
        "_node_id",
        "epoch_start_offset",
        "followers",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "partition_epoch",
        "proposal",
    )

    def __init__(self, node_id: int, *, lag_max_ms: int) -> None:
        self._node_id = node_id
        self._lag_max_ms = lag_max_ms
        self._ineligible: dict[int, int] = {}
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        self.partition_epoch = NO_PARTITION_EPOCH
        self.epoch_start_offset = UNKNOWN_OFFSET
        self.followers: dict[int, Progress] = {}
        """The other replicas of the assignment, by broker; the dict stays the same one."""
        self.isr: frozenset[int] = frozenset()
        """The committed one, as the controller has written it."""
        self.maximal_isr: frozenset[int] = frozenset()
        self.proposal: Proposal | None = None

    def become(
        self,
        *,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        log_end_offset: int,
        now_ms: int,
    ) -> bool:
        """Lead as the metadata says; False if that is older than what is known."""
        if partition_epoch < self.partition_epoch:
            return False
        led_before = self.leader_epoch != NO_PARTITION_LEADER_EPOCH
        others = [one for one in replicas if one != self._node_id]
        for gone in [one for one in self.followers if one not in others]:
            del self.followers[gone]
        for one in others:
            self.followers.setdefault(one, Progress())
        self._commit(isr)
        self._ineligible.clear()
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.epoch_start_offset = log_end_offset
            for one, progress in self.followers.items():
                progress.begin_epoch(log_end_offset, now_ms, in_sync=one in self.isr, is_known=led_before)
        self.partition_epoch = partition_epoch
        return True

    def _commit(self, isr: Iterable[int]) -> None:
        self.isr = self.maximal_isr = frozenset(isr)
        self.proposal = None

    # Fetches

    def check_replica(self, replica_id: int, *, knows_epoch: bool) -> ErrorCode:
        """The answer to a follower that fetches. `knows_epoch`: it named the leader epoch, which is this one.

        A replica that is not assigned may be one of an assignment yet to come: both answers let it try again.
        """
        if replica_id in self.followers:
            return ErrorCode.NONE
        return ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetched(
        self,
        replica_id: int,
        fetch_offset: int,
        *,
        log_start_offset: int,
        log_end_offset: int,
        now_ms: int,
        broker_epoch: int,
        alive: Alive,
    ) -> ErrorCode:
        """A follower was read to; not to be called where its log diverges. An error leaves everything as it was."""
        progress, broker = self.followers.get(replica_id), alive.get(replica_id)
        registered_epoch = UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch
        if progress is None or progress.is_stale(broker_epoch, registered_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        progress.fetched(
            fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=log_end_offset,
            now_ms=now_ms,
            broker_epoch=broker_epoch,
        )
        return ErrorCode.NONE

    # In sync

    def expand(self, replica_id: int, *, high_watermark: int, alive: Alive) -> Proposal | None:
        """Ask for a follower that has just fetched to be in sync, if it is."""
        progress = self.followers.get(replica_id)
        if progress is None or self.proposal is not None or replica_id in self.isr:
            return None
        if not self._may_join(replica_id, progress, alive):
            return None
        if self._ineligible.get(replica_id) == progress.broker_epoch:
            return None
        if progress.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return self._propose(self.isr | {replica_id}, joining=replica_id)

    def shrink(self, *, log_end_offset: int, now_ms: int) -> Proposal | None:
        """Ask for the members that have not been caught up for too long to leave."""
        if self.proposal is not None:
            return None
        left = {one for one in self.isr if self._is_in_sync(one, log_end_offset, now_ms)}
        return None if left == self.isr else self._propose(left, joining=None)

    def _is_in_sync(self, member: int, log_end_offset: int, now_ms: int) -> bool:
        if member == self._node_id:
            return True
        progress = self.followers.get(member)
        return progress is not None and progress.is_caught_up(log_end_offset, now_ms, self._lag_max_ms)

    @staticmethod
    def _may_join(replica_id: int, progress: Progress, alive: Alive) -> bool:
        broker = alive.get(replica_id)
        if broker is None:
            return False
        unknown = UNKNOWN_BROKER_EPOCH in (broker.epoch, progress.broker_epoch)
        return unknown or progress.broker_epoch == broker.epoch

    def _propose(self, isr: Iterable[int], *, joining: int | None) -> Proposal:
        members = tuple(sorted(isr))
        epochs = tuple(
            self.followers[one].broker_epoch if one in self.followers else UNKNOWN_BROKER_EPOCH
            for one in members
        )
        self.proposal = Proposal(members, epochs, joining, self.leader_epoch, self.partition_epoch)
        self.maximal_isr = self.isr.union(members)
        return self.proposal

    def altered(self, proposal: Proposal, answer: Granted | ErrorCode) -> Altered:
        """The controller has answered a proposal."""
        if proposal is not self.proposal:
            return Altered.LATE
        if isinstance(answer, Granted):
            if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
                return Altered.WAITING
            self._commit(answer.isr)
            self.partition_epoch = answer.partition_epoch
            return Altered.COMMITTED
        if answer in _NOT_WRITTEN:
            if proposal.joining is not None:
                progress = self.followers.get(proposal.joining, Progress())
                self._ineligible[proposal.joining] = progress.broker_epoch
            self._commit(self.isr)
            return Altered.REVERTED
        return Altered.AGAIN if asks_again(answer) else Altered.WAITING

    def brokers_changed(self) -> None:
        """The metadata knows other brokers than before: a replica that was found ineligible may be asked for again."""
        self._ineligible.clear()

    # Replicated

    def replicated_offset(
        self, own_end_offset: int, *, log_end_offset: int, now_ms: int, min_insync: int, alive: Alive
    ) -> int | None:
        """The offset below which every replica that counts has everything; None where that may not show now.

        `own_end_offset`: how far the leader's own log is as durable as its topic asks.
        """
        if len(self.isr) < self.effective_min_insync(min_insync):
            return None
        replicated = own_end_offset
        for one, progress in self.followers.items():
            if progress.log_end_offset < replicated and (
                one in self.maximal_isr
                or (
                    progress.is_caught_up(log_end_offset, now_ms, self._lag_max_ms)
                    and self._may_join(one, progress, alive)
                )
            ):
                replicated = progress.log_end_offset
        return replicated

    def low_watermark(self, log_start_offset: int, alive: Alive) -> int:
        """The smallest log start of the replicas that are alive: records below are deleted everywhere."""
        starts = [progress.log_start_offset for one, progress in self.followers.items() if one in alive]
        return min([log_start_offset, *starts])

    # Acknowledged by all

    def effective_min_insync(self, min_insync: int) -> int:
        """`min.insync.replicas`, as far as there are so many replicas at all."""
        return min(min_insync, 1 + len(self.followers))

    def judge_append(self, min_insync: int) -> ErrorCode:
        """Whether a batch that is to be acknowledged by all may be appended."""
        short = len(self.isr) < self.effective_min_insync(min_insync)
        return ErrorCode.NOT_ENOUGH_REPLICAS if short else ErrorCode.NONE

    def judge_replicated(self, min_insync: int) -> ErrorCode:
        """The answer once the high watermark has passed a batch: the ISR may have shrunk since the append."""
        short = len(self.maximal_isr) < self.effective_min_insync(min_insync)
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if short else ErrorCode.NONE
