"""Paths of Kafka's nodes in ZooKeeper, below the chroot.

Rules.  * Names of users and clients are percent-encoded as Kafka's Sanitizer does it. `<default>` is written as it is.
        * A sequential node's number has ten digits; nodes are read in the order of their numbers, not of their names.
"""

from typing import Final
from urllib.parse import quote_plus, unquote_plus

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
FEATURE: Final = "/feature"
CONFIG: Final = "/config"
CONFIG_TOPICS: Final = "/config/topics"
CONFIG_BROKERS: Final = "/config/brokers"
CONFIG_USERS: Final = "/config/users"
CONFIG_CLIENTS: Final = "/config/clients"
CONFIG_IPS: Final = "/config/ips"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
CONSUMERS: Final = "/consumers"

DEFAULT_ENTITY: Final = "<default>"

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    CONFIG_TOPICS,
    CONFIG_CLIENTS,
    CONFIG_USERS,
    CONFIG_BROKERS,
    CONFIG_IPS,
)
"""The nodes that every broker makes at its start if they are not there, in Kafka's order."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}"


def state(name: str, index: int) -> str:
    return f"{partition(name, index)}/state"


def topic_configs(name: str) -> str:
    return f"{CONFIG_TOPICS}/{name}"


def broker_configs(broker_id: int | None) -> str:
    """Of one broker, or of all."""
    return f"{CONFIG_BROKERS}/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def deletion(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def sequence_of(name: str) -> int:
    """The number of a sequential node. Raises `ValueError` for a node that has none."""
    return int(name[-10:])


def sanitized(name: str) -> str:
    """A user's or client's name as a part of a path."""
    return (
        name
        if name == DEFAULT_ENTITY
        else quote_plus(name, safe="-._~").replace("+", "%20").replace("~", "%7E")
    )


def desanitized(part: str) -> str:
    """The name that `sanitized` wrote."""
    return part if part == DEFAULT_ENTITY else unquote_plus(part)
