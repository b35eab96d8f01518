"""A client's view of a cluster: where its brokers are, and one link to each.

Role.   `Cluster` finds a broker from `bootstrap.servers`, knows which broker leads which partition, and sends requests to the
        right one.
Flow.   `producer`, `consumer` and `admin` build requests and judge answers; they send through here. `blocking` runs all of
        it for callers without a loop.
Rules.  * `send` is one attempt. `patiently` repeats what may be repeated, for `default.api.timeout.ms` at most, with a
          growing pause and fresh connections; a request that changes something is never repeated blindly.
        * A login that fails ends the call at once. A login the broker accepts for a limited time is made anew on a new
          connection, before that time is over if no request is under way then.
        * A topic that does not exist is looked for a few times, because brokers hear of a new one at different moments.
        * That no broker answers is told to `troubles`, whoever asked: the log hears of it within a second.
Elsewhere. Versions, TLS and logins: `net.link`.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, Self, TypeVar

from semel.client.config import ReachConfig
from semel.client.troubles import Kind, Troubles
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    HandshakeError,
    RefusedError,
    RequestTimedOutError,
    SemelError,
    UnreachableError,
    WireError,
    error_code,
    refused,
)
from semel.net.link import Link, open_link
from semel.runtime.bundle import Runtime
from semel.types import Address

T = TypeVar("T")
R = TypeVar("R", bound=Response)

_NO_NODE: Final = -1
_UNKNOWN_TOPIC_TRIES: Final = 3
_OLD_MS: Final = 1000
_ATTEMPT_MIN_MS: Final = 1000
_SLOW_SECONDS: Final = 0.8  # A connection that is not there by then is spoken of, though it may still come.
_NO_ENTRY: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
_UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_CHECK_BOOTSTRAP: Final = "start a broker there, or set bootstrap.servers"
_CHECK_BROKER: Final = "start that broker, or look why it does not answer"
_CHECK_PORT: Final = "set bootstrap.servers to a broker's listener, and security.protocol to what that speaks"
_CHECK_SECURITY: Final = (
    "set security.protocol, and the ssl.* or sasl.* settings, to what the broker asks for"
)


class Node(NamedTuple):
    """A broker, as the cluster announces it."""

    node_id: int
    address: Address
    rack: str | None


class PartitionView(NamedTuple):
    """A partition as the metadata shows it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicView(NamedTuple):
    """A topic as the metadata shows it; the partitions in their order."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionView, ...]


class RequestObserver(Protocol):
    """The listener of requests: a client's metrics."""

    def requested(self) -> None: ...
    def answered(self) -> None: ...
    def connected(self) -> None: ...


class Cluster:
    """Connections to the brokers of one cluster; `observer` hears of what goes over them, `troubles` of what does not."""

    def __init__(
        self,
        runtime: Runtime,
        config: ReachConfig,
        *,
        observer: RequestObserver | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        self.runtime = runtime
        self.config = config
        self.troubles = troubles or troubles_of(runtime, config)
        self._observer = observer
        self.cluster_id: str | None = None
        self.controller_id = _NO_NODE
        self.nodes: dict[int, Node] = {}
        self._views: dict[str, TopicView] = {}
        self._links: dict[Address, Link] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End every connection."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def finish(self) -> None:
        """End every connection once what was written has left."""
        for link in list(self._links.values()):
            await link.finish()
        self._links.clear()

    @property
    def where(self) -> str:
        """The cluster in an error's words: as the user named it."""
        return ",".join(map(str, self.config.bootstrap_servers))

    def disconnect(self, node_id: int) -> None:
        """End the connection to a broker, if there is one: requests that wait for an answer there raise."""
        node = self.nodes.get(node_id)
        link = None if node is None else self._links.pop(node.address, None)
        if link is not None:
            link.close()

    # Requests

    async def send(
        self,
        request: Request[R],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """One attempt, at the broker with this id or at any; `timeout_ms` is added to what an answer may take anyway."""
        link = await self._link(node_id)
        wait_ms = self.config.request_timeout_ms + (timeout_ms or 0)
        sending = link.send(request, version_max=version_max, timeout_ms=wait_ms)
        if self._observer is not None:
            self._observer.requested()
        try:
            answer = await sending
        except (DisconnectedError, WireError) as error:
            self._unanswered(link.address, error)
            raise
        if self._observer is not None:
            self._observer.answered()
        if self.troubles.is_any:
            self.troubles.over(Kind.BROKER, str(link.address))
            self.troubles.over(Kind.CLUSTER)
        return answer

    def _unanswered(self, address: Address, error: SemelError) -> None:
        """A broker did not answer, or is not let in: the caller tries again, or raises it."""
        way_out = _CHECK_SECURITY if is_locked_out(error) else _CHECK_BROKER
        if isinstance(error, WireError):
            way_out = _CHECK_PORT
        is_old = isinstance(error, RequestTimedOutError) and self.config.request_timeout_ms >= _OLD_MS
        self.troubles.met(Kind.BROKER, str(address), _why(address, error), way_out, is_old=is_old)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return sum(link.is_open for link in self._links.values())

    async def send_unanswered(
        self, request: Request[R], *, node_id: int, version_max: int | None = None
    ) -> None:
        """A request without an answer (acks=0)."""
        link = await self._link(node_id)
        await link.send_unanswered(request, version_max=version_max)

    async def served(self, node_id: int | None = None) -> dict[int, tuple[int, int]]:
        """API key -> first and last version of a broker."""
        return dict((await self._link(node_id)).served)

    async def features(self, node_id: int | None = None) -> dict[str, int]:
        """Features of the cluster that are switched on, as a broker told them: `transaction.version` and kin."""
        return dict((await self._link(node_id)).features)

    async def patiently(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_ms: int | None = None,
        may_repeat: Callable[[DisconnectedError | RefusedError], bool] | None = None,
    ) -> T:
        """Try until it works, or the error is none that passes, or the time is over. Only for what may be repeated.

        `may_repeat` judges errors instead, for what may be repeated only after some.
        """
        config, clock = self.config, self.runtime.clock
        timeout_ms = config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = clock.monotonic_ms() + timeout_ms
        tries = 0
        while True:
            try:
                done = await attempt()
                if tries:
                    self.troubles.over(Kind.CALL)
                return done
            except (DisconnectedError, RefusedError) as error:
                tries += 1
                pause_ms = self.backoff_ms(tries)
                is_over = clock.monotonic_ms() + pause_ms >= deadline or tries > config.retries
                if is_over or not (may_repeat or passes)(error):
                    raise
                self._views.clear()
                if isinstance(error, RefusedError) and not self.troubles.has(Kind.TOPIC):
                    self.troubles.met(Kind.CALL, "a call that was refused", str(error))
            await self.runtime.tasks.sleep(pause_ms / 1000)

    async def in_time(self, attempt: Callable[[], Awaitable[T]], deadline_ms: int) -> T:
        """One attempt, given up at the deadline; raises `RequestTimedOutError`. It gets a second at least.

        Who waits less must have its connection in the end: the next call would begin from nothing again.
        """
        left_ms = max(deadline_ms - self.runtime.clock.monotonic_ms(), _ATTEMPT_MIN_MS)
        try:
            async with asyncio.timeout(left_ms / 1000):
                return await attempt()
        except TimeoutError:
            raise RequestTimedOutError(f"{self.where} gave no answer in that time") from None

    def backoff_ms(self, tries: int) -> int:
        """The pause before the next attempt, after this many."""
        config = self.config
        growing = config.retry_backoff_ms << min(tries - 1, 16)
        return min(growing, max(config.retry_backoff_max_ms, config.retry_backoff_ms))

    # Connections

    async def _link(self, node_id: int | None) -> Link:
        if node_id is None:
            return await self._any_link()
        if node_id not in self.nodes:
            await self.metadata([])
        node = self.nodes.get(node_id)
        if node is None:
            raise RefusedError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{self.where} has no broker {node_id} at the moment"
            )
        try:
            return await self._open(node.address)
        except (DisconnectedError, WireError, RefusedError) as error:
            self._unanswered(node.address, error)
            raise

    async def _any_link(self) -> Link:
        now_ms = self.runtime.clock.monotonic_ms()
        for link in self._links.values():
            if link.is_open and not link.is_stale(now_ms):
                return link
        announced = [node.address for node in self.nodes.values()]
        failures, way_out = [], _CHECK_BOOTSTRAP
        for address in dict.fromkeys([*announced, *self.config.bootstrap_servers]):
            try:
                return await self._open(address)
            except (DisconnectedError, WireError) as error:
                failures.append(_why(address, error))
                way_out = _CHECK_PORT if isinstance(error, WireError) else way_out
            except RefusedError as error:
                self.troubles.met(Kind.CLUSTER, self.where, str(error), _CHECK_SECURITY)
                raise
        # A cluster that was there a moment ago may come back; a cluster never reached is probably a wrong address.
        kind = DisconnectedError if self.nodes else UnreachableError
        what = f"no broker of {self.where} can be reached ({'; '.join(failures)})"
        self.troubles.met(Kind.CLUSTER, self.where, what, way_out)
        raise kind(f"{what}: start one with 'semel broker', or name another with bootstrap.servers")

    async def _open(self, address: Address) -> Link:
        async with self._opening.setdefault(address, asyncio.Lock()):
            link = self._links.get(address)
            if link is not None and link.is_open:
                if not link.is_stale(self.runtime.clock.monotonic_ms()):
                    return link
                link.close()
            slow = self.runtime.tasks.remind(_SLOW_SECONDS, self._is_slow, address)
            try:
                return await self._opened(address)
            finally:
                if slow is not None:
                    slow.cancel()

    def _is_slow(self, address: Address) -> None:
        """A connection does not come to be: neither does a refusal."""
        what = f"{address} does not answer"
        if self.nodes:
            self.troubles.met(Kind.BROKER, str(address), what, _CHECK_BROKER, is_old=True)
        else:
            self.troubles.met(Kind.CLUSTER, self.where, what, _CHECK_PORT, is_old=True)

    async def _opened(self, address: Address) -> Link:
        link = self._links[address] = await open_link(self.runtime, address, self.config)
        if self._observer is not None:
            self._observer.connected()
        return link

    # Metadata

    async def metadata(
        self, topics: Sequence[str] | None, *, create: bool = False, topic_ids: Sequence[bytes] = ()
    ) -> MetadataResponse:
        """A broker's metadata of these topics (None: all); its list of brokers is remembered. `create` lets it make missing ones.

        A topic that is asked for by its id is never made.
        """
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        if asked is not None:
            asked += [MetadataRequestTopic(name=None, topic_id=one) for one in topic_ids]
        answer = await self.send(MetadataRequest(topics=asked, allow_auto_topic_creation=create))
        self.cluster_id, self.controller_id = answer.cluster_id, answer.controller_id
        self.nodes = {
            one.node_id: Node(one.node_id, Address(one.host, one.port), one.rack) for one in answer.brokers
        }
        return answer

    async def topics(self, names: Iterable[str] | None = None, *, create: bool = False) -> list[TopicView]:
        """These topics (None: all of them), every partition with a leader; raises for one that does not exist."""
        wanted = None if names is None else list(dict.fromkeys(names))
        unknown_tries = 0

        async def look() -> list[TopicView]:
            answer = await self.metadata(wanted, create=create)
            return [self._view(one) for one in sorted(answer.topics, key=lambda one: one.name or "")]

        while True:
            try:
                return await self.patiently(look)
            except RefusedError as error:
                unknown_tries += 1
                if error.code not in _UNKNOWN_TOPIC or unknown_tries == _UNKNOWN_TOPIC_TRIES:
                    raise
            await self.runtime.tasks.sleep(self.backoff_ms(unknown_tries) / 1000)

    async def topic(self, name: str, *, create: bool = False) -> TopicView:
        """One topic."""
        (found,) = await self.topics([name], create=create)
        self._views[name] = found
        return found

    async def by_leader(self, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
        """The known leaders of these partitions, asked again after an error that passes."""
        view = self._views.get(topic) or await self.topic(topic)
        grouped: dict[int, list[int]] = {}
        for index in partitions:
            grouped.setdefault(view.partitions[index].leader, []).append(index)
        return grouped

    def _view(self, topic: MetadataResponseTopic) -> TopicView:
        code = error_code(topic.error_code)
        if code in _UNKNOWN_TOPIC:
            raise RefusedError(
                code,
                f"topic {topic.name} does not exist at {self.where}: see 'semel topics list', "
                f"or make it with 'semel topics create {topic.name}'",
            )
        if code:
            raise refused(code, f"to describe topic {topic.name!r}", by=self.where)
        for one in topic.partitions:
            if one.leader_id == _NO_NODE or one.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                raise RefusedError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"{topic.name}-{one.partition_index} has no leader at {self.where}: "
                    f"none of its replicas {list(one.replica_nodes)} is there",
                )
        return topic_view(topic)


def topic_view(topic: MetadataResponseTopic) -> TopicView:
    """The topic, whatever state its partitions are in."""
    return TopicView(
        name=topic.name or "",
        topic_id=uuid.UUID(bytes=bytes(topic.topic_id)),
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionView(
                partition=one.partition_index,
                leader=one.leader_id,
                leader_epoch=one.leader_epoch,
                replicas=tuple(one.replica_nodes),
                isr=tuple(one.isr_nodes),
                offline=tuple(one.offline_replicas),
            )
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ),
    )


def is_locked_out(error: SemelError) -> bool:
    """Whether the cluster does not let this client in: TLS or a login failed, and will fail again."""
    return isinstance(error, HandshakeError) or (isinstance(error, RefusedError) and error.code in _NO_ENTRY)


def passes(error: DisconnectedError | RefusedError) -> bool:
    """Whether the same request may succeed in a moment."""
    if isinstance(error, RefusedError):
        return error.code.retriable and error.code not in _UNKNOWN_TOPIC
    return not isinstance(error, UnreachableError)


def missing_topic(name: str, where: str, code: ErrorCode) -> tuple[str, str]:
    """The flaw of a topic without partitions in a broker's answer, and the way out."""
    if code in _UNKNOWN_TOPIC:
        return f"topic {name} does not exist at {where}", "create it, or correct its name"
    return f"{where} does not describe topic {name}: {code.name}", "it is asked for again"


def without_leader(name: str, partitions: Sequence[PartitionView], where: str) -> tuple[str, str]:
    """The flaw of a topic whose partitions have no leader, and the way out."""
    first = partitions[0]
    more = "" if len(partitions) == 1 else f" and {len(partitions) - 1} more of its partitions"
    return (
        f"{name}-{first.partition}{more} has no leader at {where}",
        f"start one of the brokers {list(first.replicas)}, which have it",
    )


def troubles_of(runtime: Runtime, config: ReachConfig) -> Troubles:
    """For all connections of one client."""
    return Troubles(
        runtime.clock.monotonic_ms, who=config.client_id, retry_backoff_ms=config.retry_backoff_ms
    )


def _why(address: Address, error: SemelError) -> str:
    """Why there is no connection, in a few words."""
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError) or "Connect call failed" in str(cause):
        return f"nobody listens at {address}"
    return f"{address}: {getattr(cause, 'strerror', None) or error}"
