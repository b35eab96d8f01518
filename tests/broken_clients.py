"""Clients that break a promise, for stories in which the judgement must notice it."""

from typing import Any

import pytest

from semel.client.producer import sender as sending
from semel.client.producer.outbox import Outbox
from semel.core.idempotence.in_flight import InFlight
from semel.core.transactions.producer import TransactionalProducer


def without_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_flight(**settings: Any) -> InFlight[Any]:
        return InFlight(**{**settings, "idempotent": False})

    monkeypatch.setattr(sending, "InFlight", in_flight)


def wrong_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Outbox.settle
    monkeypatch.setattr(
        Outbox,
        "settle",
        lambda self, batch_id, base_offset, stamp: told(self, batch_id, base_offset + 1, stamp),
    )


def aborts_by_committing(monkeypatch: pytest.MonkeyPatch) -> None:
    end = TransactionalProducer._end
    monkeypatch.setattr(TransactionalProducer, "_end", lambda self, **_how: end(self, commit=True))
