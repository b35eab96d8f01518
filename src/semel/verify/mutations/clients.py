"""A public client that breaks a promise of its own.

Role.   Mutations found by `scenarios.public_producer` and `scenarios.client_matrix`.
"""

from collections.abc import Iterable
from typing import Any, Final

from semel.client.consumer.fetcher import Fetcher
from semel.client.producer import answers
from semel.client.producer import sender as sending
from semel.client.producer.outbox import Outbox
from semel.client.producer.transactions import Transactions
from semel.core.client import fetch_buffer
from semel.core.client.fetched import Chunk
from semel.core.idempotence.in_flight import InFlight
from semel.core.transactions.producer import TransactionalProducer
from semel.exceptions import TimeoutException
from semel.verify.mutations.mutation import Mutation, Patch
from semel.verify.simulation.scenarios import client_matrix
from semel.verify.simulation.scenarios.client_matrix import CELLS, Fault, Writing


def _without_sequences(patch: Patch) -> None:
    def in_flight(**settings: Any) -> InFlight[Any]:
        return InFlight(**{**settings, "idempotent": False})

    patch.setattr(sending, "InFlight", in_flight)


def _wrong_offset(patch: Patch) -> None:
    told = Outbox.settle
    patch.setattr(
        Outbox,
        "settle",
        lambda self, batch_id, base_offset, stamp: told(self, batch_id, base_offset + 1, stamp),
    )


def _aborts_by_committing(patch: Patch) -> None:
    end = TransactionalProducer._end
    patch.setattr(TransactionalProducer, "_end", lambda self, **_how: end(self, commit=True))


def _hides_a_doubt(patch: Patch) -> None:
    """Says nothing of records that may be stored."""
    patch.setattr(
        answers, "expired", lambda batch, _timeout_ms: TimeoutException(f"{batch.partition} failed")
    )


def _forgets_the_positions(patch: Patch) -> None:
    """Outputs are committed without the positions behind their inputs."""

    async def nothing(*_arguments: Any, **_more: Any) -> None:
        return

    patch.setattr(Transactions, "send_offsets", nothing)
    patch.setattr(client_matrix, "SETTLE_SECONDS", 5.0)  # It will never be done.


def _shows_what_was_aborted(patch: Patch) -> None:
    def blind(*arguments: Any, **more: Any) -> Chunk:
        return Chunk(*arguments, **{**more, "aborted": None})

    patch.setattr(fetch_buffer, "Chunk", blind)


def _skips_what_it_could_not_fetch(patch: Patch) -> None:
    """A consumer that goes to the end when a fetch gets no answer."""
    answered = Fetcher._rest

    def rest(self: Fetcher, who: Any) -> None:
        for state in self._subscription.partitions.values():
            if state.position is not None and state.high_watermark > state.position:
                state.position = state.fetch_offset = state.high_watermark
        answered(self, who)

    patch.setattr(Fetcher, "_rest", rest)


def _seeds_of(
    *, faults: Iterable[Fault] = tuple(Fault), writing: Writing | None = None, rounds: int = 6
) -> list[int]:
    """Seeds of these cells of the matrix, a cell after the other."""
    wanted = [at for at, (fault, how) in enumerate(CELLS) if fault in faults and writing in (None, how)]
    return [at + round_ * len(CELLS) for round_ in range(rounds) for at in wanted]


_LATE: Final = (Fault.REORDER, Fault.FREEZE)
_SLOW: Final = (Fault.DELAY, Fault.DROP)

MUTATIONS: Final = (
    Mutation(
        "the client numbers nothing",
        "a record that is sent again is stored once",
        _without_sequences,
        "public_producer",
        "lies at|behind it",
        range(60),
        quick=True,
    ),
    Mutation(
        "the client numbers nothing, cell by cell",
        "a record that is sent again is stored once",
        _without_sequences,
        "client_matrix",
        r"lies at \[",
        _seeds_of(writing=Writing.IDEMPOTENT),
    ),
    Mutation(
        "the client tells another offset",
        "the application is told where its record lies",
        _wrong_offset,
        "public_producer",
        "told was",
        range(60),
        quick=True,
    ),
    Mutation(
        "the client tells another offset, when cut",
        "the application is told where its record lies",
        _wrong_offset,
        "client_matrix",
        "told was",
        _seeds_of(faults=[Fault.CUT]),
    ),
    Mutation(
        "the client hides a doubt",
        "a failure says whether the record may be stored",
        _hides_a_doubt,
        "public_producer",
        "failed for certain",
        range(60),
    ),
    Mutation(
        "abort() commits",
        "what was aborted is not visible",
        _aborts_by_committing,
        "public_producer",
        "was not committed",
        range(60),
    ),
    Mutation(
        "abort() commits, late",
        "what was aborted is not visible",
        _aborts_by_committing,
        "client_matrix",
        "was not committed",
        _seeds_of(faults=_LATE, writing=Writing.TRANSACTIONAL),
    ),
    Mutation(
        "the client leaves out the positions",
        "outputs and positions are committed together",
        _forgets_the_positions,
        "client_matrix",
        "twice",
        _seeds_of(faults=_SLOW, writing=Writing.TRANSACTIONAL, rounds=20),
    ),
    Mutation(
        "the consumer shows what was aborted",
        "readers of committed records see none of an aborted one",
        _shows_what_was_aborted,
        "client_matrix",
        "not there",
        _seeds_of(faults=_LATE, writing=Writing.TRANSACTIONAL),
    ),
    Mutation(
        "the consumer passes over what it could not fetch",
        "a reader is handed every record",
        _skips_what_it_could_not_fetch,
        "client_matrix",
        "missing",
        _seeds_of(faults=[Fault.DROP], rounds=20),
        quick=True,
    ),
)
