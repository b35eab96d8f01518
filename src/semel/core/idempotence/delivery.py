"""The events of a batch in flight and the decisions that follow: the types of `in_flight`.

Role.   Events the sender reports and decisions it gets back, both plain values; and the error codes that prove a batch
        was not stored.
Rules.  * An error code proves that nothing was stored only if it is in `NOT_STORED`.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, UNKNOWN_OFFSET

PartitionT = TypeVar("PartitionT", bound=Hashable)

# Error codes the broker returns before it appends: the attempt stored nothing. Any other code leaves that open, because
# an appended batch may still be answered with a time-out or by a deposed leader.
NOT_STORED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class Identity(NamedTuple):
    """The producer id from InitProducerId, and the epoch as bumped since."""

    producer_id: int
    producer_epoch: int


NO_IDENTITY: Final = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


# Events.


@dataclass(frozen=True, slots=True)
class Answered(Generic[PartitionT]):
    """The broker answered; with `retries_left` False the client will not retry."""

    partition: PartitionT
    batch_id: int
    code: ErrorCode = ErrorCode.NONE
    base_offset: int = UNKNOWN_OFFSET
    retries_left: bool = True


@dataclass(frozen=True, slots=True)
class Lost(Generic[PartitionT]):
    """No answer will come: the connection broke, or the request timed out and its connection was closed."""

    partition: PartitionT
    batch_id: int
    retries_left: bool = True


@dataclass(frozen=True, slots=True)
class Expired(Generic[PartitionT]):
    """The batch has outlived `delivery.timeout.ms`, queued or in flight."""

    partition: PartitionT
    batch_id: int


Event: TypeAlias = Answered[PartitionT] | Lost[PartitionT] | Expired[PartitionT]


# Decisions.


@dataclass(frozen=True, slots=True)
class Send(Generic[PartitionT]):
    """Put this batch into a request now."""

    partition: PartitionT
    batch_id: int
    identity: Identity
    base_sequence: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Settle(Generic[PartitionT]):
    """The batch is stored once; its offset is -1 if the broker no longer knew it (46)."""

    partition: PartitionT
    batch_id: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Fail(Generic[PartitionT]):
    """Tell the user. `maybe_stored`: an attempt may have succeeded without an answer."""

    partition: PartitionT
    batch_id: int
    code: ErrorCode
    maybe_stored: bool


@dataclass(frozen=True, slots=True)
class Retry(Generic[PartitionT]):
    """The batch is back in its place; `send` returns it again. The client backs off first."""

    partition: PartitionT
    batch_id: int
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class EpochBumped:
    """A sequence is missing: the producer writes under this identity from now on."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    """The epoch is exhausted: fetch a new producer id and hand it to `use_identity`."""


@dataclass(frozen=True, slots=True)
class NeedAbort:
    """A batch of the transaction is missing: abort it, then `use_identity` with the new epoch."""

    code: ErrorCode


Decision: TypeAlias = (
    Settle[PartitionT] | Fail[PartitionT] | Retry[PartitionT] | EpochBumped | NeedProducerId | NeedAbort
)
