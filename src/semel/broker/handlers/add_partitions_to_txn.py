"""AddPartitionsToTxn (24), versions 0-5: partitions join a transaction, or somebody asks whether they did.

    0-3  from clients of transactions v1: one transaction
    2+   a producer that is no longer the owner hears PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH
    4+   from brokers: many transactions, each to be extended or only verified

A partition that does not exist keeps the others of its transaction from joining: they get OPERATION_NOT_ATTEMPTED.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from semel.broker.context import RequestContext
from semel.broker.coordinators.tickets import merged
from semel.broker.parts import Coordinators
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive
from semel.types import TopicPartition

_BY_BROKERS_SINCE: Final = 4


def handle(
    broker: Coordinators, request: AddPartitionsToTxnRequest, context: RequestContext
) -> (
    AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse] | Exclusive[AddPartitionsToTxnResponse]
):
    """Each transaction by itself."""
    version = context.version
    if version >= _BY_BROKERS_SINCE:
        return merged((_add(broker, one, version) for one in request.transactions), _merge, broker.runtime)
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return _add(broker, one, version)


def _add(
    broker: Coordinators, one: AddPartitionsToTxnTransaction, version: int
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if any(not _exists(broker, topic.name, index) for topic in one.topics for index in topic.partitions):
        return _answer(
            one,
            version,
            lambda topic, index: (
                ErrorCode.OPERATION_NOT_ATTEMPTED
                if _exists(broker, topic, index)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ),
        )
    return broker.transactions.ask(
        one.transactional_id,
        lambda shard, ticket, now_ms: shard.add_partitions(one, ticket, now_ms, version=version),
        AddPartitionsToTxnResponse,
        lambda code: _answer(one, version, lambda _topic, _index: code),
    )


def _exists(broker: Coordinators, topic: str, index: int) -> bool:
    return broker.image.partition(TopicPartition(topic, index)) is not None


def _answer(
    one: AddPartitionsToTxnTransaction, version: int, code_of: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnResponse:
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code_of(topic.name, index)
                )
                for index in topic.partitions
            ],
        )
        for topic in one.topics
    ]
    if version < _BY_BROKERS_SINCE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics)
        ]
    )


def _merge(answers: list[AddPartitionsToTxnResponse]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[result for answer in answers for result in answer.results_by_transaction]
    )
