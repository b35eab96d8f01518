"""The client for callers without an event loop: scripts, test fixtures, Spark tasks.

Role.   `BlockingCluster` owns a `Cluster` and the loop it lives on; `run` carries out what needs one.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from semel.client.cluster import Cluster
from semel.client.config import ReachConfig
from semel.runtime.bundle import real_runtime
from semel.runtime.closing import Closing
from semel.runtime.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


class BlockingCluster(Closing):
    """A cluster on a private loop's thread; to be closed, or used as a context."""

    def __init__(self, config: ReachConfig) -> None:
        self._runtime = real_runtime(threads_max=1)
        self._loop = LoopThread("semel-client")
        self._cluster = Cluster(self._runtime, config)

    def run(
        self,
        work: Callable[Concatenate[Cluster, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of `work(cluster, …)`."""
        return self._loop.run(work(self._cluster, *args, **kwargs))

    def close(self) -> None:
        """End the connections and the loop. Closing twice is harmless."""
        if self._loop.is_open:
            self._loop.run(self._close())
        self._loop.close()

    async def _close(self) -> None:
        self._cluster.close()
        await self._runtime.tasks.close()
