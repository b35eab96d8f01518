"""DescribeTransactions: everything coordinators tell of transactional ids."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.client.calls import known
from semel.client.calls.find_coordinator import CoordinatorKind, at_coordinator, find_coordinators
from semel.client.cluster import Cluster
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.errors import ErrorCode, RefusedError, refused
from semel.types import TopicPartition

_KEYS_MAX: Final = 1000


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


async def ask_coordinator(
    cluster: Cluster, coordinator: int, transactional_ids: Sequence[str]
) -> dict[str, TransactionView | RefusedError]:
    """One coordinator's answer about each id; one attempt."""
    found: dict[str, TransactionView | RefusedError] = {}
    for start in range(0, len(transactional_ids), _KEYS_MAX):
        some = list(transactional_ids[start : start + _KEYS_MAX])
        answer = await cluster.send(DescribeTransactionsRequest(transactional_ids=some), node_id=coordinator)
        for one in answer.transaction_states:
            if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                found[one.transactional_id] = RefusedError(
                    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                    f"transactional id {one.transactional_id} is unknown at {cluster.where}: see 'semel txn list'",
                )
                continue
            if one.error_code:
                what = f"to describe {one.transactional_id}"
                found[one.transactional_id] = refused(one.error_code, what, by=cluster.where)
                continue
            found[one.transactional_id] = TransactionView(
                one.transactional_id,
                coordinator,
                one.transaction_state,
                one.producer_id,
                one.producer_epoch,
                one.transaction_timeout_ms,
                known(one.transaction_start_time_ms),
                tuple(
                    sorted(
                        TopicPartition(each.topic, index) for each in one.topics for index in each.partitions
                    )
                ),
            )
    return found


async def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionView:
    """One transactional id; raises `RefusedError` with TRANSACTIONAL_ID_NOT_FOUND if nobody has used it."""

    async def ask(coordinator: int) -> TransactionView:
        (found,) = (await ask_coordinator(cluster, coordinator, [transactional_id])).values()
        if isinstance(found, RefusedError):
            raise found
        return found

    return await at_coordinator(cluster, CoordinatorKind.TRANSACTION, transactional_id, ask)


async def describe_transactions(
    cluster: Cluster, transactional_ids: Sequence[str]
) -> dict[str, TransactionView]:
    """The used ones of these transactional ids."""

    async def ask() -> dict[str, TransactionView]:
        found: dict[str, TransactionView] = {}
        by_node = await find_coordinators(cluster, CoordinatorKind.TRANSACTION, transactional_ids)
        for coordinator, ids in by_node.items():
            for transactional_id, one in (await ask_coordinator(cluster, coordinator, ids)).items():
                if not isinstance(one, RefusedError):
                    found[transactional_id] = one
                elif one.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise one
        return found

    return await cluster.patiently(ask)
