"""The consumer without a face: everything it does, in steps that end wherever the user has to be asked.

Role.   `Engine` puts subscription, fetches, positions, membership and commits together. `AsyncConsumer` and the blocking
        `semel.Consumer` are two faces of it: they take its steps and make the calls it asks for, each in its own way.
Flow.   a poll is: `step` -> a `Call`: the face makes it (the user's listener or callback) and says `called`, again ->
        pieces of records.
Rules.  * Everything runs on one loop; nothing here blocks it or knows threads.
        * A step hands out records only when the user knows about every partition that came or went before.
        * `wakeup` ends what the user waits for, once. A failure found beside the user's calls is raised by the next of them.
        * Records are decoded by kernels. While those are being loaded, small answers are read in plain Python and large ones
          wait.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from semel.client.arguments import wait_ms
from semel.client.client_metrics import ConsumerMetrics
from semel.client.cluster import Cluster, troubles_of
from semel.client.config import READ_COMMITTED
from semel.client.consumer.commits import CommitCall
from semel.client.consumer.committing import LAST_MS, Committing, without_group
from semel.client.consumer.decoding import decoding_now, load_decoding
from semel.client.consumer.fetcher import Fetcher
from semel.client.consumer.membership import Membership, RebalanceCall, Told, member_config
from semel.client.consumer.positions import Positions
from semel.client.consumer.telling import Call
from semel.client.consumer.topics import Topics
from semel.client.consumer.validation import Validation
from semel.client.consumer.waiting import Waiting, in_time
from semel.client.metrics import report
from semel.client.settings import ConsumerConfig
from semel.client.troubles import Kind
from semel.client.values.consuming import (
    ConsumerRebalanceListener,
    SubscriptionPattern,
)
from semel.core.client.fetch_buffer import DamagedRecordsError, FetchBuffer
from semel.core.client.fetched import Piece
from semel.core.client.reset import parse_reset
from semel.core.client.subscription import (
    Mode,
    NotAssignedError,
    PartitionState,
    Subscription,
    SubscriptionClashError,
)
from semel.core.groups.kip848_member import Kip848Member
from semel.core.groups.member import Member
from semel.errors import DisconnectedError, ErrorCode, RefusedError, SemelError
from semel.exceptions import (
    CorruptRecordException,
    IllegalStateException,
    KafkaException,
    TimeoutException,
    as_exception,
)
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
T = TypeVar("T")

_POLLS_PER_INTERVAL: Final = 3


class Engine:
    """One consumer."""

    def __init__(self, runtime: Runtime, config: ConsumerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.subscription = Subscription()
        self.waiting = Waiting()
        self.listener: ConsumerRebalanceListener | None = None
        self._regex: str | None = None
        self.metrics = ConsumerMetrics(config, runtime.clock.monotonic_ms)
        reset = parse_reset(config.auto_offset_reset)
        self.troubles = troubles_of(runtime, config)
        self._cluster = self._new_cluster()
        self._fetching = self._new_cluster()
        self._coordinating: Cluster | None = None
        self.metrics.watch_connections(self._connections)
        self._buffer = FetchBuffer(
            self.subscription,
            fetch_max_bytes=max(1, config.fetch_max_bytes),
            max_partition_fetch_bytes=max(1, config.max_partition_fetch_bytes),
            check_crcs=config.check_crcs,
        )
        self.topics = Topics(
            self._cluster,
            config,
            interest=self._interest,
            on_change=self._topics_changed,
            on_failure=self.waiting.fail,
        )
        self.committing = Committing(
            self._cluster,
            config,
            self.subscription,
            membership=lambda: self._membership if self._is_member else None,
            on_news=self.waiting.tell,
            on_latency=self.metrics.committed,
        )
        self.positions = Positions(
            self._cluster,
            self.topics,
            self.subscription,
            config,
            reset,
            self.committing.offsets,
            identity=self.committing.identity,
            on_news=self._found,
            on_failure=self.waiting.fail,
        )
        self._validation = Validation(
            self._cluster,
            self.topics,
            self.subscription,
            reset,
            on_news=self._found,
            on_failure=self.waiting.fail,
        )
        self._fetcher = Fetcher(
            self._fetching,
            self.topics,
            self.subscription,
            self._buffer,
            config,
            reset,
            check=self._validation.kick,
            on_news=self._found,
            on_failure=self.waiting.fail,
            metrics=self.metrics,
        )
        self._membership: Membership | None = None
        self._is_loading = False
        self._is_started = False
        self._is_closed = False
        self._has_left = False
        self._out_by_ms: int | None = None
        self._called_ms = 0
        self._idle_ms = 0

    # The user's wishes

    def subscribe(
        self,
        wanted: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: ConsumerRebalanceListener | None,
    ) -> None:
        """Join the group for these topics, with the next poll."""
        group_id = self.config.group_id
        if group_id is None:
            raise without_group()
        self._regex = None
        try:
            match wanted:
                case SubscriptionPattern(pattern):
                    if self.config.group_protocol != "consumer":
                        raise IllegalStateException(
                            "a SubscriptionPattern is matched by the broker: set group.protocol=consumer, "
                            "or subscribe with re.compile(…)"
                        )
                    self.subscription.subscribe(())
                    self._regex = pattern
                case re.Pattern():
                    self.subscription.subscribe_pattern(wanted)
                    self.subscription.matched(self.topics.names)
                case _:
                    self.subscription.subscribe(wanted)
        except SubscriptionClashError as clash:
            raise IllegalStateException(str(clash)) from None
        self.listener = listener
        if self._membership is None:
            self._membership = self._new_membership(group_id)
        self._want_topics()
        self.topics.wanted()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these."""
        before = list(self.subscription.partitions)
        try:
            self.subscription.assign(partitions)
        except SubscriptionClashError as clash:
            raise IllegalStateException(str(clash)) from None
        self.committing.chain.gone(one for one in before if one not in self.subscription.partitions)
        self.positions.is_awaited = False
        self.metrics.assigned(len(self.subscription.partitions))
        self.topics.wanted()

    def _new_membership(self, group_id: str) -> Membership:
        settings = member_config(self.config, group_id)
        member: Member | Kip848Member
        if self.config.group_protocol == "consumer":
            member = Kip848Member(
                settings,
                str(random_uuid(self.runtime.dice)),
                server_assignor=self.config.group_remote_assignor,
            )
        else:
            member = Member(settings)
        self._coordinating = self._new_cluster()
        return Membership(
            self._coordinating,
            self.topics,
            self.subscription,
            member,
            on_news=self.waiting.tell,
            on_dropped=self._dropped,
            metrics=self.metrics,
        )

    def _new_cluster(self) -> Cluster:
        return Cluster(self.runtime, self.config, observer=self.metrics, troubles=self.troubles)

    def _dropped(self, partitions: Sequence[TopicPartition]) -> None:
        """These are not ours any more."""
        self._buffer.drop(partitions)
        self.committing.chain.gone(partitions)

    def _connections(self) -> int:
        coordinating = 0 if self._coordinating is None else self._coordinating.connections
        return self._cluster.connections + self._fetching.connections + coordinating

    def _want_topics(self) -> None:
        """Tell the member what the user wants now."""
        if self._membership is not None:
            member = self._membership.member
            if isinstance(member, Kip848Member):
                member.subscribe(self.subscription.topics, self._regex)
            else:
                member.subscribe(self.subscription.topics)

    def _interest(self) -> Sequence[str] | None:
        if self.subscription.mode is Mode.PATTERN:
            return None
        watched = self._membership.topics_to_watch if self._is_member and self._membership else ()
        return list(
            dict.fromkeys(
                [*self.subscription.topics, *(one.topic for one in self.subscription.partitions), *watched]
            )
        )

    def _topics_changed(self) -> None:
        if self.subscription.mode is Mode.PATTERN and self.subscription.matched(self.topics.names):
            self._want_topics()
        self._report_pattern()
        if self._is_member and self._membership is not None:
            self._membership.topics_changed()
        self.positions.kick()
        self._found()

    def _report_pattern(self) -> None:
        """A pattern that no topic matches is looked at again only with the next view of all topics."""
        pattern = self.subscription.pattern
        if self.subscription.mode is not Mode.PATTERN or pattern is None or self.troubles.has(Kind.CLUSTER):
            return
        if self.subscription.topics:
            self.troubles.over(Kind.TOPIC, pattern.pattern)
            return
        what = f"no topic of {self._cluster.where} matches the pattern {pattern.pattern!r}"
        looks = f"create one: topics are looked at every {self.config.metadata_max_age_ms} ms (metadata.max.age.ms)"
        self.troubles.met(Kind.TOPIC, pattern.pattern, what, looks, is_old=True)

    @property
    def _is_member(self) -> bool:
        return self.subscription.mode in (Mode.TOPICS, Mode.PATTERN)

    # A step of a poll

    async def step(self, deadline_ms: int, count_max: int | None) -> "Call | list[Piece]":
        """The next call the user must hear of, or records; none once it is `deadline_ms` on the monotonic clock."""
        self._check()
        if self.subscription.mode is Mode.NOTHING:
            raise IllegalStateException("Consumer is not subscribed to any topics or assigned any partitions")
        membership = self._membership if self._is_member else None
        self.positions.is_awaited = True
        while True:
            self.waiting.begin()
            self.waiting.check()
            if membership is not None:
                membership.polled()
                if membership.failure is not None:
                    raise membership.failure
            call = await self._next_call()
            if call is not None:
                return call
            self.committing.automatically()
            self.positions.kick()
            pieces = self._take(count_max)
            self._fetcher.kick()
            left_ms = deadline_ms - self._now_ms()
            if pieces or left_ms <= 0:
                self._count(pieces)
                if not pieces:
                    await asyncio.sleep(0)  # A tight loop of polls lets the others have a turn.
                return pieces
            await self._wait(left_ms)

    def _take(self, count_max: int | None) -> list[Piece]:
        try:
            return self._buffer.take(count_max, decoding=decoding_now())
        except DamagedRecordsError as damage:
            raise CorruptRecordException(
                f"records cannot be read: {damage}; seek past them to go on", retriable=False
            ) from damage

    def _count(self, pieces: list[Piece]) -> None:
        """A poll is over."""
        self.committing.chain.handed_out(piece.where for piece in pieces)
        idle_ms, self._idle_ms = self._idle_ms, 0
        self.metrics.polled(idle_ms=idle_ms)
        committed_only = self.config.isolation_level == READ_COMMITTED
        lags = self.subscription.lags(committed_only=committed_only)
        for piece in pieces:
            self.metrics.consumed(piece.count)
            state = self.subscription.partitions[piece.where]
            if piece.where in lags and state.position is not None:
                lead = state.position - max(0, state.log_start_offset)
                self.metrics.position(piece.where, lag=lags[piece.where], lead=lead)

    async def _next_call(self) -> Call | None:
        if (told := self.committing.next_call()) is not None:
            return told
        membership = self._membership
        call = None if membership is None else membership.next_call()
        if call is not None and membership is not None and call.told is Told.REVOKED:
            try:
                await self.committing.before_they_go(call.partitions)
            except BaseException:  # The poll was given up: the next one has to tell.
                membership.not_told(call)
                raise
        self._called_ms = self._now_ms()
        return call

    async def called(self, call: Call) -> None:
        """The user has been told. Store the positions of partitions before they are let go."""
        membership = self._membership
        if not isinstance(call, RebalanceCall) or membership is None:
            return
        self.metrics.called_back(call.told.value, self._now_ms() - self._called_ms)
        try:
            if call.told is Told.REVOKED:
                last_ms = self._now_ms() + LAST_MS
                await self.committing.until_idle(
                    last_ms if self._out_by_ms is None else min(last_ms, self._out_by_ms)
                )
        finally:
            membership.done(call)
            self.positions.kick()

    async def _wait(self, wait_ms: int) -> None:
        """Until something happens, or time is over, or the group must hear that the user still polls."""
        share_ms = max(1, self.config.max_poll_interval_ms // _POLLS_PER_INTERVAL)
        if (due_in_ms := self.committing.due_in_ms) is not None:
            share_ms = min(share_ms, due_in_ms)
        since_ms = self._now_ms()
        try:
            await self.waiting.news(min(wait_ms, share_ms))
        finally:
            self._idle_ms += self._now_ms() - since_ms

    # Orders

    def read_committed(self) -> None:
        """From now on hand out only committed records; records fetched otherwise are fetched again."""
        if self.config.isolation_level == READ_COMMITTED:
            return
        values = {**self.config.values, "isolation.level": READ_COMMITTED}
        self.config = replace(self.config, isolation_level=READ_COMMITTED, values=values)
        self.positions.config = self._fetcher.config = self.config
        self.committing.chain.reads_committed = True
        for where, state in self.subscription.all_consumed().items():
            if state.position is not None:
                self.subscription.seek(where, state.position, state.leader_epoch)

    def enforce_rebalance(self, reason: str | None) -> None:
        """Have the group's partitions divided anew, where clients divide them."""
        if not self._is_member or self._membership is None:
            raise IllegalStateException("Tried to force a rebalance but consumer does not have a group.")
        _logger.info("a rebalance is asked for: %s", reason or "no reason given")
        if not self._membership.rejoin():
            _logger.warning(
                "with group.protocol=consumer the broker assigns: there is no rebalance to enforce"
            )

    # Waiting for answers

    def limit_ms(self, timeout_ms: int | None) -> int:
        """How long a call may take: as given, or `default.api.timeout.ms`."""
        return self.config.default_api_timeout_ms if timeout_ms is None else wait_ms(timeout_ms)

    async def patiently(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int | None = None) -> T:
        """The attempt's result, tried again while its errors may pass; raises `TimeoutException` in the end."""
        self._check()
        limit_ms = self.limit_ms(timeout_ms)
        since_ms = self._now_ms()

        async def tried() -> T:
            return await self._cluster.patiently(attempt, timeout_ms=limit_ms, may_repeat=_may_pass)

        return await self.waiting.until_woken(
            in_time(tried, limit_ms, last=lambda: self.troubles.last(since_ms))
        )

    async def position(self, where: TopicPartition, timeout_ms: int | None) -> int:
        """The offset of the next record; looked for if it is not known yet."""
        self._check()
        limit_ms = self.limit_ms(timeout_ms)
        since_ms = self._now_ms()
        deadline_ms = since_ms + limit_ms
        self.positions.is_awaited = True
        while True:
            self.waiting.begin()
            self.waiting.check()
            state = self.state(where)
            if state.position is not None and state.has_position:
                return state.position
            left_ms = deadline_ms - self._now_ms()
            if left_ms <= 0:
                raise TimeoutException(
                    f"Timeout of {limit_ms}ms expired before the position for partition {where} could be determined"
                    f"{self.troubles.last(since_ms)}"
                )
            self.positions.kick()
            self._validation.kick()
            await self._wait(left_ms)

    def state(self, where: TopicPartition) -> PartitionState:
        """A partition's; raises if it is not this consumer's."""
        try:
            return self.subscription.state(where)
        except NotAssignedError:
            raise IllegalStateException(
                f"No current assignment for partition {where}: assign() it first; a group assigns its partitions during poll()"
            ) from None

    def give_back(self, pieces: Iterable[Piece]) -> None:
        """The user did not look at these after all."""
        self._buffer.give_back(pieces)

    def take_back(self, step: Call | list[Piece]) -> None:
        """The user has not got what came of a step: it is what comes next again."""
        if isinstance(step, list):
            self.give_back(step)
        elif isinstance(step, CommitCall):
            self.committing.commits.not_told(step)
        elif self._membership is not None:
            self._membership.not_told(step)

    # Ends

    async def leaving_step(self, deadline_ms: int) -> Call | None:
        """The next call on the way out of the group; None when the consumer is out, or out of time."""
        self._out_by_ms = deadline_ms
        since_ms = self._now_ms()
        if not self._has_left:
            await self.committing.until_idle(deadline_ms)
            self._has_left = True
            if self._is_member and self._membership is not None:
                self._membership.leave()
            else:
                await self.committing.at_the_end(deadline_ms)
        while True:
            self.waiting.begin()
            call = await self._next_call()
            if call is not None:
                return call
            if not self._is_member or self._membership is None or self._membership.is_out:
                return None
            left_ms = deadline_ms - self._now_ms()
            if left_ms <= 0:
                _logger.warning(
                    "%s did not get out of group %s in time, which gives its partitions to others after %d ms "
                    "(session.timeout.ms)%s",
                    self.config.client_id,
                    self.config.group_id,
                    self.config.session_timeout_ms,
                    self.troubles.last(since_ms),
                )
                return None
            await self._wait(left_ms)

    def unsubscribed(self) -> None:
        """The consumer is out of its group, and wants nothing."""
        self._has_left = False
        self._out_by_ms = None
        self._dropped(list(self.subscription.partitions))
        self.subscription.unsubscribe()
        self.listener = None
        self._regex = None

    async def close(self) -> None:
        """End everything that is under way."""
        self._is_closed = True
        await self._fetcher.close()
        if self._membership is not None:
            await self._membership.close()
        self._fetching.close()
        self._cluster.close()

    @property
    def is_in_group(self) -> bool:
        """Whether a group counts on this consumer."""
        return self._is_member and self._membership is not None and self._membership.is_joined

    def leave_unclosed(self, when: str) -> None:
        """Nobody closed the consumer, and it cannot know which of its records were worked on: it does not commit."""
        config = self.config
        _logger.warning(
            "%s was not closed %s: group %s gives its partitions to others after %d ms (session.timeout.ms), and what was read "
            "since the last commit is read again. Call close(), or use the consumer in a with statement",
            config.client_id,
            when,
            config.group_id,
            config.session_timeout_ms,
        )
        self.give_up()

    def give_up(self) -> None:
        """End the connections at once, without a word to anybody."""
        self._is_closed = True
        self._fetcher.stop()
        if self._membership is not None:
            self._membership.stop()
        self._fetching.close()
        self._cluster.close()

    # Beside

    def _check(self) -> None:
        if self._is_closed:
            raise IllegalStateException("This consumer has already been closed: make a new one.")
        if not self._is_started:
            self._is_started = True
            tasks = self.runtime.tasks
            tasks.spawn(self.topics.run(), name="topics", on_failure=self._broke)
            if self.config.metric_reporters:
                reporting = report(
                    self.metrics.registry,
                    self.config.metric_reporters,
                    tasks,
                    interval_ms=self.config.metrics_sample_window_ms,
                )
                tasks.spawn(reporting, name="metric reporters")

    def check(self) -> None:
        """Raise if the consumer is closed."""
        self._check()

    def _broke(self, name: str, error: BaseException) -> None:
        broken = (
            as_exception(error) if isinstance(error, SemelError) else KafkaException(f"{name}: {error!r}")
        )
        broken.__cause__ = error
        self.waiting.fail(broken)

    def _found(self) -> None:
        """Positions or records came."""
        self._fetcher.kick()
        if not self._is_loading and self._buffer.size_bytes:
            self._is_loading = True
            self.runtime.tasks.spawn(self._load_kernels(), name="load kernels", on_failure=self._broke)
        self.waiting.tell()

    async def _load_kernels(self) -> None:
        await self.runtime.tasks.in_thread(load_decoding)
        self.waiting.tell()

    def _now_ms(self) -> int:
        return self.runtime.clock.monotonic_ms()


def _may_pass(error: DisconnectedError | RefusedError) -> bool:
    """Whether a question may be asked again; a member's epoch may have grown between the asking and the answer."""
    return error.code is ErrorCode.STALE_MEMBER_EPOCH or as_exception(error).retriable
