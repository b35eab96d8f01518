"""The end of a producer that nobody closed: its records are stored if they can be, and the log names lost ones.

Role.   `leave` closes a producer within a time and says what became of its records and its transaction. `LoopWatch` is for a
        producer of asyncio whose loop ended before it: nothing can be sent there any more.
Flow.   the blocking producer: dropped, or the process ends -> `has_last_work` -> `leave` on its own loop.
        the asyncio producer: its sender is cancelled, it is dropped, or the process ends -> `LoopWatch.say`.
Rules.  * An open transaction is never committed here: it is aborted, or left to its coordinator, and the log says which.
        * Nothing is said of a producer that had stored everything.
        * A fork of the process says nothing of its parent's producers.
"""

import logging
import os
import sys
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from semel.core.client.accumulator import Batch
from semel.core.transactions.producer_states import ProducerState
from semel.runtime.at_exit import Stage, at_exit

if TYPE_CHECKING:
    from semel.client.producer.engine import Engine

_logger: Final = logging.getLogger(__name__)
_S = ProducerState
_OPEN: Final = (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR)
LOOP_ENDED: Final = "when the event loop of the producer ended before close()"
_ENDING: Final = (_S.COMMITTING, _S.ABORTING)


def has_last_work(producer: "Engine") -> bool:
    """Whether records wait to be stored, or a transaction waits for its end."""
    if producer.sender.problem is not None or producer.is_closing:
        return False
    transactions = producer.transactions
    if transactions is not None and not transactions.is_guest and transactions.state in (*_OPEN, *_ENDING):
        return True
    is_unanswered = producer.config.acks == 0 and producer.cluster.connections > 0
    return is_unanswered or bool(producer.outbox.pending())


async def leave(producer: "Engine", timeout: float | None, when: str) -> None:
    """Store what was given, for so many seconds and not longer than `delivery.timeout.ms`; end; and say what was not stored."""
    config, transactions = producer.config, producer.transactions
    seconds = config.delivery_timeout_ms / 1000
    seconds = seconds if timeout is None else min(seconds, timeout)
    pending = producer.outbox.pending()
    since_ms = producer.now_ms()
    state = None if transactions is None or transactions.is_guest else transactions.state
    try:
        await producer.close(seconds)
    finally:
        last = producer.cluster.troubles.last(since_ms)
        if state in _OPEN and transactions is not None:
            is_aborted = transactions.state is _S.READY
            _logger.warning(
                "%s: the transaction of TransactionalId %s was open %s: it %s, and its records are not seen by readers of what "
                "is committed. Call commit_transaction(), or send inside 'with producer.transaction()'",
                config.client_id,
                config.transactional_id,
                when,
                "is aborted"
                if is_aborted
                else f"is aborted by its coordinator after {config.transaction_timeout_ms} ms{last}",
            )
        else:
            if state in _ENDING and transactions is not None and transactions.state is state:
                _logger.warning(
                    "%s: the transaction of TransactionalId %s was being ended %s: its coordinator did not answer within "
                    "%g s%s",
                    config.client_id,
                    config.transactional_id,
                    when,
                    seconds,
                    last,
                )
            _say_lost(config.client_id, pending, f"{when}, after {seconds:g} s{last}")


def _say_lost(client_id: str, batches: Iterable[Batch], why: str) -> None:
    """Name the records of these batches that are not known to be stored."""
    lost: dict[str, int] = {}
    may_be_stored = False
    for batch in batches:
        for one in batch.leaves():
            if not one.is_done or one.error is not None:
                lost[one.partition.topic] = lost.get(one.partition.topic, 0) + one.records_count
                may_be_stored |= one.attempts > 0
    if not lost:
        return
    records = ", ".join(
        f"{count} {'record' if count == 1 else 'records'} for {topic}" for topic, count in lost.items()
    )
    fate = "perhaps lost, sent and not acknowledged" if may_be_stored else "lost, never sent"
    _logger.warning(
        "%s: %s %s, %s. Call flush() or close() before the end, or use the producer in a with statement",
        client_id,
        records,
        fate,
        why,
    )


class LoopWatch:
    """Says once which records an asyncio producer had when its loop ended without it."""

    def __init__(self, producer: "Engine") -> None:
        self._pid = os.getpid()
        self._client_id = producer.config.client_id
        self._outbox = producer.outbox
        self._is_said = False
        _WATCHED.add(self)

    def say(self, when: str) -> None:
        """The loop is gone, or nobody holds the producer any more."""
        if self._is_said or self._pid != os.getpid():
            return
        self._is_said = True
        _say_lost(self._client_id, self._outbox.pending(), when)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.say(LOOP_ENDED)

    def closed(self) -> None:
        """The producer was closed: there is nothing to say."""
        self._is_said = True


_WATCHED: Final[weakref.WeakSet[LoopWatch]] = weakref.WeakSet()


def _at_exit() -> None:
    for watch in list(_WATCHED):
        watch.say(LOOP_ENDED)


at_exit(Stage.CLIENTS, _at_exit)
