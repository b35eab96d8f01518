"""A producer's knowledge of topics: partitions, their leaders, and the current one for keyless records.

Role.   `Topics` asks the cluster for what is missing or old, and remembers it.
Flow.   `get` is asked for every record, on any thread; `fetch` waits for a topic, on the loop. The sender reports with
        `leader_moved` and `is_stale` what an answer said.
Rules.  * A topic that does not exist is asked for until the time is over. With `auto.create.topics.enable` brokers make it on
          the first question, and they hear of it at different moments.
        * Metadata is asked for again after `metadata.max.age.ms`, and at once when an answer shows that it is old. A topic
          nobody has sent to for `metadata.max.idle.ms`, and of which no batch waits, is forgotten.
        * A refused topic fails the callers that ask for it. The others of the same answer are learnt all the same. Known
          facts of the refused topic are kept: its leader says more of batches under way.
        * A topic asked for in vain is asked for again after a pause that grows.
        * Metadata is replaced as a whole, so that other threads see one state or the other.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from semel.client.cluster import Cluster, TopicView, is_locked_out, missing_topic, topic_view, without_leader
from semel.client.settings import ProducerConfig
from semel.client.troubles import Kind
from semel.core.client.sticky import Sticky
from semel.core.wire.messages.metadata import MetadataResponseTopic
from semel.errors import DisconnectedError, ErrorCode, RefusedError, error_code
from semel.exceptions import KafkaException, TimeoutException, as_exception, exception_for
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

_NO_LEADER: Final = -1
_HOPELESS: Final = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class KnownTopic:
    """A topic as the producer sees it."""

    __slots__ = ("available", "count", "leaders", "name", "partitions", "sticky", "topic_id", "used_ms")

    def __init__(self, view: TopicView, sticky: Sticky, now_ms: int) -> None:
        self.name = view.name
        self.topic_id = view.topic_id.bytes
        self.count = len(view.partitions)
        self.partitions = [TopicPartition(view.name, index) for index in range(self.count)]
        self.leaders = [one.leader for one in view.partitions]
        self.available = [index for index, leader in enumerate(self.leaders) if leader != _NO_LEADER]
        self.sticky = sticky
        self.used_ms = now_ms


class Topics:
    """The topics a producer sends to."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, runtime: Runtime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._known: dict[str, KnownTopic] = {}
        self._problems: dict[str, ErrorCode] = {}
        self._refreshed_ms = runtime.clock.monotonic_ms()
        self._refreshing: asyncio.Task[None] | None = None
        self._failures = 0
        self.is_stale = False
        self.get = self._known.get
        """The topic, or None if it is not known yet; for every record, so without a call in between."""

    def all(self) -> list[KnownTopic]:
        return list(self._known.values())

    def leader(self, partition: TopicPartition) -> int | None:
        """The leader of a partition; None while it is not known."""
        known = self._known.get(partition.topic)
        if known is None or partition.partition >= known.count:
            return None
        leader = known.leaders[partition.partition]
        return None if leader == _NO_LEADER else leader

    def leader_moved(self, partition: TopicPartition, leader: int) -> None:
        """An answer told who leads now."""
        known = self._known.get(partition.topic)
        if known is not None and partition.partition < known.count and leader in self._cluster.nodes:
            known.leaders[partition.partition] = leader

    def due_ms(self) -> int:
        """When what is known is to be asked again."""
        return self._refreshed_ms + self._config.metadata_max_age_ms

    def pause_ms(self) -> int:
        """How long to wait between two questions about what is known."""
        return self._cluster.backoff_ms(max(1, self._failures))

    @property
    def age_ms(self) -> int:
        """How old what is known is."""
        return self._runtime.clock.monotonic_ms() - self._refreshed_ms

    async def fetch(self, name: str, partition: int | None, timeout_ms: int) -> KnownTopic:
        """The topic, with the partition if one is named; raises `TimeoutException` if it is not there in time."""
        clock = self._runtime.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        tries = 0
        while True:
            known = self._known.get(name)
            if known is not None and (partition is None or partition < known.count):
                return known
            tries += 1
            why = await self._ask([name], deadline_ms)
            known = self._known.get(name)
            if known is not None and (partition is None or partition < known.count):
                return known
            problem = self._problems.get(name)
            if problem in _HOPELESS:
                raise self._hopeless(name, problem)
            if known is not None:
                what = f"topic {name} has the partitions 0 to {known.count - 1}, and no {partition}"
                self._cluster.troubles.met(
                    Kind.PARTITION, f"{name}-{partition}", what, "add partitions to it"
                )
            pause_ms = self._cluster.backoff_ms(tries)
            if clock.monotonic_ms() + pause_ms >= deadline_ms:
                raise self._missing(name, partition, known, timeout_ms, why)
            await self._runtime.tasks.sleep(pause_ms / 1000)

    def _missing(
        self, name: str, partition: int | None, known: KnownTopic | None, timeout_ms: int, why: str
    ) -> TimeoutException:
        if known is not None:
            return TimeoutException(
                f"Partition {partition} of topic {name} with partition count {known.count} is not present in metadata "
                f"after {timeout_ms} ms: its partitions are 0 to {known.count - 1}; Admin.create_partitions adds some"
            )
        reason = why or f"{self._problems.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION).name}"
        return TimeoutException(f"Topic {name} not present in metadata after {timeout_ms} ms. ({reason})")

    def refresh(self, waiting: Collection[str]) -> "asyncio.Task[None] | None":
        """Ask again for everything in use, beside the sending; the task that does it, unless nothing is in use.

        `waiting`: topics of which batches wait, however long nothing was sent to them.
        """
        if self._refreshing is not None and not self._refreshing.done():
            return self._refreshing
        idle_ms = self._runtime.clock.monotonic_ms() - self._config.metadata_max_idle_ms
        for known in self.all():
            if known.used_ms < idle_ms and known.name not in waiting:
                del self._known[known.name]
        self.is_stale = False
        self._refreshed_ms = self._runtime.clock.monotonic_ms()
        if not self._known:
            return None
        self._refreshing = self._runtime.tasks.spawn(self._refresh(), name="metadata refresh")
        return self._refreshing

    async def _refresh(self) -> None:
        try:
            why = await self._ask(list(self._known))
        except KafkaException as error:  # The next send raises it.
            why = str(error)
        self._failures = self._failures + 1 if why else 0
        if why:
            self.is_stale = True

    async def _ask(self, names: list[str], deadline_ms: int | None = None) -> str:
        """Ask about topics; why there was no answer, or nothing."""
        cluster = self._cluster
        try:
            if deadline_ms is None:
                answer = await cluster.metadata(names, create=True)
            else:
                answer = await cluster.in_time(lambda: cluster.metadata(names, create=True), deadline_ms)
        except (DisconnectedError, RefusedError) as error:
            if is_locked_out(error):
                raise as_exception(error) from error
            return str(error)
        for topic in answer.topics:
            self._learn(topic)
        return ""

    def _learn(self, topic: MetadataResponseTopic) -> None:
        name = topic.name or ""
        code = error_code(topic.error_code)
        troubles, where = self._cluster.troubles, self._cluster.where
        if code and not topic.partitions:
            self._problems[name] = code
            if code not in _HOPELESS:
                troubles.met(Kind.TOPIC, name, *missing_topic(name, where, code))
            return
        self._problems.pop(name, None)
        now_ms = self._runtime.clock.monotonic_ms()
        before = self._known.get(name)
        sticky = before.sticky if before else Sticky(self._config.batch_size, self._runtime.dice.getrandbits)
        view = topic_view(topic)
        leaderless = [one for one in view.partitions if one.leader == _NO_LEADER]
        if leaderless:
            troubles.met(Kind.TOPIC, name, *without_leader(name, leaderless, where))
        elif troubles.is_any:
            troubles.over(Kind.TOPIC, name)
        known = KnownTopic(view, sticky, before.used_ms if before else now_ms)
        if known.count:
            self._known[name] = known

    def _hopeless(self, name: str, code: ErrorCode) -> KafkaException:
        what = (
            "is not a valid topic name"
            if code is ErrorCode.INVALID_TOPIC_EXCEPTION
            else "may not be used by this client"
        )
        return exception_for(code, f"{name!r} {what}, says {self._cluster.where}")
