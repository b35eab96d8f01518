"""Guards for the first write of a transaction: the coordinator was asked, and nothing ended in between.

Role.   A transactional batch may open a transaction on a partition only if the coordinator knows of it; asking takes
        time. A guard is handed out before the question and must still be the one on file when the batch is written.
        An open transaction in doubt is one whose producer may have been fenced since: its next batch needs a guard, too.
Flow.   `producer_state` starts a guard per producer and checks it in `judge`; a transactional append or a marker of
        the producer takes it away, so an answer that arrives late opens nothing. The coordinator's word that somebody
        else owns the transaction takes it away as well, and so does a new leader's start: both call `doubt`.
Rules.  * Tokens are never used twice: a guard taken away and started again is another guard (ABA).
        * Of batches that wait together the one with the lowest sequence goes first.
        * Guards nobody used are forgotten like idle producers.
        * A doubt ends with a batch that was let through, or with the transaction.
Elsewhere. Who must ask, and the question itself: the broker's produce handler and the transaction coordinator.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Guard:
    """One producer whose transaction is being confirmed."""

    token: int
    started_ms: int
    supports_epoch_bump: bool
    producer_epoch: int
    lowest_sequence: int


@dataclass(slots=True)
class Verifications:
    """The guards of a partition, by producer id."""

    guards: dict[int, Guard] = field(default_factory=dict)
    doubted: set[int] = field(default_factory=set)
    """Producers whose open transaction the coordinator has to confirm again."""
    _last_token: int = 0

    def start(
        self,
        producer_id: int,
        *,
        producer_epoch: int,
        base_sequence: int,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> int:
        """The token of the producer's guard, a new one if it has none."""
        guard = self.guards.get(producer_id)
        if guard is None:
            self._last_token += 1
            guard = Guard(self._last_token, now_ms, supports_epoch_bump, producer_epoch, base_sequence)
            self.guards[producer_id] = guard
        elif producer_epoch > guard.producer_epoch:
            guard.producer_epoch = producer_epoch
            guard.lowest_sequence = base_sequence
        elif producer_epoch == guard.producer_epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, base_sequence)
        return guard.token

    def holds(self, producer_id: int, token: int | None) -> bool:
        """Whether the token is the one on file."""
        guard = self.guards.get(producer_id)
        return guard is not None and guard.token == token

    def on_data(self, producer_id: int) -> None:
        """The transaction is open now: the guard has done its work."""
        self.guards.pop(producer_id, None)
        self.doubted.discard(producer_id)

    def doubt(self, producer_id: int, *, is_open: bool) -> None:
        """Whatever the coordinator has said of this producer counts no more."""
        self.guards.pop(producer_id, None)
        if is_open:
            self.doubted.add(producer_id)

    def on_marker(self, producer_id: int, producer_epoch: int) -> None:
        """A transaction ended, so whoever is being confirmed must ask again.

        Except when the marker carries the epoch under confirmation: it ended the transaction before that epoch.
        """
        self.doubted.discard(producer_id)
        guard = self.guards.get(producer_id)
        if guard is not None and not (guard.supports_epoch_bump and guard.producer_epoch == producer_epoch):
            del self.guards[producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget the guards started at or before `before_ms`."""
        for producer_id in [key for key, guard in self.guards.items() if guard.started_ms <= before_ms]:
            del self.guards[producer_id]
