"""Words for what goes wrong with transactions.

Role.   The exceptions of transactional calls, with Java's names, and texts that name the transactional id and the way out.
Rules.  * The first call that meets an error raises it; later ones raise that the producer is in an error state, caused by it.
          Every call of a fenced producer says so.
        * The text for a fenced producer is the sentence Kafka's users know, followed by who it was and who holds it now.
"""

from typing import Final

from semel.core.transactions.producer import GroupMetadata, TransactionalProducer
from semel.core.transactions.producer_states import Fate, ProducerState
from semel.errors import ErrorCode, SemelError
from semel.exceptions import (
    CommitFailedException,
    IllegalStateException,
    InvalidProducerEpochException,
    KafkaException,
    ProducerFencedException,
    TransactionAbortedException,
    UnsupportedVersionException,
    exception_for,
)

FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_FENCED_TEXT: Final = (
    "Producer attempted an operation with an old epoch. Either there is a newer producer with the same transactionalId, "
    "or the producer's transaction has been expired by the broker."
)
_OLD_EPOCH_WAY: Final = (
    "The broker aborted it because it was open for more than transaction.timeout.ms, or a newer producer took over. Abort it: the abort "
    "raises ProducerFencedException if a newer producer took over; otherwise this one goes on."
)
_GROUP_ERRORS: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
)
NOT_TRANSACTIONAL: Final = (
    "Transactional method invoked on a non-transactional producer: set transactional.id."
)


def illegal(transactional_id: str, call: str, state: ProducerState) -> IllegalStateException:
    """A call at the wrong time."""
    ways = {
        ProducerState.UNINITIALIZED: "call init_transactions first",
        ProducerState.READY: "call begin_transaction first",
        ProducerState.IN_TRANSACTION: "commit or abort the transaction that is open first",
        ProducerState.PREPARED: "complete, commit or abort the prepared transaction first",
    }
    if call == "init_transactions":
        way = "init_transactions is called once in a producer's life"
    else:
        way = ways.get(state, "wait for the call that is under way")
    return IllegalStateException(
        f"TransactionalId {transactional_id}: {call} cannot be called while the producer is {state.value}: {way}"
    )


def anothers(transactional_id: str, call: str) -> IllegalStateException:
    """A guest tries to do what is its host's to do."""
    return IllegalStateException(
        f"TransactionalId {transactional_id}: {call} cannot be called by a producer that joined the transaction: only who "
        "began it may end it"
    )


def aborted(transactional_id: str) -> KafkaException:
    """For records that had not left when their transaction was aborted."""
    return TransactionAbortedException(
        f"TransactionalId {transactional_id}: the transaction was aborted before the record was sent"
    )


def failed(
    producer: TransactionalProducer,
    explanation: SemelError | None,
    *,
    again: bool = False,
    offsets_of: GroupMetadata | None = None,
) -> KafkaException:
    """The exception of calls while the producer is in an error state."""
    if producer.state is ProducerState.FATAL_ERROR:
        reason = explanation if isinstance(explanation, KafkaException) else fatal(producer, None)
        if not again or isinstance(reason, ProducerFencedException | InvalidProducerEpochException):
            return type(reason)(str(reason), code=reason.code, fatal=True, abortable=False)
        return _in_error_state(producer, reason, fatal=True)
    text = f"TransactionalId {producer.transactional_id}: the transaction failed with {producer.error.name}"
    if offsets_of is not None and producer.error in _GROUP_ERRORS:
        return CommitFailedException(
            f"{text}: group {offsets_of.group_id} does not know member {offsets_of.member_id!r} in generation "
            f"{offsets_of.generation_id} (any more), so its offsets were not taken. Abort the transaction.",
            code=producer.error,
        )
    way = _OLD_EPOCH_WAY if producer.error in FENCED else "Abort it and go on."
    reason = exception_for(producer.error, f"{text}. {way}")
    reason.abortable, reason.fatal, reason.retriable = True, False, False
    return _in_error_state(producer, reason, fatal=False) if again else reason


def torn(group: GroupMetadata) -> CommitFailedException:
    """Records were read for the transaction of partitions that its consumer does not have any more."""
    return CommitFailedException(
        f"records of group {group.group_id} were read for this transaction whose partitions are somebody else's by now, so "
        "their positions cannot be stored with it, and whoever has them makes the same of them. Abort the transaction, and go "
        "on from what is committed (seek_to_committed)",
        code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


def _in_error_state(
    producer: TransactionalProducer, reason: KafkaException, *, fatal: bool
) -> KafkaException:
    error = KafkaException(
        f"Cannot execute transactional method because we are in an error state: {reason}",
        code=producer.error,
        abortable=not fatal,
        fatal=fatal,
    )
    error.__cause__ = reason
    return error


def fatal(producer: TransactionalProducer, current: tuple[int, int] | None) -> KafkaException:
    """The end of a producer; `current` is who holds its transactional id now."""
    doubt = " Whether the transaction was committed is not known." if producer.fate is Fate.UNKNOWN else ""
    who = f"TransactionalId {producer.transactional_id}, producer {producer.producer_id}"
    if producer.error in FENCED:
        holder = "not known" if current is None else f"{current[1]} (producer {current[0]})"
        text = f"{_FENCED_TEXT} {who}, own epoch {producer.producer_epoch}, current epoch {holder}.{doubt}"
        return ProducerFencedException(text, code=producer.error)
    error = exception_for(
        producer.error,
        f"{who}, epoch {producer.producer_epoch}: {producer.error.name}.{doubt} Close the producer.",
    )
    error.fatal, error.abortable, error.retriable = True, False, False
    return error


def left_block(
    error: BaseException, second: Exception, ending: KafkaException | None
) -> KafkaException | None:
    """The abort after `error` failed with `second`: gives the error the block raises in its place, or None if `error` stays.

    An error that says "abort and go on" gives way to the end of its producer. An error of the application's own stays.
    """
    if ending is not None and getattr(error, "abortable", False):
        return ending
    error.add_note(f"and the transaction could not be aborted: {second}")
    return None


def no_two_phase_commit(where: str) -> UnsupportedVersionException:
    """The broker does not take InitProducerId 6."""
    return UnsupportedVersionException(
        f"{where} has no two-phase commit: set transaction.two.phase.commit.enable=true on the broker, or not in the producer"
    )


def not_two_phase() -> IllegalStateException:
    """The producer was made without it."""
    return IllegalStateException(
        "Cannot prepare a transaction when 2PC is not enabled: set transaction.two.phase.commit.enable=true"
    )
