"""Types the coordinator's decisions share: decisions, effects, producer ids and settings.

Role.   A decision is a value. `shard` turns it into rows, a reply and effects.
Rules.  * A decision without `moved` writes nothing.
        * A prepared transaction gets its markers once the row is committed: `SendMarkers` follows from the state, so no
          decision can forget it.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from semel.core.coordination.outcome import Ticket
from semel.core.transactions.transaction import Transaction
from semel.core.wire.message import Response
from semel.errors import ErrorCode
from semel.types import TopicPartition


class Decision(NamedTuple):
    """Write `moved`, if there is one, then answer `code`."""

    code: ErrorCode = ErrorCode.NONE
    moved: Transaction | None = None
    last_epoch: int | None = None
    """With `moved`: the client's previous epoch, by which a retry is recognised. -1: there is none. None: unchanged."""


class SendMarkers(NamedTuple):
    """Write the marker to every partition, then call `TransactionShard.complete`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class FencePredecessor(NamedTuple):
    """Have the leaders of these partitions doubt the producer, then call `TransactionShard.fenced`, which answers the
    ticket."""

    producer_id: int
    partitions: tuple[TopicPartition, ...]
    ticket: Ticket
    response: Response


TransactionEffect: TypeAlias = SendMarkers | FencePredecessor


class ProducerIdSource(Protocol):
    """Producer ids reserved for this broker."""

    def take(self) -> int | None:
        """A producer id never used before; None while the next block is being fetched."""


NO_PRODUCER_IDS_LEFT: Final = Decision(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""Kafka's retriable answer while the next block of producer ids is being fetched."""


class TransactionSettings(NamedTuple):
    """The broker's transaction settings."""

    timeout_max_ms: int = 900_000
    """`transaction.max.timeout.ms`"""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`"""
    expiration_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    two_phase_commit: bool = False
    """`transaction.two.phase.commit.enable`"""


FENCED_SINCE: Final = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}


def as_of(code: ErrorCode, api: str, version: int) -> ErrorCode:
    """The code for a client of that version: older ones know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH."""
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
