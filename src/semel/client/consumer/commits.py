"""Positions on their way to the coordinator: one commit at a time, in order, and the outcome of each.

Role.   `Commits` stores offsets for the user (now, or beside everything else) and by itself (every `auto.commit.interval.ms`,
        and before partitions go). It keeps the callbacks of finished commits until the user's next call.
Rules.  * Commits leave in the order they were asked for, each after the answer to the one before: an older position never
          overwrites a newer one.
        * A commit the user waits for is tried again until `default.api.timeout.ms`; a commit that nobody waits for never is.
        * A member that is out of its group cannot commit: somebody else may have its partitions. Saying so is the
          `CommitFailedException`; the coordinator's answer is told to the membership.
        * Nor are positions stored of partitions that were let go or lost between the asking and the sending, also where they
          have come back since.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from semel.client.cluster import Cluster
from semel.client.consumer.coordinator import GroupOffsets
from semel.client.consumer.membership import Claim, Membership
from semel.client.values.consuming import CommitCallback, OffsetAndMetadata
from semel.core.groups.member_words import NO_GENERATION, NO_MEMBER_ID, Identity
from semel.errors import ErrorCode, RefusedError, SemelError
from semel.exceptions import (
    CommitFailedException,
    KafkaException,
    RebalanceInProgressException,
    RetriableCommitFailedException,
    TimeoutException,
    as_exception,
)
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
_THROWN_OUT: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

Offsets = dict[TopicPartition, OffsetAndMetadata]


class CommitCall(NamedTuple):
    """Tell the user what became of a commit."""

    callback: CommitCallback
    offsets: Offsets
    error: KafkaException | None


class Commits:
    """One consumer's."""

    def __init__(
        self,
        cluster: Cluster,
        offsets: GroupOffsets,
        group_id: str,
        *,
        membership: Callable[[], Membership | None],
        on_news: Callable[[], None],
        on_latency: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._group_id = group_id
        self._membership = membership
        self._on_news = on_news
        self._on_latency = on_latency
        self._turns = _Turns()
        self._under_way = 0
        self._calls: deque[CommitCall] = deque()

    @property
    def identity(self) -> Identity:
        """As whom this consumer speaks to the coordinator at the moment."""
        membership = self._membership()
        if membership is None:
            return Identity(self._group_id, NO_GENERATION, NO_MEMBER_ID, None)
        return membership.identity

    @property
    def is_idle(self) -> bool:
        return self._under_way == 0

    def next_call(self) -> CommitCall | None:
        """The next call to the user about a commit that is over."""
        return self._calls.popleft() if self._calls else None

    def not_told(self, call: CommitCall) -> None:
        """The user could not be told: it is what comes next again."""
        self._calls.appendleft(call)

    def begin(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: CommitCallback | None
    ) -> None:
        """Store these, and say later what became of it."""
        self._under_way += 1
        work = self._beside(dict(offsets), callback, self._claim(offsets), self._turns.queue_up())
        self._cluster.runtime.tasks.spawn(work, name="commit")

    async def _beside(
        self, offsets: Offsets, callback: CommitCallback | None, claim: Claim | None, place: asyncio.Event
    ) -> None:
        error: KafkaException | None = None
        try:
            await self._store(offsets, claim, place)
        except SemelError as failed:
            error = as_exception(failed)
            if error.retriable:
                error = RetriableCommitFailedException(f"the commit did not get through: {error}")
                error.__cause__ = failed
            if callback is None:
                _logger.warning("Commit failed for offsets %s: %s", _shown(offsets), error)
        finally:
            self._under_way -= 1
            if callback is not None:
                self._calls.append(CommitCall(callback, offsets, error))
            self._on_news()

    async def store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int) -> None:
        """Store these; raises if they are not stored in this time."""
        clock = self._cluster.runtime.clock
        since_ms = clock.monotonic_ms()
        deadline_ms = since_ms + timeout_ms
        claim = self._claim(offsets)
        tries = 0
        while True:
            left_ms = deadline_ms - clock.monotonic_ms()
            try:
                async with asyncio.timeout(max(0, left_ms) / 1000):
                    return await self._store(dict(offsets), claim, self._turns.queue_up())
            except TimeoutError:
                last = self._cluster.troubles.last(since_ms)
                raise _too_late(timeout_ms, offsets, last) from None
            except SemelError as error:
                public = as_exception(error)
                if not public.retriable:
                    raise public from error
                tries += 1
                pause_ms = self._cluster.backoff_ms(tries)
                if clock.monotonic_ms() + pause_ms >= deadline_ms:
                    raise _too_late(timeout_ms, offsets, f"; the last error: {error}") from error
            await self._cluster.runtime.tasks.sleep(pause_ms / 1000)

    def _claim(self, offsets: Iterable[TopicPartition]) -> Claim | None:
        membership = self._membership()
        return None if membership is None else membership.claim(offsets)

    def _holds(self, claim: Claim | None) -> bool:
        membership = self._membership()
        if membership is None or claim is None:
            return membership is None and claim is None
        return membership.holds(claim)

    async def _store(self, offsets: Offsets, claim: Claim | None, place: asyncio.Event) -> None:
        """One attempt, when its turn has come, to store what was asked for while the consumer had this."""
        try:
            await place.wait()
            membership = self._membership()
            if not offsets and (membership is None or not membership.has_lost):
                return
            identity = self.identity
            if membership is not None and (membership.has_lost or identity.generation_id == NO_GENERATION):
                raise CommitFailedException(
                    f"this consumer is not a member of group {self._group_id} at the moment, so its partitions may be "
                    "somebody else's. Poll until it is a member again; uncommitted records are read again by the new owner"
                )
            if not self._holds(claim):
                raise self._lost()
            since_ms = self._cluster.runtime.clock.monotonic_ms()
            if not offsets:
                return
            try:
                await self._offsets.commit(offsets, identity)
            except RefusedError as error:
                raise self._judged(error, identity, claim) from error
            self._on_latency(self._cluster.runtime.clock.monotonic_ms() - since_ms)
        finally:
            self._turns.leave(place)

    def _lost(self) -> CommitFailedException:
        return CommitFailedException(
            f"partitions of group {self._group_id} were lost or let go before the commit got through, so they may be "
            "somebody else's: poll; what was not committed comes again, here or there"
        )

    def _judged(self, error: RefusedError, identity: Identity, claim: Claim | None) -> KafkaException:
        membership = self._membership()
        if membership is None:
            return as_exception(error)
        if not self._holds(claim):
            return self._lost()
        code = error.code
        is_still_same = self.identity == identity
        if code is ErrorCode.STALE_MEMBER_EPOCH and not is_still_same:
            return RetriableCommitFailedException(f"the member has a new epoch by now: {error}")
        if code in _THROWN_OUT or code is ErrorCode.FENCED_INSTANCE_ID:
            if is_still_same:
                told = ErrorCode.UNKNOWN_MEMBER_ID if code is ErrorCode.GROUP_ID_NOT_FOUND else code
                membership.committed(told)
            if code is ErrorCode.FENCED_INSTANCE_ID:
                return as_exception(error)
            return CommitFailedException(
                f"group {self._group_id} has been rebalanced, and the partitions may be somebody else's by now: {error}. "
                "Poll more often than max.poll.interval.ms, or take fewer records with max.poll.records"
            )
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if is_still_same:
                membership.committed(code)
            return RebalanceInProgressException(f"{error}: poll, then commit again")
        return as_exception(error)

    async def until_idle(self) -> None:
        """Return once no commit is under way of those that were asked for."""
        place = self._turns.queue_up()
        try:
            await place.wait()
        finally:
            self._turns.leave(place)


class _Turns:
    """One at a time, in the order they were asked for: not in the order in which tasks come to run."""

    def __init__(self) -> None:
        self._places: deque[asyncio.Event] = deque()

    def queue_up(self) -> asyncio.Event:
        """A place in the queue; it is set when its turn has come. To be left in any case."""
        place = asyncio.Event()
        self._places.append(place)
        self._places[0].set()
        return place

    def leave(self, place: asyncio.Event) -> None:
        """It is over, or not waited for any more."""
        self._places.remove(place)
        if self._places:
            self._places[0].set()


def _too_late(
    timeout_ms: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], last: str
) -> TimeoutException:
    return TimeoutException(
        f"Timeout of {timeout_ms}ms expired before successfully committing offsets {_shown(offsets)}{last}"
    )


def _shown(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    return "{" + ", ".join(f"{where}: {at.offset}" for where, at in sorted(offsets.items())) + "}"
