"""Errands to the other brokers of a cluster: what waits for a broker goes together, one request at a time.

Role.   A leader's question to transaction coordinators and a coordinator's markers to leaders go over `Peers`, each kind over its own.
Flow.   `put` -> the broker's task takes what waits -> a link to the broker, a new one after a loss -> `carry_out` -> what has come
        meanwhile.
Rules.  * Every errand ends once: `carry_out` returns, or `failed` is told why not. Then it may have been carried out all the same.
        * Nothing is sent again from here: by then another broker may be the one to ask. The owner looks that up.
        * An error that nobody foresaw is logged with its trace, and is no answer.
        * A broker that failed is left alone for `PAUSE_SECONDS`. What comes meanwhile goes together after that.
        * A broker that is gone from the metadata, or is reached in another way, is not waited for.
        * At most `AT_ONCE` errands go with one request, and at most `WAITING_MAX` wait for a broker: more fail at once.
        * A link stays open when nothing waits: the next errand needs none.
Elsewhere. Links: `net.link`. Errands: `broker.markers.elsewhere`, `broker.coordinators.verification`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from semel.core.metadata.brokers import RegisteredBroker
from semel.errors import DisconnectedError, RefusedError, SemelError, UnsupportedVersionError, WireError
from semel.net.link import ASKED_BY_BROKERS, Link, open_link
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.types import Address

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

_log: Final = logging.getLogger(__name__)
_NO_ANSWER: Final = (DisconnectedError, RefusedError, UnsupportedVersionError, WireError)
AT_ONCE: Final = 2_000
WAITING_MAX: Final = 20_000
PAUSE_SECONDS: Final = 0.1


class PeerBusyError(SemelError):
    """Too many errands wait for a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """The settings of links to other brokers."""

    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    response_max_bytes: int
    security: Security = PLAINTEXT


class Errands(Protocol[E_contra]):
    """One kind of errands."""

    async def carry_out(self, link: Link, errands: Sequence[E_contra]) -> None:
        """Ask the broker behind the link, and tell the answers. Raises as `Link.send` does."""

    def failed(self, errands: Sequence[E_contra], error: SemelError) -> None:
        """There is no answer."""


class Peers(Generic[E]):
    """The way to every other broker, for one kind of errands."""

    def __init__(
        self,
        runtime: Runtime,
        errands: Errands[E],
        *,
        what: str,
        brokers: Mapping[int, RegisteredBroker],
        listener: str,
        config: PeerConfig,
        served: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """`brokers`: the metadata's, live. `served`: versions known beforehand, so that brokers are not asked for them. `what`: the
        errands' name in the log."""
        self.runtime = runtime
        self.errands = errands
        self.what = what
        self.config = config
        self.served = served
        self._brokers = brokers
        self._listener = listener
        self._peers: dict[int, _Peer[E]] = {}
        self.is_closed = False

    def put(self, broker_id: int, errands: Iterable[E]) -> None:
        """Have these carried out by a broker."""
        peer = self._peers.get(broker_id)
        if peer is None:
            peer = self._peers[broker_id] = _Peer(self, broker_id)
        peer.put(errands)

    def brokers_changed(self) -> None:
        """Other brokers are alive than before, or are reached in another way."""
        for broker_id, peer in list(self._peers.items()):
            peer.address_changed()
            if broker_id not in self._brokers and peer.is_idle:
                del self._peers[broker_id]

    def close(self) -> None:
        """End every link. Errands without an answer fail."""
        self.is_closed = True
        for peer in self._peers.values():
            peer.interrupt()

    def address(self, broker_id: int) -> Address | None:
        """Where a broker listens for others; None if it is not alive, or does not."""
        broker = self._brokers.get(broker_id)
        endpoint = None if broker is None else broker.on(self._listener)
        return None if endpoint is None else Address(*endpoint)


class _Peer(Generic[E]):
    """One broker."""

    def __init__(self, peers: Peers[E], broker_id: int) -> None:
        self._peers = peers
        self._broker_id = broker_id
        self._waiting: deque[E] = deque()
        self._link: Link | None = None
        self._tried: Address | None = None
        self._scope: asyncio.Timeout | None = None  # Of the present try.
        self._task: asyncio.Task[None] | None = None
        self._pause_until = float("-inf")
        self._is_unreachable = False

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def put(self, errands: Iterable[E]) -> None:
        refused: list[E] = []
        for errand in errands:
            (self._waiting if len(self._waiting) < WAITING_MAX else refused).append(errand)
        if refused:
            full = f"{self._peers.what}: {WAITING_MAX} wait for broker {self._broker_id} already"
            self._peers.errands.failed(refused, PeerBusyError(full))
        if self._task is None and self._waiting:
            name = f"{self._peers.what} to broker {self._broker_id}"
            self._task = self._peers.runtime.tasks.spawn(self._run(), name=name)

    def address_changed(self) -> None:
        """The broker may be elsewhere, or nowhere."""
        if self._peers.address(self._broker_id) != self._tried:
            self.interrupt()

    def interrupt(self) -> None:
        """End the present try, and the link."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(float("-inf"))
        elif self._scope is None:
            self._drop_link()

    async def _run(self) -> None:
        """Until nothing waits."""
        clock = self._peers.runtime.clock
        try:
            while self._waiting:
                pause = self._pause_until - clock.monotonic()
                if pause > 0 and not self._peers.is_closed:
                    await self._peers.runtime.tasks.sleep(pause)
                batch = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
                try:
                    await self._try(batch)
                except _NO_ANSWER as error:
                    self._lost(batch, error)
                    continue
                except Exception as error:
                    what = f"{self._peers.what} to broker {self._broker_id}"
                    _log.error("%s: this broker failed at %d of them", what, len(batch), exc_info=error)
                    self._lost(batch, DisconnectedError(f"{what}: this broker failed at it: {error!r}"))
                    continue
                if self._is_unreachable:
                    self._is_unreachable = False
                    _log.info("%s: broker %d answers again", self._peers.what, self._broker_id)
        finally:
            self._task = None

    async def _try(self, batch: Sequence[E]) -> None:
        if self._peers.is_closed:
            raise DisconnectedError("this broker stops")
        self._tried = address = self._peers.address(self._broker_id)
        if address is None:
            raise DisconnectedError(
                f"broker {self._broker_id} is not among the living brokers of the metadata"
            )
        try:
            async with asyncio.timeout(None) as self._scope:
                link = await self._link_to(address)
                await self._peers.errands.carry_out(link, batch)
        except TimeoutError:
            raise DisconnectedError(f"broker {self._broker_id} is not at {address} any more") from None
        finally:
            self._scope = None

    async def _link_to(self, address: Address) -> Link:
        link, peers = self._link, self._peers
        now_ms = peers.runtime.clock.monotonic_ms()
        if link is not None and link.is_open and link.address == address and not link.is_stale(now_ms):
            return link
        self._drop_link()
        self._link = await open_link(
            peers.runtime, address, peers.config, served=peers.served, asked=ASKED_BY_BROKERS
        )
        return self._link

    def _lost(self, batch: Sequence[E], error: SemelError) -> None:
        self._drop_link()
        self._pause_until = self._peers.runtime.clock.monotonic() + PAUSE_SECONDS
        if not self._is_unreachable and not self._peers.is_closed:
            self._is_unreachable = True
            _log.warning("%s: broker %d has not answered: %s", self._peers.what, self._broker_id, error)
        self._peers.errands.failed(batch, error)

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
