"""The event that follows when a watch fires.

Role.   `event_of` is asked for every watch; what the controller does not watch has none.
"""

from collections.abc import Mapping
from typing import Final

from semel.core.cluster import paths
from semel.core.cluster.controller import events
from semel.core.cluster.controller.events import Watched
from semel.core.zookeeper.wire.messages import WatchEvent
from semel.core.zookeeper.words import EventType

_CHILDREN: Final[Mapping[str, Watched]] = {
    paths.BROKER_IDS: events.BrokerChange(),
    paths.TOPICS: events.TopicChange(),
    paths.DELETE_TOPICS: events.TopicDeletion(),
    paths.ISR_CHANGES: events.IsrChangeNotification(),
    paths.LOG_DIR_EVENTS: events.LogDirEventNotification(),
}
_CREATED: Final[Mapping[str, Watched]] = {
    paths.REASSIGN_PARTITIONS: events.ZkPartitionReassignment(),
    paths.PREFERRED_REPLICA_ELECTION: events.ZkPreferredReplicaElection(),
}


def event_of(watch: WatchEvent) -> Watched | None:
    """The controller's event for a watch that has fired."""
    if watch.type is EventType.NODE_CHILDREN_CHANGED:
        return _CHILDREN.get(watch.path)
    if watch.path in _CREATED:
        return _CREATED[watch.path]
    above, _slash, name = watch.path.rpartition("/")
    if above == paths.TOPICS:
        return events.PartitionModifications(name)
    if above == paths.BROKER_IDS and name.isdecimal():
        return events.BrokerModifications(int(name))
    return None
