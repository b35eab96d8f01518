"""What a handler gets: the broker's parts, and what is known of the request.

Role.   Handlers are functions of (broker, request, context); they hold no state of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from semel.broker.cleaner import Cleaner
from semel.broker.config import BrokerConfig
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.fetch_sessions import FetchSessions
from semel.broker.metrics import Metrics
from semel.broker.partitions import Partitions
from semel.broker.producer_ids import ProducerIds
from semel.cluster.store import MetadataStore
from semel.net.inbound import InboundConnection
from semel.runtime.bundle import Runtime


class RequestContext(NamedTuple):
    """One request, beside its content."""

    version: int
    client_id: str | None
    connection: InboundConnection


@dataclass(slots=True)
class BrokerContext:
    """The broker as its handlers see it."""

    config: BrokerConfig
    runtime: Runtime
    store: MetadataStore
    partitions: Partitions
    producer_ids: ProducerIds
    cluster_id: str
    sessions: FetchSessions
    cleaner: Cleaner
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    metrics: Metrics = field(default_factory=Metrics)
    on_reconfigured: list[Callable[[BrokerConfig], object]] = field(default_factory=list)
    """Called when the broker's settings were changed while it runs."""
    on_first_produce: Callable[[], object] | None = None
    """Called once, when the first batch comes: what only a producer's batches need can wait until then."""
    host: str = ""
    port: int = 0
    """Where clients reach us: set once the port is open."""

    @property
    def node_id(self) -> int:
        return self.config.node_id
