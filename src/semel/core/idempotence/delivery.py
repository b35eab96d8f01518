"""What can happen to a batch on its way to the broker, and what is to be done about it: the words of `in_flight`.

Role.   Events the sender reports, decisions it gets back, both plain values; and which answers prove what.
Rules.  * An answer proves that nothing was stored only if it is listed in `NOT_STORED`.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, UNKNOWN_OFFSET

PartitionT = TypeVar("PartitionT", bound=Hashable)

# The answers that prove that the attempt stored nothing: the broker gives them before it appends. All others leave it
# open: an appended batch may still be answered with a time-out, or by a leader that has just been replaced.
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
    """Who the broker thinks sends: what InitProducerId gave, with the epoch as bumped since."""

    producer_id: int
    producer_epoch: int


NO_IDENTITY: Final = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


# Events.


@dataclass(frozen=True, slots=True)
class Answered(Generic[PartitionT]):
    """The broker answered; `retries_left` is False when the client will not try again."""

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
    """The batch has outlived `delivery.timeout.ms`, wherever it is."""

    partition: PartitionT
    batch_id: int


Event: TypeAlias = Answered[PartitionT] | Lost[PartitionT] | Expired[PartitionT]


# Decisions.


@dataclass(frozen=True, slots=True)
class Send(Generic[PartitionT]):
    """Put this into a request now."""

    partition: PartitionT
    batch_id: int
    identity: Identity
    base_sequence: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Settle(Generic[PartitionT]):
    """The batch is stored once; its offset is -1 where the broker no longer knew it."""

    partition: PartitionT
    batch_id: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Fail(Generic[PartitionT]):
    """Tell the user. `maybe_stored`: some attempt may have succeeded, nobody can know."""

    partition: PartitionT
    batch_id: int
    code: ErrorCode
    maybe_stored: bool


@dataclass(frozen=True, slots=True)
class Retry(Generic[PartitionT]):
    """The batch is back in its place; `send` gives it again, after the client's back-off."""

    partition: PartitionT
    batch_id: int
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class EpochBumped:
    """A sequence is missing: from now on the producer writes under this identity."""

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
