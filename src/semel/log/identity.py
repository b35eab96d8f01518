"""A data directory's identity: `meta.properties`, in the form of a broker alone and in that of a cluster under ZooKeeper.

Role.   `read` says what a directory is, `settle` checks that it is this broker's, or writes down that it is from now on.
Flow.   `LogDirectory.open` settles it under the directory's lock. A broker of a cluster reads it before: its id may stand nowhere
        else, and its cluster is looked up with it.
Rules.  * A broker alone has version 1 with `node.id`, as Kafka has with KRaft. A member of a cluster under ZooKeeper has version 0
          with `broker.id` and `cluster.id`, to the letter as Kafka 3.9 writes it: both may use the directory, one after the other.
        * A directory of the other kind is refused. Its logs are the same, but its metadata is elsewhere.
        * A member's new directory is written to when the cluster has taken the broker (`claim`): a refused one may be used for another.
        * Kafka's old directories of version 0 name no cluster. Such a one belongs to the first cluster that it joins.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.errors import ConfigError
from semel.log import checkpoints
from semel.runtime.files import Files, join

_BROKER_ID: Final = "broker.id"
_NODE_ID: Final = "node.id"
_CLUSTER_ID: Final = "cluster.id"
_DIRECTORY_ID: Final = "directory.id"


class Kind(Enum):
    """The kinds of brokers a directory can belong to, by the version of its `meta.properties`."""

    ALONE = "1"
    MEMBER = "0"


@dataclass(frozen=True, slots=True)
class Identity:
    """The broker and the cluster that a directory belongs to."""

    kind: Kind
    broker_id: int
    cluster_id: str | None
    directory_id: str | None = None


def read(files: Files, path: str) -> Identity | None:
    """The identity of the directory; None for a new one. Raises `ConfigError` for an unreadable one."""
    where = join(path, checkpoints.META_PROPERTIES)
    found = checkpoints.read_meta_properties(files, where)
    if not found:
        return None
    version = found.get("version", "")
    if version not in {kind.value for kind in Kind}:
        raise ConfigError(
            f"{where}: version={version} is not known, 0 (a cluster under ZooKeeper) and 1 are: bring the right file back, or use "
            "another log.dirs"
        )
    key = _NODE_ID if _NODE_ID in found else _BROKER_ID
    number = found.get(key, "")
    if not number.isdecimal():
        raise ConfigError(
            f"{where}: {key}={number} is no broker's number: bring the right file back, or use another log.dirs"
        )
    return Identity(Kind(version), int(number), found.get(_CLUSTER_ID), found.get(_DIRECTORY_ID))


def settle(files: Files, path: str, own: Identity) -> Identity:
    """The identity of the directory once it is this broker's. Raises `ConfigError` if it is another's.

    A member claims it later.
    """
    found = read(files, path)
    if found is None:
        if own.kind is Kind.ALONE:
            claim(files, path, own)
        return own
    if found.kind is not own.kind:
        raise ConfigError(other_kind(path, found))
    if found.broker_id != own.broker_id:
        raise ConfigError(
            f"{path} belongs to broker {found.broker_id}, this is broker {own.broker_id}: use its {_key(own.kind)} or another "
            "log.dirs"
        )
    if own.kind is Kind.ALONE:
        return found  # It keeps its own cluster's id, and the one suggested is dropped.
    if found.cluster_id is None:
        return own
    if found.cluster_id != own.cluster_id:
        raise ConfigError(other_cluster(path, found.cluster_id, str(own.cluster_id)))
    return found


def other_cluster(path: str, own: str, there: str) -> str:
    """The refusal of a directory that belongs to another cluster than the one its broker joins."""
    return (
        f"{path} belongs to cluster {own} (cluster.id in its meta.properties), and the cluster at zookeeper.connect is {there}: "
        "correct zookeeper.connect, its chroot too, or use another log.dirs"
    )


def other_kind(path: str, found: Identity) -> str:
    """The refusal of a directory that belongs to the other kind of broker."""
    if found.kind is Kind.ALONE:
        return (
            f"{path} belongs to broker {found.broker_id} without ZooKeeper (version=1 in its meta.properties: a broker alone, or "
            "Kafka with KRaft): start it without zookeeper.connect, or use another log.dirs and copy the topics into the cluster"
        )
    return (
        f"{path} belongs to broker {found.broker_id} of cluster {found.cluster_id} under ZooKeeper (version=0 in its "
        "meta.properties): start it with that cluster's zookeeper.connect, or use another log.dirs"
    )


def _key(kind: Kind) -> str:
    return _NODE_ID if kind is Kind.ALONE else _BROKER_ID


def claim(files: Files, path: str, own: Identity) -> None:
    """Write down whose directory it is."""
    values = {"version": own.kind.value}
    if own.cluster_id is not None:
        values[_CLUSTER_ID] = own.cluster_id
    values[_key(own.kind)] = str(own.broker_id)
    if own.directory_id is not None and own.kind is Kind.ALONE:
        values[_DIRECTORY_ID] = own.directory_id
    checkpoints.write_meta_properties(files, join(path, checkpoints.META_PROPERTIES), values)
