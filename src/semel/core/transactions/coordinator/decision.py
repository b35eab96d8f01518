"""The words the coordinator's decisions share: what is decided, what is to be done, what the world offers.

Role.   A decision is a value. `shard` turns it into rows, a reply and effects.
Rules.  * A decision without `moved` writes nothing.
        * A transaction decided to be prepared has its markers sent once the row is committed: `SendMarkers` follows
          from the state, so no decision can forget it.
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
    """With `moved`: the epoch its client had before, by which a retry is known; -1: none had; None: as it was."""


class SendMarkers(NamedTuple):
    """Have every partition end the transaction, then call `TransactionShard.complete`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class FencePredecessor(NamedTuple):
    """Have every leader of these partitions doubt the producer, then call `TransactionShard.fenced`: it answers."""

    producer_id: int
    partitions: tuple[TopicPartition, ...]
    ticket: Ticket
    response: Response


TransactionEffect: TypeAlias = SendMarkers | FencePredecessor


class ProducerIdSource(Protocol):
    """Producer ids set aside for this broker."""

    def take(self) -> int | None:
        """One that nobody had before; None if the next block is still being fetched."""


NO_PRODUCER_IDS_LEFT: Final = Decision(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""Kafka's answer while the next block of producer ids is being fetched: ask again."""


class TransactionSettings(NamedTuple):
    """What the broker's configuration says of transactions."""

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
    """The code as a client of that version knows it: PRODUCER_FENCED was INVALID_PRODUCER_EPOCH once."""
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
