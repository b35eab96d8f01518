"""The rules between a consumer and the producer that stores its positions in transactions.

Role.   `Chain` belongs to a consumer and goes with its `group_metadata()` to the producer. Each side reports its steps, and the
        chain warns where the two work against each other.
Flow.   `producer.send_offsets_to_transaction(offsets, consumer.group_metadata())` -> `joined` -> the next transactions of this
        producer `began` and `ended` -> a commit of the consumer's own in between is `committing`.
Rules.  * Positions that transactions store are stored by nothing else. A commit outside of the transaction would stand even if
          its outputs are aborted, and then they are lost.
        * A consumer in a chain reads committed records: otherwise it passes on aborted ones.
        * A transaction stores the positions of all records handed out for it, or does not commit. A chain is torn when
          partitions go whose records were handed out since the last transaction ended. Their positions are not the consumer's
          to store any more, and without them another member makes the same outputs again.
        * A warning is given once for each consumer and reason.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from semel.types import TopicPartition

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Chain:
    """One consumer's end of it."""

    group_id: str
    auto_commits: bool
    reads_committed: bool
    is_joined: bool = False
    """Whether a transaction stores this consumer's positions, or has."""
    is_open: bool = False
    """Whether such a transaction is open now."""
    _said: set[str] = field(default_factory=set)
    _round: int = 0
    """The records of one transaction: from the end of the one before to its own."""
    _handed_out: dict[TopicPartition, int] = field(default_factory=dict)
    """In which round last. Touched by the consumer alone; the producer may live in another thread."""
    _torn_in: int = -1

    def joined(self) -> None:
        """A transaction stores positions of this consumer."""
        self.is_joined = self.is_open = True
        if self.auto_commits:
            self._warn(
                "its consumer commits automatically too, outside of the transaction: records whose transaction is aborted "
                "are skipped then; set enable.auto.commit=false"
            )
        if not self.reads_committed:
            self._warn(
                "its consumer reads what is not committed, and may pass on what was aborted; "
                "set isolation.level=read_committed"
            )

    def began(self) -> None:
        """The producer of this chain has begun a transaction."""
        self.is_open = self.is_joined

    def ended(self) -> None:
        """The transaction is over."""
        self.is_open = False
        self._round += 1

    @property
    def is_torn(self) -> bool:
        """Whether records were handed out whose positions the transaction cannot store any more."""
        return self._torn_in == self._round

    def handed_out(self, partitions: Iterable[TopicPartition]) -> None:
        """The user has records of these."""
        for where in partitions:
            self._handed_out[where] = self._round

    def gone(self, partitions: Iterable[TopicPartition]) -> None:
        """The consumer does not have these any more."""
        for where in partitions:
            if self._handed_out.pop(where, None) == self._round:
                self._torn_in = self._round

    def rewound(self) -> None:
        """The consumer goes back to the stored positions: records handed out come again."""
        self._round += 1

    def committing(self) -> None:
        """The consumer commits by itself."""
        if self.is_open:
            self._warn(
                "its consumer commits by hand within a transaction: that stands even if the transaction is aborted; "
                "leave it to send_offsets_to_transaction"
            )

    def _warn(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _logger.warning("group %s is part of transactions, and %s", self.group_id, what)
