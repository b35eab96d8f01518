"""The records a loop over a consumer has in hand: which were given to the user, and which can be put back.

Role.   `for record in consumer` polls for many records and gives them one by one. `Hand` remembers how far that got, so that any
        other call on the consumer finds its positions where the user stands, not where the poll ended.
Rules.  * A record counts as consumed when it is given out. If an exception then leaves the `with` block of the consumer, it
          does not: it may not have been worked on.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from semel.client.consumer.records import ConsumerRecords
from semel.client.values.consuming import ConsumerRecord
from semel.core.client.fetched import Piece


class Hand:
    """One poll's records, in a loop."""

    __slots__ = ("_pieces", "given", "is_over", "records")

    def __init__(self, records: ConsumerRecords, pieces: Sequence[Piece]) -> None:
        self.records: Iterator[ConsumerRecord] = chain(records)
        self._pieces = pieces
        self.given = 0
        self.is_over = False

    def rest(self, *, without_last: bool = False) -> list[Piece]:
        """End the hand; gives the records not given out, and with `without_last` the one given out last."""
        self.is_over = True
        given = self.given - 1 if without_last and self.given else self.given
        rest = []
        for piece in self._pieces:
            if given >= piece.count:
                given -= piece.count
            elif given:
                rest.append(piece.split(given)[1])
                given = 0
            else:
                rest.append(piece)
        return rest
