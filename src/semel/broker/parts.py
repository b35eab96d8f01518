"""The broker as its handlers see it: five views, each with the parts that one group of handlers needs.

Role.   A handler is a function of (broker, request, context). Its row in `apis` names the view that it gets as `broker`.
Flow.   `app` builds every part and puts them together here; `dispatch` hands each handler its view.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from semel.broker.cleaner import Cleaner
from semel.broker.config import BrokerConfig
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.fetch_sessions import FetchSessions
from semel.broker.metrics.counts import Metrics
from semel.broker.partitions import Partitions
from semel.broker.producer_ids import ProducerIdGiver
from semel.cluster.store import MetadataStore
from semel.core.metadata.image import MetadataImage
from semel.runtime.bundle import Runtime

if TYPE_CHECKING:
    from semel.broker.membership.orders import Orders
    from semel.broker.replicas.fetchers import Fetchers
    from semel.cluster.controller.loop import Controller
    from semel.cluster.zookeeper_store import ZooKeeperStore
    from semel.core.cluster.controller.events import Answered

_logger: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class LiveConfig:
    """The settings the broker runs with now. Only the metadata's applier sets `current`."""

    current: BrokerConfig

    def use(self, config: BrokerConfig) -> None:
        self.current = config


@dataclass(slots=True)
class ProducePath:
    """Everything that Produce needs."""

    settings: LiveConfig
    runtime: Runtime
    partitions: Partitions
    transactions: TransactionCoordinator
    metrics: Metrics
    on_first_produce: Callable[[], object] | None = None
    """Called once, when the first batch comes: what only a producer's batches need can wait until then."""


@dataclass(frozen=True, slots=True)
class ReadPath:
    """Logs for their readers: Fetch, ListOffsets, and others that look at partitions or cut them."""

    settings: LiveConfig
    runtime: Runtime
    image: MetadataImage
    partitions: Partitions
    sessions: FetchSessions


@dataclass(frozen=True, slots=True)
class Coordinators:
    """Groups and transactions, and what both decide on."""

    node_id: int
    runtime: Runtime
    image: MetadataImage
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIdGiver


@dataclass(frozen=True, slots=True)
class Administration:
    """The metadata and its changes: topics, settings, quotas, users, features, and the partitions they are about."""

    node_id: int
    cluster_id: str
    settings: LiveConfig
    runtime: Runtime
    store: MetadataStore
    partitions: Partitions

    @property
    def config(self) -> BrokerConfig:
        return self.settings.current


@dataclass(frozen=True, slots=True)
class Membership:
    """A member's end of the requests that a controller sends."""

    orders: "Orders"
    store: "ZooKeeperStore"
    fetchers: "Fetchers"
    controller: "Controller | None" = None
    """Of a broker that stands for election."""

    async def ask_controller(self, event: "Answered") -> Any:
        """The answer of the controller, if that is this broker. Raises `NotActiveError`."""
        if self.controller is None:
            from semel.cluster.controller.loop import NotActiveError

            raise NotActiveError("this broker does not stand for election")
        return await self.controller.ask(event)

    def warn_of_missing_ids(self, api: str, version: int) -> None:
        """The controller gives topics no ids."""
        _logger.error(
            "%s of version %d names topics without an id, and is refused: have every Kafka broker of the cluster run with "
            "inter.broker.protocol.version=2.8 or later",
            api,
            version,
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """The broker put together: for its owner, who starts and stops it, and for tests. Handlers get one of the first five."""

    produce: ProducePath
    read: ReadPath
    coordinators: Coordinators
    administration: Administration
    cleaner: Cleaner
    membership: Membership | None = None
    """Of a member of a cluster."""

    @property
    def config(self) -> BrokerConfig:
        return self.administration.config

    @property
    def store(self) -> MetadataStore:
        return self.administration.store

    @property
    def partitions(self) -> Partitions:
        return self.read.partitions

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

    @property
    def metrics(self) -> Metrics:
        return self.produce.metrics
