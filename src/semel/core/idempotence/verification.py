"""Guards for the first write of a transaction: the coordinator confirmed it, and no marker came in between.

Role.   A transactional batch may open a transaction on a partition only if the coordinator knows of it; asking takes
        time. A guard is created before the request and must still be current when the batch is written. An open
        transaction in doubt is one whose producer may have been fenced since: its next batch needs a guard, too.
Flow.   `producer_state` starts a guard per producer and checks it in `judge`; a transactional append or a marker of the
        producer takes it away, so an answer that arrives late opens nothing. The guard is also removed when the
        coordinator reports another owner of the transaction, and when a new leader starts: both call `doubt`.
Rules.  * Tokens are never reused: a guard that is removed and started again is another guard (ABA).
        * Of several waiting batches the one with the lowest sequence goes first.
        * Unused guards expire like idle producers.
        * A doubt ends with the first accepted batch, or with the transaction.
Elsewhere. Asking the coordinator: the broker's produce handler. Answering: the transaction coordinator.
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
        """Whether the token is the current one."""
        guard = self.guards.get(producer_id)
        return guard is not None and guard.token == token

    def on_data(self, producer_id: int) -> None:
        """The transaction is open now: drop the guard."""
        self.guards.pop(producer_id, None)
        self.doubted.discard(producer_id)

    def doubt(self, producer_id: int, *, is_open: bool) -> None:
        """Drop the coordinator's earlier confirmation of this producer."""
        self.guards.pop(producer_id, None)
        if is_open:
            self.doubted.add(producer_id)

    def on_marker(self, producer_id: int, producer_epoch: int) -> None:
        """A transaction ended, so a pending confirmation is void and must be asked for again.

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
