"""TxnOffsetCommit (28), versions 0-5: offsets that become a group's when the transaction commits.

    2+   COORDINATOR_LOAD_IN_PROGRESS is told as such, before COORDINATOR_NOT_AVAILABLE
    3+   the client says which member of the group it is: one of an older generation is fenced (KIP-447)
    4+   a transaction the partition was not added to is TRANSACTION_ABORTABLE, before INVALID_TXN_STATE
    5+   transactions v2: the group's partition of __consumer_offsets joins the transaction by itself

The transaction is looked at right before the rows are written, in one step with it: offsets that come after the marker
would stay pending for ever. Where another broker coordinates the transaction it is asked before, and no marker of the producer may have
come since.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.groups.committing import txn_commit_refused
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from semel.errors import ErrorCode
from semel.types import TopicPartition

_LOADING_SINCE: Final = 2
_ABORTABLE_SINCE: Final = 4
_ADDS_SINCE: Final = 5
_OF_VERIFICATION: Final = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Codes of a coordinator elsewhere that older clients would not try again after, and Kafka's words for them."""


def handle(
    broker: Coordinators, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Store what may be stored, pending: at once where both coordinators answer at once."""
    version = context.version
    if not request.group_id:
        return txn_commit_refused(broker.image, request, ErrorCode.INVALID_GROUP_ID)
    ready = broker.groups.host.ensure_topic()
    if ready is not ErrorCode.NONE:
        return _when_ready(broker, request, version, ready)
    if _is_elsewhere(broker, request):
        return _when_verified(broker, request, version)
    admitted = _admitted(broker, request, version)
    if not isinstance(admitted, list):
        return _when_admitted(broker, request, version, admitted)
    answer = _stored(broker, request, version, admitted[0])
    return _later(answer, version) if isinstance(answer, Awaitable) else _told(answer, version)


async def _when_ready(
    broker: Coordinators,
    request: TxnOffsetCommitRequest,
    version: int,
    ready: ErrorCode | Awaitable[ErrorCode],
) -> TxnOffsetCommitResponse:
    code = ready if isinstance(ready, ErrorCode) else await ready
    if code is not ErrorCode.NONE:
        return _told(txn_commit_refused(broker.image, request, code), version)
    if _is_elsewhere(broker, request):
        return await _when_verified(broker, request, version)
    admitted = _admitted(broker, request, version)
    return await _when_admitted(broker, request, version, admitted)


async def _when_admitted(
    broker: Coordinators,
    request: TxnOffsetCommitRequest,
    version: int,
    admitted: list[ErrorCode] | Awaitable[list[ErrorCode]],
) -> TxnOffsetCommitResponse:
    (code,) = admitted if isinstance(admitted, list) else await admitted
    answer = _stored(broker, request, version, code)
    return await _later(answer, version) if isinstance(answer, Awaitable) else _told(answer, version)


def _is_elsewhere(broker: Coordinators, request: TxnOffsetCommitRequest) -> bool:
    """Whether this broker cannot look at the transaction itself, or is not to look."""
    transactions = broker.transactions
    return (
        not transactions.verifies_offsets
        or transactions.coordinator_elsewhere(request.transactional_id) is not None
    )


async def _when_verified(
    broker: Coordinators, request: TxnOffsetCommitRequest, version: int
) -> TxnOffsetCommitResponse:
    """Store them once the transaction's coordinator has confirmed the transaction, unless it ended meanwhile."""
    code = await _verified(broker, request) if broker.transactions.verifies_offsets else ErrorCode.NONE
    if code is not ErrorCode.NONE:
        return _told(txn_commit_refused(broker.image, request, _as_of(code, version)), version)
    answer = _put(broker, request, version)
    return _told(await answer if isinstance(answer, Awaitable) else answer, version)


async def _verified(broker: Coordinators, request: TxnOffsetCommitRequest) -> ErrorCode:
    host, place = broker.groups.host, _place(broker, request)
    token = host.start_verification(
        place.partition, producer_id=request.producer_id, producer_epoch=request.producer_epoch
    )
    if token is None:
        return ErrorCode.NONE
    if isinstance(token, ErrorCode):
        return token
    asked = broker.transactions.admit(
        request.transactional_id, request.producer_id, request.producer_epoch, [place], add=False
    )
    (code,) = asked if isinstance(asked, list) else await asked
    if code is ErrorCode.NONE and not host.is_verified(
        place.partition, producer_id=request.producer_id, token=token
    ):
        return ErrorCode.INVALID_TXN_STATE
    return _OF_VERIFICATION.get(code, code)


def _admitted(
    broker: Coordinators, request: TxnOffsetCommitRequest, version: int
) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
    return broker.transactions.admit(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [_place(broker, request)],
        add=version >= _ADDS_SINCE,
    )


def _place(broker: Coordinators, request: TxnOffsetCommitRequest) -> TopicPartition:
    return TopicPartition(OFFSETS_TOPIC, broker.groups.host.partition_of(request.group_id))


def _stored(
    broker: Coordinators, request: TxnOffsetCommitRequest, version: int, code: ErrorCode
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    refused = partial(txn_commit_refused, broker.image, request)
    if code is ErrorCode.NONE:  # It may have ended while we waited.
        code = broker.transactions.check(
            request.transactional_id, request.producer_id, request.producer_epoch, _place(broker, request)
        )
    if code is not ErrorCode.NONE:
        return refused(_as_of(code, version))
    return _put(broker, request, version)


def _put(
    broker: Coordinators, request: TxnOffsetCommitRequest, version: int
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    return broker.groups.ask(
        request.group_id,
        lambda shard, ticket, now_ms: shard.commit_in_transaction(request, version, ticket, now_ms),
        TxnOffsetCommitResponse,
        partial(txn_commit_refused, broker.image, request),
    )


async def _later(answer: Awaitable[TxnOffsetCommitResponse], version: int) -> TxnOffsetCommitResponse:
    return _told(await answer, version)


def _told(response: TxnOffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    if version < _LOADING_SINCE:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response


def _as_of(code: ErrorCode, version: int) -> ErrorCode:
    """The code as a client of that version knows it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code
