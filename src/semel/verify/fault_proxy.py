"""A lossy link in front of a broker, on a thread of its own: for tests with real clients.

Role.   `FaultProxy` is `faults.link.FaultLink` on the machine's network, as a context manager. The pytest plugin's `semel_chaos`
        is one; the demonstrations are played through one. `ProxyThread` is the thread it shares with `faults.cluster`.
Flow.   entered: the thread starts and listens on a free port. Left: late copies arrive, connections end, the thread does; a
        failure of the proxy itself is raised, because what a test saw through it means nothing.
Elsewhere. Fates and plans: `faults.link`.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import Counter
from typing import Final, Self

from semel.core.wire.registry import ApiKey
from semel.runtime.network import RealNetwork
from semel.verify.faults.link import (
    EXCHANGES_MAX,
    Exchange,
    Fate,
    FaultLink,
    FaultLinkError,
    Plan,
    at,
    at_random,
    no_faults,
)

__all__ = ["Exchange", "Fate", "FaultLinkError", "FaultProxy", "Plan", "at", "at_random", "no_faults"]

_STOP_SECONDS: Final = 20
HERE: Final = "127.0.0.1"


class ProxyThread(ABC):
    """Links on a loop of their own, from entering to leaving."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)

    @property
    @abstractmethod
    def failures(self) -> list[BaseException]:
        """The errors of the proxy itself."""

    @abstractmethod
    async def _open(self) -> None:
        """Listen."""

    @abstractmethod
    async def _close(self) -> None:
        """Listen no more."""

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_STOP_SECONDS):
            raise FaultLinkError("the proxy did not start")
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise FaultLinkError("the proxy did not stop")
        if self.failures and exc[0] is None:
            raise self.failures[0]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        await self._open()
        self._ready.set()
        await self._stopping.wait()
        await self._close()


class FaultProxy(ProxyThread):
    """A running proxy; `bootstrap` is where clients go."""

    def __init__(self, bootstrap: str, plan: Plan = no_faults, *, exchanges_max: int = EXCHANGES_MAX) -> None:
        super().__init__()
        self._link = FaultLink(RealNetwork(), address_of(bootstrap), plan, exchanges_max=exchanges_max)

    @property
    def bootstrap(self) -> str:
        return f"{HERE}:{self._link.address[1]}"

    @property
    def plan(self) -> Plan:
        """The fate of requests for which no other is set."""
        return self._link.plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._link.plan = plan

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges that came through, in order."""
        return self._link.exchanges

    @property
    def failures(self) -> list[BaseException]:
        """The errors of the proxy itself."""
        return self._link.failures

    @property
    def address(self) -> tuple[str, int]:
        return HERE, self._link.address[1]

    @property
    def tally(self) -> Counter[Fate]:
        """How many requests met each fate."""
        return self._link.tally

    def harm(
        self, api: ApiKey | str, fate: Fate | str, *, times: int = 1, delay_seconds: float = 0.05
    ) -> None:
        """Set the fate of the next requests of an API: `harm("produce", "cut_after")` loses the next answer."""
        self._link.harm(api, fate, times=times, delay_seconds=delay_seconds)

    def point_to(self, bootstrap: str) -> None:
        """The broker is elsewhere now; connections that stand are kept."""
        self._link.broker = address_of(bootstrap)

    def count(self, api: ApiKey | str) -> int:
        """How many requests of an API came through."""
        return self._link.count(api)

    def of(self, *keys: ApiKey) -> list[Exchange]:
        return [one for one in list(self.exchanges) if one.key in keys]

    def fates(self) -> list[Fate]:
        """The faults there were."""
        return [one.fate for one in list(self.exchanges) if one.fate is not Fate.PASS]

    async def _open(self) -> None:
        await self._link.listen(HERE)

    async def _close(self) -> None:
        await self._link.close()


def address_of(bootstrap: str) -> tuple[str, int]:
    """Host and port of one server."""
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
