"""Every API this broker serves, a row each: its versions on each kind of listener, what it needs to be allowed, how it is handled.

Role.   The one table behind `dispatch`: a new API is a module in `core/wire/messages`, a row in `core/wire/registry`, a module in
        `handlers/` of the same name as its key, and a row here.
Rules.  * Clients and brokers may come through one listener: such a listener serves what either of them is served.
        * The broker's end of a cluster is served on the listener through which brokers call each other, and only there. A member of a
          cluster serves no version that is not in `core.cluster.versions`.
        * `needs` names the operations in the order in which Kafka asks for them. An operation of a second resource applies where the
          request names one. Handlers that ask for more, or for less, say so themselves.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from semel.core.security.identity import ListenerName
from semel.core.security.operations import AclOperation, Need, ResourceType
from semel.core.wire.api_versions import ServedApi
from semel.core.wire.registry import BY_KEY, Api, ApiKey

_HANDLERS: Final = "semel.broker.handlers."


class Versions(NamedTuple):
    """Bounds on the versions of an API beside those of its messages."""

    first: int = 0
    last: int = 0x7FFF


EVERY: Final = Versions()
View: TypeAlias = Literal["produce", "read", "coordinators", "administration", "membership"]
"""The views in `parts.Parts`."""


Limits: TypeAlias = Mapping[int, tuple[int, int]]
"""The versions that a member of a cluster may serve at all, by API."""


class Row(NamedTuple):
    """An API that is served."""

    key: ApiKey
    needs: tuple[Need, ...] = ()
    clients: Versions | None = EVERY
    """The versions on listeners for clients; None: it is not served there."""
    brokers: Versions | None = EVERY
    """The versions on the listener through which brokers call each other."""
    view: View = "administration"
    """The view of the broker that its handler gets."""
    pauses: bool = False
    """Whether the handler pauses by itself, so that a request of many rows needs no portions."""
    rows_max: int | None = None
    """Elements of arrays that a request may have, where the bounds of `dispatch` would let one hold the loop for too long."""
    bytes_max: int | None = None
    """Bytes of a request, likewise: for settings, whose values may be lists of any length."""
    is_decided: bool = False
    """Whether the controller decides about it: in a cluster every other broker says NOT_CONTROLLER."""
    unstable_with: str | None = None
    """The setting that shows its unstable versions to clients."""

    @property
    def api(self) -> Api:
        return BY_KEY[self.key]

    @property
    def module(self) -> str:
        """The name of its handler's module."""
        return _HANDLERS + self.key.name.lower()

    def handler(self) -> Callable[..., Any]:
        """Its handler, imported now."""
        handle: Callable[..., Any] = importlib.import_module(self.module).handle
        return handle

    def bounds(self, listener: ListenerName) -> Iterator[Versions]:
        """The bounds on its versions for those who come through a listener."""
        if self.clients is not None:
            yield self.clients
        if self.brokers is not None and listener.is_inter_broker:
            yield self.brokers

    def is_on(self, listener: ListenerName) -> bool:
        """Whether any version of it is served there."""
        return any(True for _bounds in self.bounds(listener))

    def serves(self, version: int, listener: ListenerName, limits: Limits | None = None) -> bool:
        """Whether a request of this version is handled."""
        if limits is not None and version > limits[self.key][1]:
            return False
        return self.api.serves(version) and any(
            one.first <= version <= one.last for one in self.bounds(listener)
        )

    def advertised(
        self, listener: ListenerName, settings: Mapping[str, Any], limits: Limits | None = None
    ) -> ServedApi | None:
        """The row of an answer to ApiVersions, if there is one."""
        if not self.is_on(listener) or (limits is not None and self.key not in limits):
            return None
        bounds = list(self.bounds(listener))
        if limits is not None:
            bounds = [Versions(one.first, min(one.last, limits[self.key][1])) for one in bounds]
        unstable = self.unstable_with is not None and bool(settings[self.unstable_with])
        first, last = self.api.advertised(unstable=unstable)
        return ServedApi(
            self.key, max(first, min(one.first for one in bounds)), min(last, max(one.last for one in bounds))
        )


_SETTINGS_BYTES_MAX: Final = 4 << 20
"""Some 70 ms of work, if all of it are lists in settings."""
_CREDENTIALS_MAX: Final = 5_000
"""Some 70 ms of work: each of them is hashed."""

_ORDERS_MAX: Final = 2_000_000
"""Elements of a controller's request: tens of thousands of partitions, with their replicas."""

_CLUSTER_ACTION: Final = Need(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION)
_CLUSTER_ALTER: Final = Need(ResourceType.CLUSTER, AclOperation.ALTER)
_CLUSTER_ALTER_CONFIGS: Final = Need(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS)
_CLUSTER_CREATE: Final = Need(ResourceType.CLUSTER, AclOperation.CREATE)
_CLUSTER_DESCRIBE: Final = Need(ResourceType.CLUSTER, AclOperation.DESCRIBE)
_CLUSTER_DESCRIBE_CONFIGS: Final = Need(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS)
_CLUSTER_IDEMPOTENT_WRITE: Final = Need(ResourceType.CLUSTER, AclOperation.IDEMPOTENT_WRITE)
_GROUP_ALTER_CONFIGS: Final = Need(ResourceType.GROUP, AclOperation.ALTER_CONFIGS)
_GROUP_DELETE: Final = Need(ResourceType.GROUP, AclOperation.DELETE)
_GROUP_DESCRIBE: Final = Need(ResourceType.GROUP, AclOperation.DESCRIBE)
_GROUP_DESCRIBE_CONFIGS: Final = Need(ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS)
_GROUP_READ: Final = Need(ResourceType.GROUP, AclOperation.READ)
_TOPIC_ALTER: Final = Need(ResourceType.TOPIC, AclOperation.ALTER)
_TOPIC_ALTER_CONFIGS: Final = Need(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS)
_TOPIC_CREATE: Final = Need(ResourceType.TOPIC, AclOperation.CREATE)
_TOPIC_DELETE: Final = Need(ResourceType.TOPIC, AclOperation.DELETE)
_TOPIC_DESCRIBE: Final = Need(ResourceType.TOPIC, AclOperation.DESCRIBE)
_TOPIC_DESCRIBE_CONFIGS: Final = Need(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS)
_TOPIC_READ: Final = Need(ResourceType.TOPIC, AclOperation.READ)
_TOPIC_WRITE: Final = Need(ResourceType.TOPIC, AclOperation.WRITE)
_TXN_DESCRIBE: Final = Need(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE)
_TXN_TWO_PHASE_COMMIT: Final = Need(ResourceType.TRANSACTIONAL_ID, AclOperation.TWO_PHASE_COMMIT)
_TXN_WRITE: Final = Need(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)


def _to_member(key: ApiKey) -> Row:
    """A request among the brokers of a cluster under ZooKeeper."""
    return Row(key, (_CLUSTER_ACTION,), clients=None, view="membership", pauses=True, rows_max=_ORDERS_MAX)


SERVED: Final = (
    Row(ApiKey.PRODUCE, (_TXN_WRITE, _TOPIC_WRITE), pauses=True, view="produce"),
    Row(ApiKey.FETCH, (_TOPIC_READ, _CLUSTER_ACTION), pauses=True, view="read"),
    Row(ApiKey.LIST_OFFSETS, (_TOPIC_DESCRIBE,), view="read"),
    Row(ApiKey.METADATA, (_TOPIC_DESCRIBE, _CLUSTER_CREATE, _TOPIC_CREATE)),
    _to_member(ApiKey.LEADER_AND_ISR),
    _to_member(ApiKey.STOP_REPLICA),
    _to_member(ApiKey.UPDATE_METADATA),
    _to_member(ApiKey.CONTROLLED_SHUTDOWN),
    Row(ApiKey.OFFSET_COMMIT, (_GROUP_READ, _TOPIC_READ), view="coordinators"),
    Row(ApiKey.OFFSET_FETCH, (_GROUP_DESCRIBE, _TOPIC_DESCRIBE), view="coordinators"),
    Row(ApiKey.FIND_COORDINATOR, (_GROUP_DESCRIBE, _TXN_DESCRIBE), view="coordinators"),
    Row(ApiKey.JOIN_GROUP, (_GROUP_READ,), view="coordinators"),
    Row(ApiKey.HEARTBEAT, (_GROUP_READ,), view="coordinators"),
    Row(ApiKey.LEAVE_GROUP, (_GROUP_READ,), view="coordinators"),
    Row(ApiKey.SYNC_GROUP, (_GROUP_READ,), view="coordinators"),
    Row(ApiKey.DESCRIBE_GROUPS, (_GROUP_DESCRIBE,), view="coordinators"),
    Row(ApiKey.LIST_GROUPS, (_CLUSTER_DESCRIBE, _GROUP_DESCRIBE), view="coordinators"),
    Row(ApiKey.API_VERSIONS),
    Row(
        ApiKey.CREATE_TOPICS,
        (_CLUSTER_CREATE, _TOPIC_CREATE, _TOPIC_DESCRIBE_CONFIGS),
        pauses=True,
        bytes_max=_SETTINGS_BYTES_MAX,
        is_decided=True,
    ),
    Row(ApiKey.DELETE_TOPICS, (_TOPIC_DELETE, _TOPIC_DESCRIBE), pauses=True, is_decided=True),
    Row(ApiKey.DELETE_RECORDS, (_TOPIC_DELETE,), view="read"),
    Row(
        ApiKey.INIT_PRODUCER_ID,
        (_TXN_WRITE, _TXN_TWO_PHASE_COMMIT, _CLUSTER_IDEMPOTENT_WRITE, _TOPIC_WRITE),
        unstable_with="transaction.two.phase.commit.enable",
        view="coordinators",
    ),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, (_CLUSTER_ACTION, _TOPIC_DESCRIBE), view="read"),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, (_CLUSTER_ACTION, _TXN_WRITE, _TOPIC_WRITE), view="coordinators"),
    Row(ApiKey.ADD_OFFSETS_TO_TXN, (_TXN_WRITE, _GROUP_READ), view="coordinators"),
    Row(ApiKey.END_TXN, (_TXN_WRITE,), view="coordinators"),
    Row(ApiKey.WRITE_TXN_MARKERS, (_CLUSTER_ALTER, _CLUSTER_ACTION), view="coordinators"),
    Row(ApiKey.TXN_OFFSET_COMMIT, (_TXN_WRITE, _GROUP_READ, _TOPIC_READ), view="coordinators"),
    Row(ApiKey.DESCRIBE_ACLS, (_CLUSTER_DESCRIBE,)),
    Row(ApiKey.CREATE_ACLS, (_CLUSTER_ALTER,)),
    Row(ApiKey.DELETE_ACLS, (_CLUSTER_ALTER,)),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        (_TOPIC_DESCRIBE_CONFIGS, _GROUP_DESCRIBE_CONFIGS, _CLUSTER_DESCRIBE_CONFIGS),
    ),
    Row(
        ApiKey.ALTER_CONFIGS,
        (_TOPIC_ALTER_CONFIGS, _GROUP_ALTER_CONFIGS, _CLUSTER_ALTER_CONFIGS),
        bytes_max=_SETTINGS_BYTES_MAX,
    ),
    Row(ApiKey.ALTER_REPLICA_LOG_DIRS, (_CLUSTER_ALTER,)),
    Row(ApiKey.DESCRIBE_LOG_DIRS, (_CLUSTER_DESCRIBE,)),
    Row(ApiKey.CREATE_PARTITIONS, (_TOPIC_ALTER,), is_decided=True),
    Row(ApiKey.DELETE_GROUPS, (_GROUP_DELETE,), view="coordinators"),
    Row(ApiKey.ELECT_LEADERS, (_CLUSTER_ALTER,), is_decided=True),
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        (_TOPIC_ALTER_CONFIGS, _GROUP_ALTER_CONFIGS, _CLUSTER_ALTER_CONFIGS),
        bytes_max=_SETTINGS_BYTES_MAX,
    ),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (_CLUSTER_ALTER,), is_decided=True),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, (_CLUSTER_DESCRIBE,), is_decided=True),
    Row(ApiKey.OFFSET_DELETE, (_GROUP_DELETE, _TOPIC_READ), view="coordinators"),
    Row(ApiKey.DESCRIBE_CLIENT_QUOTAS, (_CLUSTER_DESCRIBE_CONFIGS,)),
    Row(ApiKey.ALTER_CLIENT_QUOTAS, (_CLUSTER_ALTER_CONFIGS,)),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (_CLUSTER_DESCRIBE,)),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (_CLUSTER_ALTER,), rows_max=_CREDENTIALS_MAX, is_decided=True),
    _to_member(ApiKey.ALTER_PARTITION),
    Row(ApiKey.UPDATE_FEATURES, (_CLUSTER_ALTER,), is_decided=True),
    Row(ApiKey.DESCRIBE_CLUSTER),
    Row(ApiKey.DESCRIBE_PRODUCERS, (_TOPIC_READ,), view="read"),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, (_TXN_DESCRIBE, _TOPIC_DESCRIBE), view="coordinators"),
    Row(ApiKey.LIST_TRANSACTIONS, (_TXN_DESCRIBE,), view="coordinators"),
    _to_member(ApiKey.ALLOCATE_PRODUCER_IDS),
    Row(ApiKey.CONSUMER_GROUP_HEARTBEAT, (_GROUP_READ, _TOPIC_DESCRIBE), view="coordinators"),
    Row(ApiKey.CONSUMER_GROUP_DESCRIBE, (_GROUP_DESCRIBE, _TOPIC_DESCRIBE), view="coordinators"),
    Row(ApiKey.LIST_CONFIG_RESOURCES, (_CLUSTER_DESCRIBE_CONFIGS,)),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (_TOPIC_DESCRIBE,)),
)
_ROWS: Final[Mapping[int, Row]] = {row.key: row for row in SERVED}


def row_of(key: int) -> Row | None:
    """The row of an API, by its number on the wire."""
    return _ROWS.get(key)


def advertised(
    listener: ListenerName, settings: Mapping[str, Any], limits: Limits | None = None
) -> tuple[ServedApi, ...]:
    """The rows of an answer to ApiVersions, in the order of their keys."""
    rows = (row.advertised(listener, settings, limits) for row in sorted(SERVED, key=lambda row: row.key))
    return tuple(row for row in rows if row is not None)
