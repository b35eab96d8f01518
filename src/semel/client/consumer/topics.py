"""A consumer's knowledge of topics: leaders of partitions, ids, names.

Role.   `Topics` keeps a view of the topics the consumer has to do with, and renews it when it is old or was wrong.
Flow.   whoever meets an error that a new view may cure calls `wanted`; `run` asks the cluster and tells `on_change`.
Rules.  * A topic that is not there, or a partition without a leader, is asked for again, with a growing pause.
        * An answer with an older leader epoch is not taken: leader epochs only grow, within one topic.
        * A missing topic is told to `troubles`, and so to the log.
        * A name no topic can have, and a topic one may not see, are the user's to hear about.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from semel.client.cluster import (
    Cluster,
    PartitionView,
    TopicView,
    is_locked_out,
    missing_topic,
    topic_view,
    without_leader,
)
from semel.client.settings import ConsumerConfig
from semel.client.troubles import Kind
from semel.errors import DisconnectedError, ErrorCode, RefusedError, error_code
from semel.exceptions import KafkaException, as_exception, exception_for
from semel.types import TopicPartition

NO_LEADER: Final = -1
_FOR_THE_USER: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


class Topics:
    """One consumer's view."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        *,
        interest: Callable[[], Sequence[str] | None],
        on_change: Callable[[], None],
        on_failure: Callable[[KafkaException], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._interest = interest
        self._on_change = on_change
        self._on_failure = on_failure
        self._wanted = asyncio.Event()
        self.views: dict[str, TopicView] = {}
        self.names: tuple[str, ...] = ()
        """Every topic a subscription by pattern may mean, if there is one."""

    def wanted(self) -> None:
        """The metadata is wrong, or not enough: ask again."""
        self._wanted.set()

    def partition(self, where: TopicPartition) -> PartitionView | None:
        """The metadata of a partition that has a leader; otherwise it is asked for."""
        view = self.views.get(where.topic)
        found = None
        if view is not None and where.partition < len(view.partitions):
            found = view.partitions[where.partition]
        if found is None or found.leader == NO_LEADER:
            self.wanted()
            return None
        return found

    def topic_id(self, topic: str) -> bytes:
        """All zeros if there is none."""
        view = self.views.get(topic)
        return bytes(16) if view is None else view.topic_id.bytes

    async def run(self) -> None:
        """Keep the view fresh, until cancelled."""
        tries = 0
        while True:
            try:
                async with asyncio.timeout(self._config.metadata_max_age_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            interest = self._interest()
            if interest is not None and not interest:
                continue
            try:
                await self.refresh(interest)
                is_complete = self._knows(interest)
            except (DisconnectedError, RefusedError) as error:
                is_complete = False
                if is_locked_out(error):
                    self._on_failure(as_exception(error))
            self._on_change()
            if is_complete:
                tries = 0
                continue
            tries += 1
            await self._cluster.runtime.tasks.sleep(self._cluster.backoff_ms(tries) / 1000)
            self._wanted.set()

    async def refresh(self, names: Iterable[str] | None) -> None:
        """Ask for these topics (None: all)."""
        asked = None if names is None else list(dict.fromkeys(names))
        answer = await self._cluster.metadata(asked, create=self._config.allow_auto_create_topics)
        known: dict[str, TopicView] = {} if asked is None else dict(self.views)
        for topic in answer.topics:
            name = topic.name or ""
            code = error_code(topic.error_code)
            if code in _FOR_THE_USER:
                self._on_failure(exception_for(code, f"topic {name!r} at {self._cluster.where}: {code.name}"))
            if code:
                known.pop(name, None)
            else:
                known[name] = _newest(self.views.get(name), topic_view(topic))
            if asked is not None:
                self._report(name, code, known.get(name))
        self.views = known
        if asked is None:
            self.names = tuple(
                sorted(
                    one.name
                    for one in known.values()
                    if not (one.is_internal and self._config.exclude_internal_topics)
                )
            )

    def _report(self, name: str, code: ErrorCode, view: TopicView | None) -> None:
        """Tell what a topic that was asked for by name lacks."""
        troubles, where = self._cluster.troubles, self._cluster.where
        if code:
            troubles.met(Kind.TOPIC, name, *missing_topic(name, where, code))
            return
        leaderless = [] if view is None else [one for one in view.partitions if one.leader == NO_LEADER]
        if leaderless:
            troubles.met(Kind.TOPIC, name, *without_leader(name, leaderless, where))
        elif troubles.is_any:
            troubles.over(Kind.TOPIC, name)

    async def names_of(self, topic_ids: Sequence[bytes]) -> dict[bytes, str]:
        """The names behind ids, as far as the cluster knows them."""
        known = {view.topic_id.bytes: name for name, view in self.views.items()}
        missing = [one for one in topic_ids if one not in known]
        if missing:
            answer = await self._cluster.metadata([], topic_ids=missing)
            for topic in answer.topics:
                if not topic.error_code and topic.name:
                    view = self.views[topic.name] = topic_view(topic)
                    known[view.topic_id.bytes] = topic.name
        return {one: known[one] for one in topic_ids if one in known}

    def _knows(self, interest: Sequence[str] | None) -> bool:
        if interest is None:
            return True
        return all(
            name in self.views and all(one.leader != NO_LEADER for one in self.views[name].partitions)
            for name in interest
        )


def _newest(before: TopicView | None, now: TopicView) -> TopicView:
    """A topic as it is told now, but for partitions whose newer leader is known already. Without ids nobody can know."""
    if before is None or before.topic_id != now.topic_id or not now.topic_id.int:
        return now
    newest = {one.partition: one for one in before.partitions}
    return now._replace(
        partitions=tuple(
            newest[one.partition]
            if one.partition in newest and one.leader_epoch < newest[one.partition].leader_epoch
            else one
            for one in now.partitions
        )
    )
