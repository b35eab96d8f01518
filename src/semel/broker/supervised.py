"""A broker below a service manager: it says when it serves and when it stops, and that it lives.

Role.   `Supervised` tells `runtime.service_manager` about one broker.
Flow.   `cli.broker` opens it before the start, says `ready` and `stopping`, and closes it behind the stop.
Rules.  * READY=1 is said once clients can connect, so that services which need the broker start no earlier.
        * A recovery and a stop take as long as they take: while the loop turns, the manager is asked for more time.
        * The watchdog hears from the loop that serves clients, twice in each of its intervals.
        * Its task is its own: the stop of a broker ends all tasks of the runtime before it closes the logs.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from semel.broker.app import Broker
from semel.broker.metrics.readiness import Stage
from semel.runtime.service_manager import ServiceManager

INTERVAL_SECONDS: Final = 5.0
"""Between two words, if the watchdog asks for no shorter one."""
MORE_SECONDS: Final = 30
"""The time asked for with each word, until the broker serves or is gone."""


class Supervised:
    """One broker's words to its manager."""

    def __init__(self, broker: Broker, manager: ServiceManager) -> None:
        self._broker = broker
        self._manager = manager
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._manager.address is not None:
            self._telling = asyncio.get_running_loop().create_task(
                self._keep_telling(), name="service manager"
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])

    def ready(self) -> None:
        """Clients can connect."""
        self._manager.tell(READY=1, STATUS=f"serves on {self._broker.bootstrap}")

    def stopping(self) -> None:
        """No more requests are taken."""
        self._manager.tell(
            STOPPING=1,
            STATUS="finishes requests and closes logs",
            EXTEND_TIMEOUT_USEC=MORE_SECONDS * 1_000_000,
        )

    async def _keep_telling(self) -> None:
        watchdog = self._manager.watchdog_seconds
        interval = INTERVAL_SECONDS if watchdog is None else min(INTERVAL_SECONDS, watchdog / 2)
        while self._manager.address is not None:
            if self._broker.readiness.stage is Stage.SERVING:
                self._manager.tell(WATCHDOG=1)
            else:
                self._manager.tell(
                    WATCHDOG=1,
                    STATUS=self._broker.readiness.progress,
                    EXTEND_TIMEOUT_USEC=MORE_SECONDS * 1_000_000,
                )
            await asyncio.sleep(interval)
