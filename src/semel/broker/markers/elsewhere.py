"""Markers on the partitions that other brokers lead: WriteTxnMarkers, one request at a time per broker.

Role.   The way of a member's transaction coordinators to leaders elsewhere.
Flow.   `write` -> the marker waits for its broker -> WriteTxnMarkers with all that waits -> the code of each partition.
Rules.  * Versions are those of the cluster's protocol: ApiVersions is not asked (`core.cluster.versions`).
        * A marker whose coordinator went while it waited is not sent. It is answered NOT_COORDINATOR.
        * A leader answers per producer, in any order, as Kafka does. A partition that is missing in the answer is asked for again.
        * A lost answer is NETWORK_EXCEPTION: the marker may be written. Another one does no harm: the transaction ends the same way,
          and its producer gets no further before all are answered.
Elsewhere. Tries, and who leads by then: `sending`. Requests in flight: `cluster.peers`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from semel.broker.config import BrokerConfig
from semel.broker.markers.here import Marker
from semel.broker.peer_config import peer_config
from semel.cluster.peers import Peers
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.errors import ErrorCode, SemelError, error_code
from semel.net.link import Link
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition


class _Sent(NamedTuple):
    """A marker on its way to one partition."""

    marker: Marker
    topic_partition: TopicPartition
    is_wanted: Callable[[], bool]
    written: asyncio.Future[ErrorCode]


class MarkersElsewhere:
    """Has other brokers write markers."""

    def __init__(
        self, config: BrokerConfig, runtime: Runtime, brokers: Mapping[int, RegisteredBroker]
    ) -> None:
        """`brokers`: the metadata's, live."""
        self._timeout_ms = config.request_timeout_ms
        self._peers: Peers[_Sent] = Peers(
            runtime,
            self,
            what="markers of transactions",
            brokers=brokers,
            listener=config.listener.name,
            config=peer_config(config, f"broker-{config.node_id}-txn-marker-sender"),
            served=BETWEEN_BROKERS,
        )

    def write(
        self,
        broker_id: int,
        marker: Marker,
        topic_partition: TopicPartition,
        is_wanted: Callable[[], bool],
    ) -> asyncio.Future[ErrorCode]:
        """Have a broker end a producer's transaction on a partition, unless `is_wanted` says no before it is sent."""
        written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._peers.put(broker_id, [_Sent(marker, topic_partition, is_wanted, written)])
        return written

    def brokers_changed(self) -> None:
        """Other brokers are alive than before."""
        self._peers.brokers_changed()

    def close(self) -> None:
        """Send nothing any more."""
        self._peers.close()

    # For `Peers`

    async def carry_out(self, link: Link, errands: Sequence[_Sent]) -> None:
        wanted: list[_Sent] = []
        for one in errands:
            if one.is_wanted():
                wanted.append(one)
            else:
                _tell(one, ErrorCode.NOT_COORDINATOR)
        if not wanted:
            return
        request = request_of([(one.marker, one.topic_partition) for one in wanted])
        answer = await link.send(request, timeout_ms=self._timeout_ms)
        codes = codes_of(answer)
        for one in wanted:
            place = one.marker.producer_id, *one.topic_partition
            _tell(one, codes.get(place, ErrorCode.NETWORK_EXCEPTION))

    def failed(self, errands: Sequence[_Sent], error: SemelError) -> None:  # noqa: ARG002  # `Peers` has said it.
        for one in errands:
            _tell(one, ErrorCode.NETWORK_EXCEPTION)


def request_of(markers: Sequence[tuple[Marker, TopicPartition]]) -> WriteTxnMarkersRequest:
    """One request for all, with one entry per transaction."""
    by_marker: dict[Marker, dict[str, list[int]]] = {}
    for marker, (topic, index) in markers:
        by_marker.setdefault(marker, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, topics in by_marker.items()
        ]
    )


def codes_of(answer: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    """By producer, topic and partition."""
    return {
        (marker.producer_id, topic.name, one.partition_index): error_code(one.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for one in topic.partitions
    }


def _tell(sent: _Sent, code: ErrorCode) -> None:
    if not sent.written.done():
        sent.written.set_result(code)
