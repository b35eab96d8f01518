"""The way from a member to the controller: one link, one request at a time, asked again until a controller answers.

Role.   AlterPartition, AllocateProducerIds and ControlledShutdown go over channels of their own, as Kafka's do.
Flow.   `ask` waits for its turn -> the controller is looked up -> a link to it -> the request is built for the version that both
        have -> its answer. NOT_CONTROLLER, a lost connection or no controller at all: after a pause everything from the look-up on.
Rules.  * The controller is the one that `controller` names at that moment: the metadata image knows it while ZooKeeper is away.
        * A request may be carried out more than once: its answer may be lost. What is asked here bears that.
        * `controller_changed` ends a pause, and cuts a request that waits for the answer of a former controller.
        * Each further try comes `RETRY_SECONDS` later at the earliest, or when the controller is another one.
        * At most `WAITING_MAX` callers wait. A request whose caller has left ends its link, for its answer would be in the way.
        * Silence is logged, less and less often; so is its end.
        * A login that is refused is tried again too: the one who repairs it need not restart this broker.
Elsewhere. What the answers mean: `isr_changes`, `producer_id_blocks`, `controlled_shutdown`. Links: `net.link`.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from semel.core.wire import registry
from semel.core.wire.message import Request, Response
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    RequestTimedOutError,
    SemelError,
    WireError,
)
from semel.net.link import ASKED_BY_BROKERS, Link, LinkConfig, open_link
from semel.net.security import Security
from semel.runtime.bundle import Runtime
from semel.types import Address

R = TypeVar("R", bound=Response)

_log: Final = logging.getLogger(__name__)
RETRY_SECONDS: Final = 0.1
WAITING_MAX: Final = 100
_WARN_SECONDS: Final = (1.0, 60.0)
"""How long nobody has answered when it is first logged; then twice as long each time, up to this."""

Question: TypeAlias = tuple[Request[R], int]
"""A request, and the version to send it in."""


class ChannelBusyError(SemelError):
    """Too many requests wait for the controller."""


class ChannelClosedError(SemelError):
    """The broker stops: the request has no answer."""


class NoControllerError(DisconnectedError):
    """No broker is known to be the controller."""


@dataclass(frozen=True, slots=True)
class _OwnConfig:
    """The settings of a link under another client id."""

    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    response_max_bytes: int
    security: Security


class ControllerChannel:
    """One link to whoever controls the cluster."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        link: LinkConfig,
        controller: Callable[[], Address | None],
        node_id: int,
        served: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """`served`: versions known beforehand, so that the controller is not asked for them. The client id is `node_id` as text."""
        self._runtime = runtime
        self._config = _OwnConfig(
            str(node_id),
            link.request_timeout_ms,
            link.socket_connection_setup_timeout_ms,
            link.response_max_bytes,
            link.security,
        )
        self._controller = controller
        self._served = served
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._link: Link | None = None
        self._tried: Address | None = None
        self._scope: asyncio.Timeout | None = None  # Of the present try, or of the pause after it.
        self._is_closed = False

    async def ask(self, request: Request[R], *, timeout_ms: int | None) -> R:
        """The controller's answer, with whatever error but NOT_CONTROLLER. `timeout_ms` None: it is waited for, for ever.

        Raises `RequestTimedOutError`, `ChannelBusyError`, `ChannelClosedError`, `UnsupportedVersionError`.
        """
        key = request.schema.api_key
        return await self.ask_built(key, lambda version: (request, version), timeout_ms=timeout_ms)

    async def ask_built(self, key: int, build: Callable[[int], Question[R]], *, timeout_ms: int | None) -> R:
        """The same for a request that is built anew for each try: `build` is given the newest version that both have.

        What `build` raises passes through, and nothing is asked.
        """
        silence = _Silence(registry.api(key).name, self._runtime.clock.monotonic())
        async with self._in_turn(silence, timeout_ms):
            while True:
                try:
                    answer = await self._try(key, build)
                except (DisconnectedError, RefusedError, WireError) as error:
                    silence.met(str(error), self._runtime.clock.monotonic())
                else:
                    if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NOT_CONTROLLER:
                        silence.over(self._runtime.clock.monotonic())
                        return answer
                    silence.met(f"{self._tried} is not the controller", self._runtime.clock.monotonic())
                    self._drop_link()
                await self._pause()

    async def attempt(self, request: Request[R], *, timeout_ms: int) -> R:
        """One try, whatever comes of it. Raises `DisconnectedError` where no answer came, and what `ask` raises."""
        key = request.schema.api_key
        silence = _Silence(registry.api(key).name, self._runtime.clock.monotonic())
        async with self._in_turn(silence, timeout_ms):
            return await self._try(key, lambda version: (request, version))

    def controller_changed(self) -> None:
        """The metadata may name another controller than before."""
        if self._controller() != self._tried:
            self._interrupt()

    async def close(self) -> None:
        """End the link. Callers that wait get `ChannelClosedError`."""
        self._is_closed = True
        self._interrupt()
        async with self._turn:  # The present caller has left.
            self._drop_link()

    @contextlib.asynccontextmanager
    async def _in_turn(self, silence: "_Silence", timeout_ms: int | None) -> AsyncIterator[None]:
        if self._waiting >= WAITING_MAX:
            raise ChannelBusyError(
                f"{silence.what} was not sent: {WAITING_MAX} requests wait for the controller"
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000), self._turn:
                yield
        except TimeoutError:
            why = f": {silence.reason}" if silence.reason else ""
            raise RequestTimedOutError(
                f"{silence.what}: no controller has answered within {timeout_ms} ms{why}"
            ) from None
        finally:
            self._waiting -= 1

    async def _try(self, key: int, build: Callable[[int], Question[R]]) -> R:
        self._check_open()
        self._tried = address = self._controller()
        if address is None:
            raise NoControllerError("no broker is known to be the controller")
        try:
            async with asyncio.timeout(None) as self._scope:
                link = await self._link_to(address)
                request, version = build(link.version(key))
                try:
                    return await link.send(
                        request, version_max=version, timeout_ms=self._config.request_timeout_ms
                    )
                except BaseException:
                    self._drop_link()
                    raise
        except TimeoutError:
            self._check_open()
            raise DisconnectedError(f"{address} is no longer the controller") from None
        finally:
            self._scope = None

    async def _link_to(self, address: Address) -> Link:
        link = self._link
        if link is not None and link.is_open and link.address == address and not self._is_stale(link):
            return link
        self._drop_link()
        self._link = await open_link(
            self._runtime, address, self._config, served=self._served, asked=ASKED_BY_BROKERS
        )
        return self._link

    def _is_stale(self, link: Link) -> bool:
        return link.is_stale(self._runtime.clock.monotonic_ms())

    async def _pause(self) -> None:
        """Until the next try."""
        self._check_open()
        if self._controller() != self._tried:
            return
        try:
            async with asyncio.timeout(None) as self._scope:
                await self._runtime.tasks.sleep(RETRY_SECONDS)
        except TimeoutError:
            self._check_open()
        finally:
            self._scope = None

    def _interrupt(self) -> None:
        """End the present try or pause."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(float("-inf"))

    def _check_open(self) -> None:
        if self._is_closed:
            raise ChannelClosedError("the way to the controller is closed: this broker stops")

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


class _Silence:
    """How long a request has had no answer, and the last reason."""

    def __init__(self, what: str, began: float) -> None:
        self.what = what
        self.reason = ""
        self._began = began
        self._warn_after = _WARN_SECONDS[0]
        self._is_told = False

    def met(self, reason: str, now: float) -> None:
        """A try had no answer."""
        self.reason = reason
        away = now - self._began
        if away < self._warn_after:
            return
        self._warn_after = away + min(2 * self._warn_after, _WARN_SECONDS[1])
        self._is_told = True
        _log.warning(
            "%s: no controller has answered for %.0f s, it is asked again: %s", self.what, away, reason
        )

    def over(self, now: float) -> None:
        """It is answered."""
        if self._is_told:
            _log.info("%s: a controller has answered after %.0f s", self.what, now - self._began)
