"""Questions and orders of a user beside reading records: for both faces of a consumer.

Role.   `Questions` answers from the engine's state or from the brokers; `seek`, `pause` and the like change the state at once.
Rules.  Waits are bounded by `default.api.timeout.ms` or the given time, and ended by `wakeup`.
"""

import logging
from collections.abc import Mapping, Sequence

from semel.client.cluster import TopicView
from semel.client.consumer.engine import Engine
from semel.client.values.consuming import (
    CommitCallback,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
)
from semel.core.client.reset import Reset
from semel.errors import ErrorCode, RefusedError
from semel.types import UNKNOWN_OFFSET, TopicPartition

_logger = logging.getLogger(__name__)


class Questions:
    """To one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # State

    def seek(self, where: TopicPartition, to: OffsetAndMetadata) -> None:
        """Go on at this offset."""
        self._engine.check()
        self._engine.state(where)
        self._engine.subscription.seek(where, to.offset, to.leader_epoch)

    def reset(self, partitions: Sequence[TopicPartition], how: Reset | None) -> None:
        """Go on where this says, or where is committed, of all partitions if none are named."""
        self._engine.check()
        chosen = partitions or list(self._engine.subscription.partitions)
        for where in chosen:
            self._engine.state(where)
        for where in chosen:
            self._engine.subscription.reset(where, how)
        if how is None and not partitions:
            self._engine.committing.chain.rewound()
        self._engine.positions.kick()

    def pause(self, partitions: Sequence[TopicPartition], *, paused: bool) -> None:
        """Stop or go on handing out."""
        self._engine.check()
        for state in [self._engine.state(where) for where in partitions]:
            state.paused = paused

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        partitions = self._engine.subscription.partitions
        return {where for where, state in partitions.items() if state.paused}

    def current_lag(self, where: TopicPartition) -> int | None:
        """As last heard."""
        self._engine.state(where)
        committed_only = self._engine.config.isolation_level == "read_committed"
        return self._engine.subscription.lags(committed_only=committed_only).get(where)

    def enforce_rebalance(self, reason: str | None) -> None:
        """Divide anew."""
        self._engine.check()
        self._engine.enforce_rebalance(reason)

    # Commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, timeout_ms: int | None
    ) -> None:
        """Store positions, and wait for it."""
        engine = self._engine
        engine.check()
        limit_ms = engine.limit_ms(timeout_ms)
        clock = engine.runtime.clock
        since = clock.monotonic()
        await engine.waiting.until_woken(engine.committing.store(offsets, timeout_ms=limit_ms))
        engine.metrics.took("commit-sync", (clock.monotonic() - since) * 1000)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, callback: CommitCallback | None
    ) -> None:
        """Store positions beside everything else."""
        self._engine.check()
        self._engine.committing.begin(offsets, callback)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group."""
        self._engine.check()
        return self._engine.committing.group_metadata()

    async def committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What is stored."""
        committing = self._engine.committing
        offsets = committing.group_offsets

        async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            return await offsets.committed(partitions, committing.identity())

        clock = self._engine.runtime.clock
        since = clock.monotonic()
        found = await self._engine.patiently(ask, timeout_ms) if partitions else {}
        self._engine.metrics.took("committed", (clock.monotonic() - since) * 1000)
        return {where: found.get(where) for where in partitions}

    # Brokers

    async def offsets_at(
        self, partitions: Sequence[TopicPartition], where_to: Reset, timeout_ms: int | None
    ) -> dict[TopicPartition, int]:
        """The beginning or the end of each."""
        timestamp = where_to.timestamp(0)
        asked = dict.fromkeys(partitions, timestamp)
        found = await self._engine.patiently(lambda: self._engine.positions.offsets_at(asked), timeout_ms)
        return {where: found[where].offset for where in partitions}

    async def offsets_for_times(
        self, asked: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time."""
        found = await self._engine.patiently(lambda: self._engine.positions.offsets_at(asked), timeout_ms)
        return {
            where: None if at.offset == UNKNOWN_OFFSET else OffsetAndTimestamp(*at)
            for where, at in found.items()
        }

    async def partitions_for(self, topic: str, timeout_ms: int | None) -> list[PartitionInfo]:
        """The partitions of a topic."""
        topics = self._engine.topics

        async def look() -> TopicView:
            await topics.refresh([topic])
            if topic not in topics.views:
                raise RefusedError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist, or not yet"
                )
            return topics.views[topic]

        return _partitions(await self._engine.patiently(look, timeout_ms))

    async def list_topics(self, timeout_ms: int | None) -> dict[str, list[PartitionInfo]]:
        """Every topic."""
        topics = self._engine.topics
        await self._engine.patiently(lambda: topics.refresh(None), timeout_ms)
        return {name: _partitions(view) for name, view in sorted(topics.views.items())}


def _partitions(view: TopicView) -> list[PartitionInfo]:
    return [
        PartitionInfo(view.name, one.partition, one.leader, one.replicas, one.isr, one.offline)
        for one in view.partitions
    ]
