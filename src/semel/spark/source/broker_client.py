"""Brokers for Spark's Python processes: a blocking client on a private loop's thread, shared by everything in the process.

Role.   `client_for` gives a process's client for some settings. `BrokerClient` finds partitions, asks for offsets, and fetches; `run` is
        for sinks: any coroutine function that takes a `Cluster`.
Flow.   a reader on the driver: `partitions`, `offsets`. A task: `start_fetch`, decode what came before, `fetched`, and so
        on; `fetch_together` for many small partitions.
Rules.  * Spark's workers live on between tasks, and so do connections: a trigger opens none. After `IDLE_SECONDS` without use they are
          closed, and opened again when needed.
        * A fork of the process begins anew: neither thread nor sockets are inherited.
        * A refusal that may pass (a leader moves, a broker restarts) is answered by asking again, while the caller's patience lasts.
          Any other refusal is raised at once, in the broker's words.
"""

import asyncio
import atexit
import concurrent.futures
import logging
import os
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from semel.client.calls.list_offsets import Asked as At
from semel.client.calls.list_offsets import all_found, ask_leaders
from semel.client.cluster import Cluster, PartitionView, TopicView, passes, topic_view
from semel.client.config import ISOLATION_LEVELS
from semel.client.settings import ConsumerConfig
from semel.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    InvariantError,
    RefusedError,
    UnreachableError,
    error_code,
    refused,
)
from semel.runtime.bundle import real_runtime
from semel.runtime.loop_thread import LoopThread
from semel.spark.source.options import Assign, Strategy, Subscribe, SubscribePattern
from semel.types import BytesLike, TopicPartition

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

IDLE_SECONDS: Final = 300.0
CLIENTS_MAX: Final = 16
UNREACHABLE_PATIENCE_MS: Final = 10_000
"""So long a cluster that has never answered this process is tried: it may be restarting."""
_BY_NAME_VERSION: Final = 12  # Fetch 13 names topics by their ids.
_CONSUMER: Final = -1
_NO_NODE: Final = -1
UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Found(NamedTuple):
    """Partitions there are, and topics that were asked for by name and are not there."""

    partitions: tuple[TopicPartition, ...]
    missing: tuple[str, ...]


class Asked(NamedTuple):
    """Where a fetch begins, and the bytes it may bring."""

    where: TopicPartition
    offset: int
    bytes_max: int


class Fetched(NamedTuple):
    """The result of one fetch: bytes of batches, the aborted transactions in them, and where the partition begins and ends."""

    data: BytesLike
    aborted: list[tuple[int, int]] | None
    log_start_offset: int
    end_offset: int
    """The last stable offset for read_committed, the high watermark otherwise."""


class BrokerClient:
    """A client for one process and one set of settings."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self._runtime = real_runtime(threads_max=1)
        self._thread = LoopThread("semel-spark")
        self._questions = _Questions(Cluster(self._runtime, config), config)
        self._in_use = 0
        self._idle: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._thread.is_open

    @property
    def is_in_use(self) -> bool:
        """Whether a call is under way."""
        return self._in_use > 0

    def run(
        self,
        work: Callable[Concatenate[Cluster, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of `work(cluster, …)`."""
        return self._thread.run(self._using(work(self._questions.cluster, *args, **kwargs)))

    def partitions(self, strategy: Strategy) -> Found:
        """The partitions a reader is to read, as of now."""
        return self._thread.run(self._using(self._questions.partitions(strategy)))

    def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets at these times, or -1 for the end and -2 for the beginning; -1 where no record is that young."""
        return self._thread.run(self._using(self._questions.offsets(asked))) if asked else {}

    def start_fetch(self, asked: Asked, *, patience_ms: int) -> "concurrent.futures.Future[Fetched]":
        """Ask for the records of a partition from an offset on; `fetched` waits for it."""
        return self._thread.submit(self._using(self._questions.fetch(asked, patience_ms)))

    def fetch_together(self, asked: Sequence[Asked]) -> dict[TopicPartition, Fetched]:
        """The records of many partitions, by one request to each leader. A partition that needs patience is left out, to be fetched alone."""
        return self._thread.run(self._using(self._questions.fetch_together(asked)))

    def fetched(self, under_way: "concurrent.futures.Future[Fetched]") -> Fetched:
        """The result of a fetch that was started."""
        return self._thread.result(under_way)

    def close(self) -> None:
        """End the connections and the loop. Closing twice is harmless."""
        if self._thread.is_open:
            self._thread.run(self._close())
        self._thread.close()

    async def _using(self, work: Coroutine[Any, Any, T]) -> T:
        self._in_use += 1
        if self._idle is not None:
            self._idle.cancel()
        try:
            return await work
        finally:
            self._in_use -= 1
            if not self._in_use:
                self._idle = self._runtime.tasks.call_later(IDLE_SECONDS, self._rest)

    def _rest(self) -> None:
        if not self._in_use:
            self._questions.cluster.close()

    async def _close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._questions.cluster.close()
        await self._runtime.tasks.close()


class _Questions:
    """The questions to brokers, on the loop; remembers the leader of each partition."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self.cluster = cluster
        self._config = config
        self._isolation = ISOLATION_LEVELS.index(config.isolation_level)
        self._views: dict[str, TopicView] = {}
        self._nearer: dict[TopicPartition, int] = {}

    # Partitions

    async def partitions(self, strategy: Strategy) -> Found:
        """Ask anew: topics and partitions come and go."""
        match strategy:
            case Subscribe(topics):
                missing = await self._look(topics)
                return Found(_all_of(self._views[name] for name in topics if name in self._views), missing)
            case SubscribePattern(pattern):
                await self._look(None)
                compiled = re.compile(pattern)
                views = [
                    view
                    for name, view in sorted(self._views.items())
                    if not view.is_internal and compiled.search(name)
                ]
                return Found(_all_of(views), ())
            case Assign(wanted):
                missing = await self._look(sorted({where.topic for where in wanted}))
                there = set(_all_of(self._views.values()))
                return Found(tuple(where for where in wanted if where in there), missing)

    async def _look(self, names: Collection[str] | None) -> tuple[str, ...]:
        """Renew the view of these topics (None: all); gives the missing ones."""

        async def look() -> tuple[str, ...]:
            answer = await self.cluster.metadata(None if names is None else list(names))
            missing: list[str] = []
            for topic in answer.topics:
                name, code = topic.name or "", error_code(topic.error_code)
                if code in UNKNOWN_TOPIC:
                    missing.append(name)
                    self._views.pop(name, None)
                elif code:
                    raise refused(code, f"to describe topic {name!r}", by=self.cluster.where)
                else:
                    self._views[name] = topic_view(topic)
            if names is None:
                there = {topic.name for topic in answer.topics}
                self._views = {name: view for name, view in self._views.items() if name in there}
            return tuple(missing)

        return await self._patiently(look)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """A broker may be restarting when a process asks its first question; a wrong address stays one."""
        clock = self.cluster.runtime.clock
        believes_until_ms = clock.monotonic_ms() + UNREACHABLE_PATIENCE_MS

        def may_repeat(error: DisconnectedError | RefusedError) -> bool:
            if isinstance(error, UnreachableError):
                return clock.monotonic_ms() < believes_until_ms
            return passes(error)

        return await self.cluster.patiently(ask, may_repeat=may_repeat)

    async def _view(self, where: TopicPartition) -> PartitionView:
        if where.topic not in self._views:
            await self._look([where.topic])
        view = self._views.get(where.topic)
        if view is None or where.partition >= len(view.partitions):
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{where} does not exist at {self.cluster.where}"
            )
        found = view.partitions[where.partition]
        if found.leader == _NO_NODE:
            raise RefusedError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader at {self.cluster.where}"
            )
        return found

    # Offsets

    async def offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """ListOffsets to every leader."""

        async def ask() -> dict[TopicPartition, int]:
            try:
                return await self._ask(asked)
            except (DisconnectedError, RefusedError):
                for where in asked:
                    self._views.pop(where.topic, None)
                raise

        return await self._patiently(ask)

    async def _ask(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        unknown = {where.topic for where in asked} - self._views.keys()
        if unknown:
            await self._look(sorted(unknown))
        by_leader: dict[int, dict[TopicPartition, At]] = {}
        for where, timestamp in asked.items():
            by_leader.setdefault((await self._view(where)).leader, {})[where] = At(timestamp)
        answers = await ask_leaders(self.cluster, by_leader, isolation_level=self._config.isolation_level)
        return {where: found.offset for where, found in all_found(answers).items()}

    # Records

    async def fetch(self, asked: Asked, patience_ms: int) -> Fetched:
        """The records of the partition from this offset on; none, if none come in a fetch's time."""
        where = asked.where

        async def attempt() -> Fetched:
            try:
                return await self._fetch(asked)
            except (DisconnectedError, RefusedError):
                self._views.pop(where.topic, None)
                self._nearer.pop(where, None)
                raise

        return await self.cluster.patiently(attempt, timeout_ms=patience_ms, may_repeat=_may_fetch_again)

    async def _fetch(self, asked: Asked) -> Fetched:
        where = asked.where
        answer = await self._send_fetch(await self._reader_of(where), [asked], self._config.fetch_max_bytes)
        data = next((one for topic in answer.responses for one in topic.partitions), None)
        if data is None:
            raise InvariantError(f"{self.cluster.where} answered a fetch of {where} without a partition")
        if data.error_code:
            raise refused(
                data.error_code, f"to fetch {where} from offset {asked.offset}", by=self.cluster.where
            )
        if data.preferred_read_replica != _NO_NODE and not data.records:
            self._nearer[where] = data.preferred_read_replica
            return await self._fetch(asked)
        return self._taken(data)

    async def fetch_together(self, asked: Sequence[Asked]) -> dict[TopicPartition, Fetched]:
        """One request to each leader, all of them together bounded like a fetch of one partition."""
        by_node: dict[int, list[Asked]] = {}
        found: dict[TopicPartition, Fetched] = {}
        try:
            for one in asked:
                by_node.setdefault(await self._reader_of(one.where), []).append(one)
            bytes_max = self._config.max_partition_fetch_bytes // max(1, len(by_node))
            answers = await asyncio.gather(
                *(self._send_fetch(node, some, bytes_max) for node, some in by_node.items())
            )
        except (DisconnectedError, RefusedError) as error:
            _logger.info("%d partitions are fetched one by one: %s", len(asked), error)
            return {}
        for topic in (topic for answer in answers for topic in answer.responses):
            for data in topic.partitions:
                if not data.error_code and data.records:
                    found[TopicPartition(topic.topic, data.partition_index)] = self._taken(data)
        return found

    async def _reader_of(self, where: TopicPartition) -> int:
        """The broker this partition is read from: its leader, or a nearer one the leader named."""
        return self._nearer.get(where, (await self._view(where)).leader)

    async def _send_fetch(self, node_id: int, asked: Sequence[Asked], bytes_max: int) -> FetchResponse:
        config = self._config
        topics: dict[str, FetchTopic] = {}
        for where, offset, partition_bytes_max in asked:
            part = FetchPartition(
                partition=where.partition, fetch_offset=offset, partition_max_bytes=partition_bytes_max
            )
            topics.setdefault(where.topic, FetchTopic(topic=where.topic)).partitions.append(part)
        request = FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=bytes_max,
            isolation_level=self._isolation,
            topics=list(topics.values()),
            rack_id=config.client_rack,
        )
        answer = await self.cluster.send(
            request, node_id=node_id, version_max=_BY_NAME_VERSION, timeout_ms=config.fetch_max_wait_ms
        )
        if answer.error_code:
            what = str(asked[0].where) if len(asked) == 1 else f"{len(asked)} partitions"
            raise refused(answer.error_code, f"to fetch {what}", by=self.cluster.where)
        return answer

    def _taken(self, data: PartitionData) -> Fetched:
        committed = self._config.isolation_level == "read_committed"
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        end = data.last_stable_offset if committed else data.high_watermark
        return Fetched(data.records or b"", aborted if committed else None, data.log_start_offset, end)


def _all_of(views: Iterable[TopicView]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(view.name, one.partition) for view in views for one in view.partitions)
    )


def _may_fetch_again(error: DisconnectedError | RefusedError) -> bool:
    """The driver has just talked to this cluster: an unreachable broker will be back. An offset out of range will not."""
    if isinstance(error, RefusedError):
        return passes(error) and error.code is not ErrorCode.OFFSET_OUT_OF_RANGE
    return True


# One client per process and settings

_lock = threading.Lock()
_clients: dict[tuple[tuple[str, str], ...], BrokerClient] = {}
_owner = os.getpid()


def client_for(settings: Mapping[str, str]) -> BrokerClient:
    """This process's client for these settings, Kafka's keys without a prefix."""
    global _lock, _owner  # A fork begins anew.
    if _owner != os.getpid():
        _owner, _lock = os.getpid(), threading.Lock()
        _clients.clear()
    key = tuple(sorted(settings.items()))
    with _lock:
        found = _clients.pop(key, None)
        if found is None or not found.is_open:
            found = BrokerClient(ConsumerConfig.of(settings))
        _clients[key] = found  # The last used is the last.
        spare = [one for one, client in _clients.items() if one != key and not client.is_in_use]
        excess = [_clients.pop(one) for one in spare[: max(0, len(_clients) - CLIENTS_MAX)]]
    for client in excess:
        client.close()
    return found


@atexit.register
def close_clients() -> None:
    """End every client of this process."""
    if _owner != os.getpid():
        return
    with _lock:
        clients = list(_clients.values())
        _clients.clear()
    for client in clients:
        client.close()
