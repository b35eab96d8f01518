"""How many partitions the topics have that rows name, as a worker's process knows it.

Role.   `counts_of` gives a function from a topic's name to its number of partitions, for `routing`.
Rules.  * One connection per process and cluster, opened when the first topic is asked for, kept while the worker lives.
        * Counts are asked for again after a while: partitions are added. A missing topic is looked for as long as a producer
          would, and made where the broker makes topics by itself. Then it counts as missing for that while.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from semel.client.blocking import BlockingCluster
from semel.client.cluster import Cluster
from semel.client.settings import ProducerConfig
from semel.errors import DisconnectedError, RefusedError

_AGE_MAX_S: Final = 30.0
_CLUSTERS_MAX: Final = 8


class _Counts:
    """The topics of one cluster."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._cluster = BlockingCluster(ProducerConfig.of(settings))
        self._known: dict[str, tuple[float, int | None]] = {}

    def __call__(self, topic: str) -> int | None:
        known = self._known.get(topic)
        now = time.monotonic()
        if known is None or now - known[0] > _AGE_MAX_S:
            known = self._known[topic] = now, self._ask(topic)
        return known[1]

    def _ask(self, topic: str) -> int | None:
        async def look(cluster: Cluster) -> int:
            return len((await cluster.topic(topic, create=True)).partitions)

        try:
            return self._cluster.run(look)
        except (RefusedError, DisconnectedError):  # Its task will say why.
            return None

    def close(self) -> None:
        self._cluster.close()


_clusters: dict[str, _Counts] = {}


def counts_of(settings: Mapping[str, Any]) -> Callable[[str], int | None]:
    """A function that gives the number of partitions of a topic, or None if there is no such topic."""
    key = str(settings["bootstrap.servers"])
    found = _clusters.get(key)
    if found is None:
        if len(_clusters) >= _CLUSTERS_MAX:
            _clusters.pop(next(iter(_clusters))).close()
        found = _clusters[key] = _Counts(settings)
    return found
