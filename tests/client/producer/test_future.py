"""Waiting for what was sent: one deadline for all of it, and nothing left behind.

Method: batches that end by hand, and a clock that moves when somebody waits.
"""

import threading
from types import SimpleNamespace

import pytest

import semel
from semel.client.producer import future
from semel.core.client.accumulator import Batch
from semel.types import TopicPartition


def test_many_batches_have_one_deadline_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch takes four seconds, and ten are given for all."""
    now, waited = 0.0, list[float]()
    batches = [Batch(number, TopicPartition("t", number), 0) for number in range(5)]

    class Patience(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal now
            assert timeout is not None
            waited.append(timeout)
            now += min(4.0, timeout)
            if timeout < 4.0:
                return False
            batch = next(one for one in batches if not one.is_done)
            batch.settle(0, -1)
            batch.tell()
            return True

    monkeypatch.setattr(future, "threading", SimpleNamespace(Event=Patience))
    monkeypatch.setattr(future, "time", SimpleNamespace(monotonic=lambda: now), raising=False)
    with pytest.raises(semel.TimeoutException, match="no answer about t-2 within 10 s"):
        future.ArrowFuture(batches).result(10)
    assert waited == [10.0, 6.0, 2.0]
    assert not any(batch.listeners for batch in batches), "who waited in vain is still told"
