"""UpdateMetadata as changes of the image: which brokers are alive, which decides, and how partitions are.

Role.   Pure: from a request of any version to the changes that `MetadataImage.apply` takes over.
Rules.  * The brokers are always complete: a broker that is not named is not alive.
        * Partitions that are not named stay as they are known. Leader -2 says that a partition is being deleted: it is forgotten.
        * Topics have ids. A controller that sends none (inter.broker.protocol.version below 2.8) is refused: requests by id would never
          find its topics.
"""

import uuid
from collections.abc import Iterable
from typing import Final

from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.partition_state import PartitionState
from semel.core.metadata.rows import BrokersRow, Change, ControllerRow, TopicStatesRow
from semel.core.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from semel.core.wire.primitives import ZERO_UUID

_DURING_DELETION: Final = -2


def topics_without_id(request: UpdateMetadataRequest) -> list[str]:
    """The topics that a request names without an id."""
    ungrouped = dict.fromkeys(one.topic_name for one in request.ungrouped_partition_states)
    return [*ungrouped, *(one.topic_name for one in request.topic_states if one.topic_id == ZERO_UUID)]


def changes(request: UpdateMetadataRequest) -> list[Change]:
    """The changes, brokers first: a leader is known before its partitions are."""
    told: list[Change] = [
        BrokersRow(tuple(_broker(one) for one in request.live_brokers)),
        ControllerRow(request.controller_id),
    ]
    told += [
        TopicStatesRow(topic.topic_name, uuid.UUID(bytes=topic.topic_id), _states(topic.partition_states))
        for topic in request.topic_states
    ]
    return told


def _broker(told: UpdateMetadataBroker) -> RegisteredBroker:
    endpoints = {one.listener: Endpoint(one.host, one.port) for one in told.endpoints}
    return RegisteredBroker(told.id, endpoints, told.rack or None)


def _states(told: Iterable[UpdateMetadataPartitionState]) -> dict[int, PartitionState | None]:
    return {one.partition_index: _state(one) for one in told}


def _state(told: UpdateMetadataPartitionState) -> PartitionState | None:
    if told.leader == _DURING_DELETION:
        return None
    return PartitionState(
        tuple(told.replicas),
        tuple(told.isr),
        told.leader,
        told.leader_epoch,
        told.zk_version,
        tuple(told.offline_replicas),
    )
