"""Fetches under way: one to every broker that leads something the consumer wants, as long as there is room.

Role.   `Fetcher` keeps the buffer filled: it plans what to ask of whom, sends, and puts away what comes back.
Flow.   `kick` -> per broker: the buffer's wants, by leader -> the session's plan -> Fetch -> `FetchBuffer.add` -> `on_news`,
        and again.
Rules.  * One fetch to a broker at a time; it may wait there for `fetch.max.wait.ms`. A waiting fetch that misses partitions
          wanted by now (after a seek, a new assignment, a resume) is ended with its connection, and asked anew.
        * While there are enough records of one of a broker's partitions, the broker is not asked for the others. It might
          wait, and hold up the next fetch of the first.
        * A broker that does not answer, and a partition that cannot be read for a while, rest before they are asked again.
        * Records for a position that is no longer the consumer's are dropped (`FetchBuffer.add` says why).
        * A position is checked before it is fetched from a new leader (`validation`).
        * An offset out of range starts a reset, or with `auto.offset.reset=none` is the user's to hear about.
        * Where the leader names a replica nearer to `client.rack`, the consumer asks that replica for a while. If it does not
          answer, or does not have the offset, the consumer goes back to the leader.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from semel.client.client_metrics import ConsumerMetrics
from semel.client.cluster import Cluster
from semel.client.config import ISOLATION_LEVELS
from semel.client.consumer.topics import Topics
from semel.client.settings import ConsumerConfig
from semel.client.troubles import Kind
from semel.core.client.fetch_buffer import FetchBuffer
from semel.core.client.fetch_session import FetchPlan, FetchSession, Wanted
from semel.core.client.reset import Reset, ResetKind
from semel.core.client.subscription import PartitionState, Subscription
from semel.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from semel.errors import DisconnectedError, ErrorCode, RefusedError, error_code
from semel.exceptions import KafkaException, OffsetOutOfRangeException, exception_for
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
_API_KEY: Final = FetchRequest.schema.api_key
_IDS_SINCE: Final = 13
_NO_ID: Final = bytes(16)
_CONSUMER: Final = -1
_NO_REPLICA: Final = -1
_PATIENCE_MS: Final = 20
"""So long a fetch is waited for that does not ask for what is wanted by now."""
_LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class _Asked(NamedTuple):
    """The wish of one fetch for a partition."""

    turn: int
    wanted: Wanted


class _UnderWay(NamedTuple):
    """A fetch that has no answer yet."""

    task: asyncio.Task[None]
    asked: Mapping[TopicPartition, _Asked]
    since_ms: int


class Fetcher:
    """One consumer's fetches."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        subscription: Subscription,
        buffer: FetchBuffer,
        config: ConsumerConfig,
        reset: Reset,
        *,
        check: Callable[[], None],
        on_news: Callable[[], None],
        on_failure: Callable[[KafkaException], None],
        metrics: ConsumerMetrics,
    ) -> None:
        self._metrics = metrics
        self._check = check
        self._cluster = cluster
        self._topics = topics
        self._subscription = subscription
        self._buffer = buffer
        self.config = config
        self._reset = reset
        self._on_news = on_news
        self._on_failure = on_failure
        self._sessions: dict[int, FetchSession[Wanted]] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._ended: set[int] = set()
        """The brokers whose fetch this side has ended."""
        self._resting: dict[int | TopicPartition, int] = {}
        self._nearer: dict[TopicPartition, tuple[int, int]] = {}
        self._is_closed = False

    def kick(self) -> None:
        """Ask for what is wanted now, of brokers that have nothing to do."""
        if self._is_closed:
            return
        by_node: dict[int, dict[TopicPartition, _Asked]] = {}
        now_ms = self._now_ms()
        wants = self._buffer.wants()
        for where, state in wants.wanted.items():
            if self._rests(where, now_ms):
                continue
            node_id, asked = self._asked(where, state, now_ms)
            if asked is not None:
                by_node.setdefault(node_id, {})[where] = asked
        self._check()
        # A broker that has more of what there is enough of is not asked to wait for the rest: that would hold up both.
        for where in wants.full:
            by_node.pop(self._node_of(where, now_ms), None)
        for node_id, wanted in by_node.items():
            if node_id in self._under_way:
                self._hurry(node_id, wanted, now_ms)
            elif not self._rests(node_id, now_ms):
                work = self._fetch(node_id, wanted)
                task = self._cluster.runtime.tasks.spawn(work, name=f"fetch from {node_id}")
                self._under_way[node_id] = _UnderWay(task, wanted, now_ms)

    def _hurry(self, node_id: int, wanted: Mapping[TopicPartition, _Asked], now_ms: int) -> None:
        """A fetch that waits at the broker is ended if something is wanted by now that it does not ask for."""
        under_way = self._under_way[node_id]
        if all(under_way.asked.get(where) == asked for where, asked in wanted.items()):
            return
        left_ms = under_way.since_ms + _PATIENCE_MS - now_ms
        if left_ms > 0:
            self._cluster.runtime.tasks.call_later(left_ms / 1000, self.kick)
        elif node_id not in self._ended:
            self._ended.add(node_id)
            self._cluster.disconnect(node_id)

    def stop(self) -> None:
        """Ask for nothing more."""
        self._is_closed = True

    async def close(self) -> None:
        """Ask for nothing more. Sessions end with the connections, which may be held up by a fetch that waits."""
        self.stop()
        tasks = [one.task for one in self._under_way.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _asked(self, where: TopicPartition, state: PartitionState, now_ms: int) -> tuple[int, _Asked | None]:
        view = self._topics.partition(where)
        if view is None or not self._subscription.led_under(where, view.leader_epoch):
            return _NO_REPLICA, None
        wanted = Wanted(self._topics.topic_id(where.topic), state.fetch_offset, view.leader_epoch)
        return self._node_of(where, now_ms), _Asked(state.turn, wanted)

    def _node_of(self, where: TopicPartition, now_ms: int) -> int:
        """The broker asked for a partition: its leader, or a nearer replica for as long as that holds."""
        node_id, until_ms = self._nearer.get(where, (_NO_REPLICA, 0))
        if until_ms > now_ms:
            return node_id
        self._nearer.pop(where, None)
        view = self._topics.partition(where)
        return _NO_REPLICA if view is None else view.leader

    # One fetch

    async def _fetch(self, node_id: int, asked: Mapping[TopicPartition, _Asked]) -> None:
        session = self._sessions.setdefault(node_id, FetchSession[Wanted]())
        config, clock = self.config, self._cluster.runtime.clock
        try:
            served = (await self._cluster.served(node_id)).get(_API_KEY, (0, 0))
            ids = {where.topic: one.wanted.topic_id for where, one in asked.items()}
            by_id = served[1] >= _IDS_SINCE and _NO_ID not in ids.values()
            plan = session.plan({where: one.wanted for where, one in asked.items()}, by_id=by_id)
            since_ms = clock.monotonic_ms()
            answer = await self._cluster.send(
                self._request(plan),
                node_id=node_id,
                version_max=None if by_id else _IDS_SINCE - 1,
                timeout_ms=config.fetch_max_wait_ms,
            )
        except (DisconnectedError, RefusedError) as error:
            session.failed()
            if node_id not in self._ended:
                for where in asked:
                    self._nearer.pop(where, None)
                self._rest(node_id)
                self._topics.wanted()
                _logger.debug("fetch from broker %d: %s", node_id, error)
        except asyncio.CancelledError:
            session.failed()
            raise
        except (
            Exception
        ):  # An answer that cannot be understood, say: it is reported with the task, and asked for again.
            session.failed()
            self._rest(node_id)
            raise
        else:
            self._answered(node_id, session, answer, asked, {of: name for name, of in ids.items()})
            size = sum(len(data.records or b"") for topic in answer.responses for data in topic.partitions)
            self._metrics.answered_fetch(
                latency_ms=clock.monotonic_ms() - since_ms,
                size_bytes=size,
                throttle_ms=answer.throttle_time_ms,
            )
        finally:
            self._ended.discard(node_id)
            del self._under_way[node_id]
        self._on_news()

    def _request(self, plan: FetchPlan[Wanted]) -> FetchRequest:
        config = self.config
        topics: dict[tuple[str, bytes], FetchTopic] = {}
        for where, wanted in plan.say.items():
            topic_id = wanted.topic_id if plan.by_id else _NO_ID
            topic = topics.setdefault(
                (where.topic, topic_id), FetchTopic(topic=where.topic, topic_id=topic_id)
            )
            topic.partitions.append(
                FetchPartition(
                    partition=where.partition,
                    current_leader_epoch=wanted.leader_epoch,
                    fetch_offset=wanted.fetch_offset,
                    partition_max_bytes=config.max_partition_fetch_bytes,
                )
            )
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for where, topic_id in plan.forget.items():
            named = topic_id if plan.by_id else _NO_ID
            forgotten.setdefault(
                (where.topic, named), ForgottenTopic(topic=where.topic, topic_id=named)
            ).partitions.append(where.partition)
        return FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=ISOLATION_LEVELS.index(config.isolation_level),
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id=config.client_rack,
        )

    def _answered(
        self,
        node_id: int,
        session: FetchSession[Wanted],
        answer: FetchResponse,
        asked: Mapping[TopicPartition, _Asked],
        names: Mapping[bytes, str],
    ) -> None:
        code = error_code(answer.error_code)
        session.answered(answer.session_id, code)
        if code:
            if not code.retriable:
                self._on_failure(
                    exception_for(code, f"broker {node_id} refuses to be fetched from: {code.name}")
                )
            else:
                refusal = f"broker {node_id} of {self._cluster.where} refuses to be fetched from: {code.name}"
                self._cluster.troubles.met(Kind.PARTITION, f"broker {node_id}", refusal)
            self._rest(node_id)
            return
        if self._cluster.troubles.is_any:
            self._cluster.troubles.over(Kind.PARTITION, f"broker {node_id}")
        for topic in answer.responses:
            name = topic.topic or names.get(bytes(topic.topic_id), "")
            for data in topic.partitions:
                where = TopicPartition(name, data.partition_index)
                if where in asked:
                    self._take(node_id, where, asked[where], data)

    def _take(self, node_id: int, where: TopicPartition, asked: _Asked, data: PartitionData) -> None:
        state = self._subscription.partitions.get(where)
        if state is None or state.turn != asked.turn:
            return
        code = error_code(data.error_code)
        offset = asked.wanted.fetch_offset
        if code:
            self._nearer.pop(where, None)
            view = self._topics.partition(where)
            is_leader = view is None or view.leader == node_id
            if (
                is_leader or code is not ErrorCode.OFFSET_OUT_OF_RANGE
            ):  # A follower may be behind: ask the leader.
                self._refused(where, state, code, offset, data)
            return
        if self._cluster.troubles.is_any:
            self._cluster.troubles.over(Kind.PARTITION, str(where))
        if data.preferred_read_replica != _NO_REPLICA:
            until_ms = self._now_ms() + self.config.metadata_max_age_ms
            self._nearer[where] = (data.preferred_read_replica, until_ms)
        if data.high_watermark >= 0:
            state.high_watermark = data.high_watermark
            state.last_stable_offset = data.last_stable_offset
            state.log_start_offset = data.log_start_offset
        aborted = None
        if self.config.isolation_level == "read_committed":
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        self._buffer.add(where, asked.turn, offset, data.records or b"", aborted)

    def _refused(
        self, where: TopicPartition, state: PartitionState, code: ErrorCode, offset: int, data: PartitionData
    ) -> None:
        self._rest(where)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.position != offset:
                return  # Buffered records come first.
            if self._reset.kind is not ResetKind.NONE:
                _logger.info("%s has no offset %d: reset to %s", where, offset, self._reset.kind)
                self._subscription.lose_position(where, self._reset)
                return
            begins = f", it begins at {data.log_start_offset}" if data.log_start_offset >= 0 else ""
            self._on_failure(
                OffsetOutOfRangeException(
                    f"{where} has no offset {offset}{begins}: seek elsewhere, or set auto.offset.reset"
                )
            )
        elif code in _LOOK_AGAIN:
            self._topics.wanted()
            refusal = f"{where} cannot be read from offset {offset} at {self._cluster.where}: {code.name}"
            self._cluster.troubles.met(Kind.PARTITION, str(where), refusal, "it is asked for again")
        else:
            self._on_failure(
                exception_for(code, f"{where} cannot be fetched from offset {offset}: {code.name}")
            )

    # Rests

    def _rest(self, who: int | TopicPartition) -> None:
        """Leave a broker or a partition alone for a moment."""
        pause_ms = self.config.retry_backoff_ms
        self._resting[who] = self._now_ms() + pause_ms
        self._cluster.runtime.tasks.call_later(pause_ms / 1000, self._rested, who)

    def _rested(self, who: int | TopicPartition) -> None:
        self._resting.pop(who, None)
        self.kick()

    def _rests(self, who: int | TopicPartition, now_ms: int) -> bool:
        return self._resting.get(who, now_ms) > now_ms

    def _now_ms(self) -> int:
        return self._cluster.runtime.clock.monotonic_ms()
