"""Error codes in the coordinators' responses: the decisive one, and the ones an abort recovers from.

Role.   `code_of` picks the decisive code of a response; after a code in `ABORTABLE` an abort is enough.
Flow.   `producer` judges every answer by these.
"""

from typing import Final

from semel.core.wire.message import Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from semel.core.wire.messages.end_txn import EndTxnResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdResponse
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from semel.errors import ErrorCode, InvariantError

ABORTABLE: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        # Invalid offsets. Java's client treats them as fatal; here an abort is enough.
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)


def code_of(response: Response) -> ErrorCode:
    """The decisive code: the worst one of the response's partitions."""
    match response:
        case AddPartitionsToTxnResponse():
            return _worst(
                [
                    one.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for one in topic.results_by_partition
                ]
            )
        case TxnOffsetCommitResponse():
            return _worst([one.error_code for topic in response.topics for one in topic.partitions])
        case InitProducerIdResponse() | AddOffsetsToTxnResponse() | EndTxnResponse():
            return ErrorCode(response.error_code)
        case _:
            raise InvariantError(f"{response} is not an answer of a coordinator of transactions")


def _worst(numbers: list[int]) -> ErrorCode:
    """A fatal code, else a retriable one, else an abortable one."""
    codes = [ErrorCode(number) for number in numbers if number]
    if not codes:
        return ErrorCode.NONE
    passing = [code for code in codes if code.retriable]
    lasting = [code for code in codes if code not in passing]
    fatal = [code for code in lasting if code not in ABORTABLE]
    return (fatal or passing or lasting)[0]
