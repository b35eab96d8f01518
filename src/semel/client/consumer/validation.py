"""Whether a position is still in the log after its leader changed: a new leader may have lost what was read (KIP-320).

Role.   `Validation` asks the leaders, by OffsetForLeaderEpoch, where the epoch ended that wrote the record before a position. As
        long as that is not known the partition is not fetched and has no position to commit.
Flow.   the fetcher meets a leader epoch that is new, or somebody sought an offset with its epoch -> `kick` -> a request to every
        leader -> the position stands, or the log has been cut off below it.
Rules.  * A log that was cut off is read on from the cut, so that no record in place of a lost one is passed over. With
          `auto.offset.reset=none` the user hears of it: `LogTruncationException` says where the logs part.
        * A leader that has nothing of the epoch or before it gives nothing to go on from: the position is reset.
        * A position without an epoch, and a broker that cannot be asked (before Kafka 2.3), pass unchecked, as in Java.
        * A leader that cannot be asked now is asked again, with a growing pause, while the partition is assigned.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from semel.client.cluster import Cluster
from semel.client.consumer.topics import Topics
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.client.reset import Reset, ResetKind
from semel.core.client.subscription import Subscription
from semel.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.errors import DisconnectedError, ErrorCode, RefusedError, UnsupportedVersionError, error_code
from semel.exceptions import KafkaException, LogTruncationException, exception_for
from semel.types import UNKNOWN_OFFSET, TopicPartition

_logger = logging.getLogger(__name__)
_API_KEY: Final = OffsetForLeaderEpochRequest.schema.api_key
_FOR_CONSUMERS_SINCE: Final = 3
_CONSUMER: Final = -1
_NO_EPOCH: Final = -1


class _Asked(NamedTuple):
    """A position, as it is asked about."""

    turn: int
    position: int
    epoch: int
    """Of the record before it."""
    current_epoch: int
    """Of the leader that is asked."""


class Validation:
    """One consumer's."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        subscription: Subscription,
        reset: Reset,
        *,
        on_news: Callable[[], None],
        on_failure: Callable[[KafkaException], None],
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._subscription = subscription
        self._reset = reset
        self._on_news = on_news
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    def kick(self) -> None:
        """Ask about what is unchecked, unless somebody does already."""
        if (self._task is None or self._task.done()) and self._subscription.unchecked():
            self._task = self._cluster.runtime.tasks.spawn(self._check(), name="check positions")

    async def _check(self) -> None:
        tries = 0
        while unchecked := self._subscription.unchecked():
            by_leader: dict[int, dict[TopicPartition, _Asked]] = {}
            for where, state in unchecked.items():
                view = self._topics.partition(where)
                if view is None or state.position is None:
                    continue
                if view.leader_epoch == _NO_EPOCH or state.leader_epoch is None:
                    self._subscription.checked(where, state.turn, view.leader_epoch)
                    continue
                asked = _Asked(state.turn, state.position, state.leader_epoch, view.leader_epoch)
                by_leader.setdefault(view.leader, {})[where] = asked
            try:
                await asyncio.gather(*(self._ask(leader, of) for leader, of in by_leader.items()))
            except KafkaException as error:
                self._on_failure(error)
                return
            if len(self._subscription.unchecked()) < len(unchecked):
                tries = 0
                self._on_news()
            else:
                tries += 1
                self._topics.wanted()
                await self._cluster.runtime.tasks.sleep(self._cluster.backoff_ms(tries) / 1000)

    async def _ask(self, leader: int, asked: Mapping[TopicPartition, _Asked]) -> None:
        """Ask one leader; positions it does not answer stay unchecked. Raises what the user must hear of."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for where, one in asked.items():
            topics.setdefault(where.topic, OffsetForLeaderTopic(topic=where.topic)).partitions.append(
                OffsetForLeaderPartition(
                    partition=where.partition, current_leader_epoch=one.current_epoch, leader_epoch=one.epoch
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        try:
            served = (await self._cluster.served(leader)).get(_API_KEY, (0, 0))
            if served[1] < _FOR_CONSUMERS_SINCE:
                for where, one in asked.items():
                    self._subscription.checked(where, one.turn, one.current_epoch)
                return
            answer = await self._cluster.send(request, node_id=leader)
        except (DisconnectedError, RefusedError, UnsupportedVersionError) as error:
            _logger.debug("positions are not checked by broker %d: %s", leader, error)
            return
        for topic in answer.topics:
            for end in topic.partitions:
                where = TopicPartition(topic.topic, end.partition)
                if where in asked:
                    self._answered(where, asked[where], end)

    def _answered(self, where: TopicPartition, asked: _Asked, end: EpochEndOffset) -> None:
        code = error_code(end.error_code)
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise exception_for(code, f"the position in {where} cannot be checked: {code.name}")
        if code:
            self._topics.wanted()
        elif end.end_offset == UNKNOWN_OFFSET or end.leader_epoch == _NO_EPOCH:
            self._cut_off(where, asked, None)
        elif end.end_offset < asked.position:
            self._cut_off(where, asked, OffsetAndMetadata(end.end_offset, "", end.leader_epoch))
        else:
            self._subscription.checked(where, asked.turn, asked.current_epoch)

    def _cut_off(self, where: TopicPartition, asked: _Asked, common: OffsetAndMetadata | None) -> None:
        """The leader does not have what was read; up to `common` its log is the one that was."""
        if not self._subscription.is_unchecked(where, asked.turn):
            return
        ends = "nothing of it" if common is None else f"it up to offset {common.offset}"
        what = f"{where} was read up to offset {asked.position} of leader epoch {asked.epoch}; its leader has {ends}"
        if self._reset.kind is ResetKind.NONE:
            truncation = LogTruncationException(f"{what}: seek elsewhere, or set auto.offset.reset")
            truncation.divergent_offsets = {} if common is None else {where: common}
            raise truncation
        _logger.warning("%s", what)
        if common is None:
            self._subscription.lose_position(where, self._reset)
        else:
            self._subscription.cut_off(where, common.offset, common.leader_epoch, asked.current_epoch)
