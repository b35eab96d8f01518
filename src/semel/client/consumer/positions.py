"""Where partitions begin: the group's stored position, or the start, the end or a time of the log.

Role.   `Positions` finds a position for every partition that has none, beside everything else; `offsets_at` answers the user's
        own questions about offsets and times.
Flow.   `kick` -> OffsetFetch for those nothing is known of -> what has nothing stored is reset by `auto.offset.reset` ->
        ListOffsets to every leader -> `Subscription.found`.
Rules.  * What cannot be found now is looked for again, with a growing pause, for as long as the partition is assigned.
        * `auto.offset.reset=none` and nothing stored is the user's to hear about.
        * A position that was sought meanwhile stands; nothing is looked for before the user waits for it, because he may still
          seek.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from semel.client.calls.list_offsets import Asked, FoundOffset, all_found, ask_leaders
from semel.client.cluster import Cluster
from semel.client.consumer.coordinator import GroupOffsets
from semel.client.consumer.topics import Topics
from semel.client.settings import ConsumerConfig
from semel.client.troubles import Kind
from semel.core.client.reset import LATEST, Reset, ResetKind
from semel.core.client.subscription import Subscription
from semel.core.groups.member_words import Identity
from semel.errors import DisconnectedError, ErrorCode, RefusedError
from semel.exceptions import KafkaException, NoOffsetForPartitionException, as_exception
from semel.types import UNKNOWN_OFFSET, TopicPartition

_POSITIONS: Final = "what begins at a position that was looked for"


class Positions:
    """One consumer's."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        subscription: Subscription,
        config: ConsumerConfig,
        reset: Reset,
        offsets: GroupOffsets | None,
        *,
        identity: Callable[[], Identity],
        on_news: Callable[[], None],
        on_failure: Callable[[KafkaException], None],
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._subscription = subscription
        self.config = config
        self._reset = reset
        self._offsets = offsets
        self._identity = identity
        self._on_news = on_news
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None
        self._refused: set[str] = set()
        """Topics of which a leader refused an answer: they are looked up anew, also where this consumer reads others."""
        self.is_awaited = False
        """Whether the user has polled since he assigned partitions."""

    def kick(self) -> None:
        """Look for what is missing, unless somebody does already."""
        if (
            self.is_awaited
            and self._subscription.without_position()
            and (self._task is None or self._task.done())
        ):
            self._task = self._cluster.runtime.tasks.spawn(self._find(), name="find positions")

    async def _find(self) -> None:
        tries = 0
        while missing := self._subscription.without_position():
            try:
                done = await self._round(
                    {where: (state.turn, state.reset) for where, state in missing.items()}
                )
            except NoOffsetForPartitionException as error:
                self._on_failure(error)
                return
            except (DisconnectedError, RefusedError) as error:
                if isinstance(error, RefusedError) and not _passes(error.code):
                    self._on_failure(as_exception(error))
                    return
                done = False
                self._report(error)
            if done:
                tries = 0
                self._cluster.troubles.over(Kind.PARTITION, _POSITIONS)
                self._on_news()
            else:
                tries += 1
                self._topics.wanted()
                await self._cluster.runtime.tasks.sleep(self._cluster.backoff_ms(tries) / 1000)

    def _report(self, error: DisconnectedError | RefusedError) -> None:
        """Tell why positions are looked for again, unless the topic or the coordinator is known to be the reason."""
        troubles = self._cluster.troubles
        if isinstance(error, RefusedError) and not (troubles.has(Kind.TOPIC) or troubles.has(Kind.GROUP)):
            troubles.met(Kind.PARTITION, _POSITIONS, str(error), "it is asked again")

    async def _round(self, missing: Mapping[TopicPartition, tuple[int, Reset | None]]) -> bool:
        """One attempt; whether anything was found."""
        unknown = [where for where, (_, reset) in missing.items() if reset is None]
        resets = {where: reset for where, (_, reset) in missing.items() if reset is not None}
        found = False
        if unknown:
            stored = {} if self._offsets is None else await self._offsets.committed(unknown, self._identity())
            for where in unknown:
                turn = missing[where][0]
                if where in stored:
                    at = stored[where]
                    found |= self._subscription.found(where, turn, at.offset, at.leader_epoch)
                else:
                    resets[where] = self._reset
            nowhere = [where for where in unknown if where not in stored]
            if nowhere and self._reset.kind is ResetKind.NONE:
                still = [where for where in nowhere if self._is_missing(where, missing[where][0])]
                if still:
                    raise NoOffsetForPartitionException(
                        f"Undefined offset with no reset policy for partitions: [{', '.join(map(str, still))}]: "
                        "seek() first, or set auto.offset.reset to earliest or latest"
                    )
        now_ms = self._cluster.runtime.clock.now_ms()
        asked = {where: reset.timestamp(now_ms) for where, reset in resets.items()}
        if asked:
            for where, begin in (await self._offsets_or_end(asked)).items():
                found |= self._subscription.found(
                    where, missing[where][0], begin.offset
                )  # Just heard: it stands.
        return found

    def _is_missing(self, where: TopicPartition, turn: int) -> bool:
        state = self._subscription.partitions.get(where)
        return state is not None and state.turn == turn and state.position is None

    async def _offsets_or_end(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        found = await self.offsets_at(asked)
        beyond = {where: LATEST.timestamp(0) for where, at in found.items() if at.offset == UNKNOWN_OFFSET}
        return {**found, **await self.offsets_at(beyond)} if beyond else found

    # Questions

    async def offsets_at(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """The offsets at these timestamps, as the leaders say; raises if a leader is not known or does not answer."""
        topics = {where.topic for where in asked}
        unknown = {where.topic for where in asked if self._topics.partition(where) is None}
        if unknown or self._refused & topics:
            await self._topics.refresh(sorted(topics))
            self._refused -= topics
        by_leader: dict[int, dict[TopicPartition, Asked]] = {}
        for where, timestamp in asked.items():
            view = self._topics.partition(where)
            if view is None:
                raise self._without_leader(where)
            by_leader.setdefault(view.leader, {})[where] = Asked(timestamp, view.leader_epoch)
        answers = await ask_leaders(self._cluster, by_leader, isolation_level=self.config.isolation_level)
        for where, answer in answers.items():
            if isinstance(answer, RefusedError):
                self._topics.wanted()
                self._refused.add(where.topic)
        return all_found(answers)

    def _without_leader(self, where: TopicPartition) -> RefusedError:
        """Why a partition cannot be asked for its offsets."""
        view, at = self._topics.views.get(where.topic), self._cluster.where
        if view is None:
            text = f"topic {where.topic} does not exist at {at}: create it, or correct its name"
        elif where.partition >= len(view.partitions):
            last = len(view.partitions) - 1
            text = f"{where} does not exist at {at}: topic {where.topic} has the partitions 0 to {last}"
        else:
            return RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader at {at}")
        return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


def _passes(code: ErrorCode) -> bool:
    return code.retriable or code in (
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
