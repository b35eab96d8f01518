"""Transactions that partitions have open, and those of them that hang.

Role.   `open_transactions` finds them, `abort_on_partition` ends one that hangs (WriteTxnMarkers).
Flow.   `transactions` and `semel txn` call these.
Rules.  * A transaction hangs where a partition has it open and no coordinator will ever end it there. Either nobody knows its
          producer, or the coordinator's transaction does not include the partition. Its last record must be older than the
          longest timeout, because coordinator and partition hear of each other a little late.
        * A record's timestamp is its producer's to choose, so age alone proves nothing: the partition is asked again after the
          coordinator. A transaction that ended meanwhile is closed there, because markers come before the coordinator forgets.
        * Ending a hanging one writes an abort marker to that partition with the producer's own epoch. It is the only
          way, and it is for those alone: a coordinator's own transaction is ended by fencing its producer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from semel.client.calls.describe_producers import ProducerView, describe_producers
from semel.client.calls.describe_transactions import describe_transactions
from semel.client.calls.list_topics import list_topics
from semel.client.calls.list_transactions import list_transactions
from semel.client.cluster import Cluster
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from semel.errors import ErrorCode, RefusedError, refused
from semel.types import TopicPartition


class OpenTransaction(NamedTuple):
    """A transaction a partition has open: it holds the last stable offset at or before `start_offset`."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int | None
    transactional_id: str | None
    is_hanging: bool


async def open_transactions(
    cluster: Cluster, topics: Sequence[str] | None, *, now_ms: int, older_than_ms: int
) -> list[OpenTransaction]:
    """The open transactions of partitions, of these topics or of all, oldest offsets first; and which of them hang."""
    names = topics if topics is not None else [one.name for one in await list_topics(cluster)]
    found = await _with_open_transaction(cluster, names)
    if not found:
        return []
    ids = sorted({view.producer_id for _name, view in found})
    owners = {one.producer_id: one for one in await list_transactions(cluster, producer_ids=ids)}
    described = await describe_transactions(cluster, [one.transactional_id for one in owners.values()])
    still_open = {
        (name, view.partition, view.producer_id, view.transaction_start_offset)
        for name, view in await _with_open_transaction(cluster, sorted({name for name, _view in found}))
    }
    result = []
    for name, view in found:
        owner = owners.get(view.producer_id)
        is_known = (
            owner is not None
            and owner.transactional_id in described
            and TopicPartition(name, view.partition) in described[owner.transactional_id].partitions
        )
        is_open = (name, view.partition, view.producer_id, view.transaction_start_offset) in still_open
        is_old = now_ms - (view.last_timestamp_ms or 0) > older_than_ms
        result.append(
            OpenTransaction(
                name,
                view.partition,
                view.transaction_start_offset or 0,
                view.producer_id,
                view.producer_epoch,
                max(view.coordinator_epoch or 0, 0),
                view.last_timestamp_ms,
                None if owner is None else owner.transactional_id,
                is_old and is_open and not is_known,
            )
        )
    return sorted(result)


async def _with_open_transaction(cluster: Cluster, topics: Sequence[str]) -> list[tuple[str, ProducerView]]:
    """The producers with a transaction open, each with its topic."""
    found: list[tuple[str, ProducerView]] = []
    for name in topics:
        views = await describe_producers(cluster, await cluster.topic(name))
        found += [(name, view) for view in views if view.transaction_start_offset is not None]
    return found


async def abort_on_partition(cluster: Cluster, topic: str, partition: int, start_offset: int) -> None:
    """Write an abort marker for the transaction that begins there; raises if none does."""
    view = await cluster.topic(topic)
    producers = await describe_producers(cluster, view, [partition])
    open_one = next((one for one in producers if one.transaction_start_offset == start_offset), None)
    if open_one is None:
        raise RefusedError(
            ErrorCode.INVALID_TXN_STATE,
            f"no transaction is open from offset {start_offset} of {topic}-{partition} at {cluster.where}: "
            f"see 'semel txn find-hanging --all --topic {topic}'",
        )
    marker = WritableTxnMarker(
        producer_id=open_one.producer_id,
        producer_epoch=open_one.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(open_one.coordinator_epoch or 0, 0),
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
    )

    async def order() -> None:
        leaders = await cluster.by_leader(topic, [partition])
        (leader,) = leaders
        answer = await cluster.send(WriteTxnMarkersRequest(markers=[marker]), node_id=leader)
        code = answer.markers[0].topics[0].partitions[0].error_code
        if code:
            raise refused(code, f"to end the transaction on {topic}-{partition}", by=cluster.where)

    await cluster.patiently(order)
