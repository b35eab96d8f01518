"""The producer against a real broker: what is sent is in the log once, and every future says where.

Method: the public producer, blocking and awaitable, on a broker in this process; what a future claims is compared with the
partition's files.
"""

import asyncio
import gc
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import semel
from semel import aio
from semel.runtime import loop_thread
from support.compat.compat_kit import ThreadBroker, batches, eventually, stored, values

TIMEOUT = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path_factory.mktemp("data"), num_partitions="1") as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-").replace("]", "")


def producer(broker: ThreadBroker, **settings: Any) -> semel.Producer:
    return semel.Producer({"bootstrap.servers": broker.bootstrap}, **settings)


@pytest.mark.mission("PROD-03")
def test_a_future_says_where_its_record_is(broker: ThreadBroker, topic: str) -> None:
    with producer(broker) as sending:
        futures = [
            sending.send(topic, b"v%d" % n, key=b"key", timestamp=1000 + n, headers={"h": b"1", "n": None})
            for n in range(3)
        ]
        told = list[semel.RecordMetadata | None]()
        sending.send(topic, b"last", callback=lambda metadata, _error: told.append(metadata)).result(TIMEOUT)
        found = [future.result(TIMEOUT) for future in futures]
    assert found == [semel.RecordMetadata(topic, 0, n, 1000 + n, 3, 2) for n in range(3)]
    assert told[0] is not None
    assert (told[0].offset, told[0].serialized_key_size, told[0].has_offset) == (3, -1, True)
    records = stored(broker.directory, topic)
    assert [(r.offset, r.key, r.value, r.timestamp_ms, r.headers) for r in records[:3]] == [
        (n, b"key", b"v%d" % n, 1000 + n, (("h", b"1"), ("n", None))) for n in range(3)
    ]
    assert records[3].timestamp_ms == told[0].timestamp


@pytest.mark.mission("PROD-08")
def test_after_flush_every_future_is_done(broker: ThreadBroker, topic: str) -> None:
    with producer(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as sending:
        futures = [sending.send(topic, b"%d" % n) for n in range(100)]
        assert not any(future.done() for future in futures), "they linger"
        sending.flush()
        assert all(future.done() for future in futures)
        assert [future.result().offset for future in futures] == list(range(100))


@pytest.mark.mission("PROD-09")
def test_leaving_a_producer_sends_what_it_has(broker: ThreadBroker, topic: str) -> None:
    with producer(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as sending:
        future = sending.send(topic, b"sync")
    assert future.result(0).offset == 0

    async def story() -> int:
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000
        ) as one:
            sent = await one.send(topic, b"async")
        return (await sent).offset

    assert asyncio.run(story()) == 1
    assert values(broker.directory, topic) == [b"sync", b"async"]


@pytest.mark.mission("PROD-02")
def test_small_records_travel_together_and_never_with_those_of_other_partitions(
    broker: ThreadBroker, topic: str
) -> None:
    assert broker.broker is not None
    before = broker.broker.parts.metrics.requests["Produce"]
    with producer(broker, linger_ms=20) as sending:
        for n in range(1000):
            sending.send(topic, b"%04d" % n)
        sending.flush()
    assert broker.broker.parts.metrics.requests["Produce"] - before < 100
    assert values(broker.directory, topic) == [b"%04d" % n for n in range(1000)]
    assert len(list(batches(broker.directory, topic))) < 100


def test_threads_share_a_producer(broker: ThreadBroker, topic: str) -> None:

    def work(sending: semel.Producer, name: bytes) -> None:
        for n in range(500):
            sending.send(topic, b"%s-%03d" % (name, n))

    with producer(broker) as sending:
        threads = [threading.Thread(target=work, args=(sending, name)) for name in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = values(broker.directory, topic)
    for name in (b"a", b"b", b"c"):
        own = [value for value in found if value is not None and value.startswith(name)]
        assert own == [b"%s-%03d" % (name, n) for n in range(500)]


@pytest.mark.filterwarnings("ignore:unclosed producer")
def test_a_producer_nobody_closed_stores_what_it_was_given(broker: ThreadBroker, topic: str) -> None:
    future = producer(broker, linger_ms=60_000, delivery_timeout_ms=120_000).send(topic, b"dropped")
    gc.collect()
    assert future.result(TIMEOUT).offset == 0
    assert values(broker.directory, topic) == [b"dropped"]


@pytest.mark.filterwarnings("ignore:unclosed producer")
def test_a_producer_nobody_closed_leaves_nobody_waiting_where_nobody_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with semel.Broker(data_dir=tmp_path) as broker:
        dropped = semel.Producer(
            bootstrap_servers=broker.bootstrap,
            linger_ms=1000,
            request_timeout_ms=1000,
            delivery_timeout_ms=10_000,  # A busy machine may take seconds to stop the broker; then a try must be left.
        )
        future = dropped.send("t", b"dropped")
    del dropped
    gc.collect()
    with pytest.raises(semel.KafkaException, match="the last error: "):
        future.result(TIMEOUT)
    # A broker that takes longer than `linger_ms` to stop may have been sent the record: then it is perhaps lost.
    eventually(
        lambda: re.search("1 record for t (perhaps )?lost", caplog.text) is not None, "the loss is logged"
    )


@pytest.mark.parametrize("when", ["before it has begun", "once it has begun", "and the loop is faster"])
def test_ctrl_c_during_close_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The broker is away, so `close` waits. The interrupt ends it before or after its coroutine has begun; in the latter case the
    coroutine may be at its end before the interrupted thread has given the producer up.
    """
    with ThreadBroker(tmp_path) as away:
        sending = producer(away)
        sending.send("t", b"1").result(TIMEOUT)
    told: list[BaseException | None] = []
    future = sending.send("t", b"2", callback=lambda _metadata, error: told.append(error))

    def interrupted(waiting: Any) -> None:
        while when != "before it has begun" and sending._engine._closing is None:
            time.sleep(0.01)
        if when == "and the loop is faster":
            waiting.cancel = partial(cancel_slowly, waiting.cancel)
        raise KeyboardInterrupt

    def cancel_slowly(cancel: Callable[[], bool]) -> bool:
        cancelled = cancel()
        eventually(lambda: bool(told), "the coroutine is at its end")
        return cancelled

    monkeypatch.setattr(loop_thread, "_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sending.close()
    with pytest.raises(
        semel.KafkaException, match="interrupted: whether the records are stored is not known"
    ):
        future.result(0)
    assert len(told) == 1
    sending.close()


def test_a_fork_is_told_that_it_needs_a_producer_of_its_own(broker: ThreadBroker, topic: str) -> None:
    with producer(broker) as sending:
        sending.send(topic, b"parent").result(TIMEOUT)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                sending.send(topic, b"child")
            except semel.IllegalStateException as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            said = told.read()
        os.waitpid(child, 0)
        assert b"does not survive a fork" in said
        sending.send(topic, b"parent again").result(TIMEOUT)
    assert values(broker.directory, topic) == [b"parent", b"parent again"]
