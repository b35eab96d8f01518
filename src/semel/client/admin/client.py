"""The admin client on asyncio: `semel.aio.Admin`.

Role.   All calls together, and the life of the client around them.
Flow.   `async with Admin({"bootstrap.servers": …}) as admin: await admin.create_topics(["orders"])`.
Elsewhere. The calls: `topics`, `configs`, `groups`, `transactions`, `cluster`, `security`, the modules beside this one.
"""

from collections.abc import Mapping
from typing import Any, Self

from semel.client.admin.cluster import ClusterCalls
from semel.client.admin.configs import ConfigCalls
from semel.client.admin.groups import GroupCalls
from semel.client.admin.security import SecurityCalls
from semel.client.admin.topics import TopicCalls
from semel.client.admin.transactions import TransactionCalls
from semel.client.config_keys import Given
from semel.client.metrics import MetricValues
from semel.client.settings import AdminConfig
from semel.runtime.bundle import Runtime, real_runtime


class AsyncAdmin(TopicCalls, ConfigCalls, GroupCalls, TransactionCalls, ClusterCalls, SecurityCalls):
    """Questions and orders to a cluster. Settings are Kafka's, as a mapping of dotted keys or as keywords."""

    def __init__(
        self,
        settings: Mapping[str, Given] | AdminConfig | None = None,
        /,
        *,
        runtime: Runtime | None = None,
        **keywords: Given,
    ) -> None:
        config = settings if isinstance(settings, AdminConfig) else AdminConfig.of(settings, **keywords)
        self._runtime = runtime or real_runtime(threads_max=1)
        self._owns_runtime = runtime is None
        super().__init__(self._runtime, config)

    @property
    def config(self) -> dict[str, Any]:
        """Every setting with the value that holds, under Kafka's names."""
        return self._settings.effective()

    def metrics(self) -> MetricValues:
        """The client's own metrics."""
        return self._metrics.snapshot()

    async def close(self) -> None:
        """End the connections. Closing twice is harmless."""
        if self._is_closed:
            return
        self._give_up()
        if self._owns_runtime:
            await self._runtime.tasks.close()

    def _give_up(self) -> None:
        """End the connections at once."""
        self._is_closed = True
        if self._reporting is not None:
            self._reporting.cancel()
        self._cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()
