"""When a consumer's positions are stored: when the user says so, at the interval, before partitions go, and at the end.

Role.   `Committing` knows which positions there are to store and as whom; `Commits` carries them to the coordinator. Without a
        group there is nothing to do, and whatever needs one raises.
Flow.   a poll: `automatically` -> partitions are about to go: `before_they_go` -> the consumer closes: `at_the_end`.
Rules.  * A commit stores the position of the next record, of partitions whose position is known to be in the log. A transaction
          takes the others along: their records were handed out, and it stores the outputs made of them. The next consumer to
          begin there checks the position by its epoch.
        * An automatic commit never raises: records of a failed one are read again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from semel.client.chain import Chain
from semel.client.cluster import Cluster
from semel.client.config import READ_COMMITTED
from semel.client.consumer.commits import CommitCall, Commits
from semel.client.consumer.coordinator import GroupOffsets
from semel.client.consumer.membership import Membership
from semel.client.settings import ConsumerConfig
from semel.client.values.consuming import (
    CommitCallback,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OwnGroupMetadata,
)
from semel.core.client.subscription import Mode, PartitionState, Subscription
from semel.core.groups.member_words import Identity
from semel.exceptions import InvalidGroupIdException, KafkaException
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
LAST_MS: Final = 5_000
"""How long positions are tried to be stored before partitions go, whatever the coordinator does."""


class Committing:
    """One consumer's."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        *,
        membership: Callable[[], Membership | None],
        on_news: Callable[[], None],
        on_latency: Callable[[float], None],
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._membership = membership
        self._now_ms = cluster.runtime.clock.monotonic_ms
        self._due_ms = 0
        group_id = config.group_id
        self.chain = Chain(
            group_id or "",
            auto_commits=config.enable_auto_commit,
            reads_committed=config.isolation_level == READ_COMMITTED,
        )
        self.offsets: GroupOffsets | None = None
        self._commits: Commits | None = None
        if group_id is not None:
            self.offsets = GroupOffsets(cluster, group_id)
            self._commits = Commits(
                cluster,
                self.offsets,
                group_id,
                membership=membership,
                on_news=on_news,
                on_latency=on_latency,
            )

    @property
    def commits(self) -> Commits:
        """Raises without a group."""
        if self._commits is None:
            raise without_group()
        return self._commits

    @property
    def group_offsets(self) -> GroupOffsets:
        """Raises without a group."""
        if self.offsets is None:
            raise without_group()
        return self.offsets

    def identity(self) -> Identity:
        """As whom this consumer speaks to the coordinator."""
        return self.commits.identity

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group."""
        identity = self.commits.identity
        return OwnGroupMetadata.of(
            self.chain,
            identity.group_id,
            identity.generation_id,
            identity.member_id,
            self._config.group_instance_id,
        )

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of all partitions that are known to be in the log."""
        return _positions(self._subscription.all_consumed())

    def handed_out(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions behind what was handed out, of all partitions."""
        return _positions(self._subscription.partitions)

    # By hand

    def begin(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, callback: CommitCallback | None
    ) -> None:
        """Store these positions, or those of everything, beside everything else."""
        commits = self.commits
        self.chain.committing()
        commits.begin(self.consumed() if offsets is None else offsets, callback)

    async def store(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, *, timeout_ms: int
    ) -> None:
        """The same, and wait for it."""
        commits = self.commits
        self.chain.committing()
        await commits.store(self.consumed() if offsets is None else offsets, timeout_ms=timeout_ms)

    def next_call(self) -> CommitCall | None:
        """The call to the user about a commit that is over."""
        return None if self._commits is None else self._commits.next_call()

    # Automatically

    def automatically(self) -> None:
        """Store what there is, if it is time to."""
        if not self._config.enable_auto_commit or self._commits is None:
            return
        now_ms = self._now_ms()
        if not self._due_ms:
            self._due_ms = now_ms + self._config.auto_commit_interval_ms
        if now_ms < self._due_ms or not self._commits.is_idle:
            return
        self._due_ms = now_ms + self._config.auto_commit_interval_ms
        offsets = self.consumed()
        if offsets and self._is_possible:
            self._commits.begin(offsets, None)

    @property
    def _is_possible(self) -> bool:
        if self._subscription.mode is Mode.PARTITIONS:
            return True
        membership = self._membership()
        return membership is not None and membership.is_joined

    @property
    def due_in_ms(self) -> int | None:
        """When it is time to, if it ever is."""
        if not self._due_ms or not self._config.enable_auto_commit:
            return None
        return max(1, self._due_ms - self._now_ms())

    async def before_they_go(self, partitions: Sequence[TopicPartition]) -> None:
        """Store what was read of partitions that are about to be taken away."""
        consumed = self.consumed()
        offsets = {where: consumed[where] for where in partitions if where in consumed}
        if offsets and self._config.enable_auto_commit:
            await self._try(offsets, LAST_MS, "before their partitions went")

    async def at_the_end(self, deadline_ms: int) -> None:
        """Store everything, of a consumer that is no member."""
        if self._config.enable_auto_commit and self.consumed():
            left_ms = max(0, min(LAST_MS, deadline_ms - self._now_ms()))
            await self._try(self.consumed(), left_ms, "at the end")

    async def _try(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int, when: str
    ) -> None:
        try:
            await self.commits.store(offsets, timeout_ms=timeout_ms)
        except KafkaException as error:
            _logger.warning("offsets were not committed %s: %s", when, error)

    async def until_idle(self, deadline_ms: int) -> None:
        """Let what is under way get through, as long as there is time."""
        if self._commits is None:
            return
        try:
            async with asyncio.timeout(max(0, deadline_ms - self._now_ms()) / 1000):
                await self._commits.until_idle()
        except TimeoutError:
            _logger.warning("commits are still under way, and are not waited for any longer")


def _positions(states: Mapping[TopicPartition, PartitionState]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        where: OffsetAndMetadata(state.position, "", state.leader_epoch)
        for where, state in states.items()
        if state.position is not None
    }


def without_group() -> InvalidGroupIdException:
    """For what needs a group."""
    return InvalidGroupIdException(
        "To use the group management or offset commit APIs, you must provide a valid group.id in the "
        "consumer configuration."
    )
