"""Transactions seen and ended from outside: what coordinators know, what partitions have open, and who hangs.

Role.   The requests behind `semel txn`.
Rules.  * A transaction hangs where a partition has it open and no coordinator will ever end it there: nobody knows its
          producer, or the coordinator's transaction does not include the partition. Only one whose last record is older than
          the longest timeout is called so, because coordinator and partition hear of each other a little late.
        * A record's timestamp is its producer's to choose, so age alone proves nothing: the partition is asked again after the
          coordinator. A transaction that ended meanwhile is closed there, because markers come before the coordinator forgets.
        * Ending a hanging one writes an abort marker to that partition with the producer's own epoch. It is the only
          way, and it is for those alone: a coordinator's own transaction is ended by fencing its producer.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.client import admin
from semel.client.cluster import Cluster, refused
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.list_transactions import ListTransactionsRequest
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from semel.errors import ErrorCode, RefusedError
from semel.types import TopicPartition

_TRANSACTION: Final = 1
_ONE_KEY_VERSION: Final = 3
_FENCE_TIMEOUT_MS: Final = 60_000


class TransactionListing(NamedTuple):
    """A transactional id, in short."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionView(NamedTuple):
    """Everything a coordinator tells of a transactional id."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


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


class Fenced(NamedTuple):
    """A transactional id after it was taken over."""

    producer_id: int
    producer_epoch: int


async def list_transactions(
    cluster: Cluster,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    older_than_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """The transactional ids of all brokers, by name, as far as they match."""

    async def ask_one(node_id: int) -> list[TransactionListing]:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=older_than_ms,
            transactional_id_pattern=pattern,
        )
        answer = await cluster.send(request, node_id=node_id)
        if answer.error_code:
            raise refused(answer.error_code, "to list its transactions", by=cluster.where)
        return [
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state, node_id)
            for one in answer.transaction_states
        ]

    async def ask() -> list[TransactionListing]:
        await cluster.metadata([])
        answers = await asyncio.gather(*(ask_one(node_id) for node_id in cluster.nodes))
        return sorted(one for answer in answers for one in answer)

    return await cluster.patiently(ask)


async def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionView:
    """One transactional id; raises `RefusedError` with TRANSACTIONAL_ID_NOT_FOUND if nobody has used it."""

    async def ask() -> TransactionView:
        coordinator = await _coordinator(cluster, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (one,) = (await cluster.send(request, node_id=coordinator)).transaction_states
        if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise RefusedError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"transactional id {transactional_id} is unknown at {cluster.where}: see 'semel txn list'",
            )
        if one.error_code:
            raise refused(one.error_code, f"to describe {transactional_id}", by=cluster.where)
        return TransactionView(
            transactional_id,
            coordinator,
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            one.transaction_timeout_ms,
            one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
            tuple(
                sorted(TopicPartition(each.topic, index) for each in one.topics for index in each.partitions)
            ),
        )

    return await cluster.patiently(ask)


async def open_transactions(
    cluster: Cluster, topics: Sequence[str] | None, *, now_ms: int, older_than_ms: int
) -> list[OpenTransaction]:
    """What partitions have open, of these topics or of all, oldest offsets first; and which of them hang."""
    names = topics if topics is not None else [one.name for one in await admin.list_topics(cluster)]
    found = await _with_open_transaction(cluster, names)
    if not found:
        return []
    ids = sorted({view.producer_id for _name, view in found})
    owners = {one.producer_id: one for one in await list_transactions(cluster, producer_ids=ids)}
    described = {
        one.transactional_id: await describe_transaction(cluster, one.transactional_id)
        for one in owners.values()
    }
    still_open = {
        (name, view.partition, view.producer_id, view.transaction_start_offset)
        for name, view in await _with_open_transaction(cluster, sorted({name for name, _view in found}))
    }
    result = []
    for name, view in found:
        owner = owners.get(view.producer_id)
        is_known = (
            owner is not None
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


async def _with_open_transaction(
    cluster: Cluster, topics: Sequence[str]
) -> list[tuple[str, admin.ProducerView]]:
    """The producers with a transaction open, each with its topic."""
    found: list[tuple[str, admin.ProducerView]] = []
    for name in topics:
        views = await admin.describe_producers(cluster, await cluster.topic(name))
        found += [(name, view) for view in views if view.transaction_start_offset is not None]
    return found


async def abort_on_partition(cluster: Cluster, topic: str, partition: int, start_offset: int) -> None:
    """Write an abort marker for the transaction that begins there; raises if none does."""
    view = await cluster.topic(topic)
    producers = await admin.describe_producers(cluster, view, [partition])
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


async def fence(cluster: Cluster, transactional_id: str) -> Fenced:
    """Take the transactional id over: its transaction is aborted, its producer fenced. Whom it belongs to now."""

    async def order() -> Fenced:
        coordinator = await _coordinator(cluster, transactional_id)
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_FENCE_TIMEOUT_MS
        )
        answer = await cluster.send(request, node_id=coordinator)
        if answer.error_code:
            raise refused(answer.error_code, f"to fence {transactional_id}", by=cluster.where)
        return Fenced(answer.producer_id, answer.producer_epoch)

    return await cluster.patiently(order)


async def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
    answer = await cluster.send(request, version_max=_ONE_KEY_VERSION)
    if answer.error_code:
        what = f"the coordinator of transactional id {transactional_id}"
        raise refused(answer.error_code, what, by=cluster.where, reason=answer.error_message)
    return answer.node_id
