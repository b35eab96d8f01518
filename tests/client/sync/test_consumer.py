"""The blocking consumer: the same records, its callbacks in the caller's thread, one thread at a time, and a clean end.

Method: an embedded broker, and librdkafka as the producer.
"""

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from semel import Broker, Consumer, TopicPartition
from semel.exceptions import (
    ConcurrentModificationException,
    ConfigException,
    IllegalStateException,
    WakeupException,
)

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=0) as running:
        yield running


def produce(broker: Broker, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(count):
        producer.produce(topic, b"%d" % n, partition=n % PARTITIONS)
    assert producer.flush(30) == 0


def consumer(broker: Broker, **settings: Any) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}, **settings)


def test_a_group_is_read_in_a_loop_and_goes_on_where_it_was_left(broker: Broker) -> None:
    produce(broker, "loop", 300)
    seen: list[bytes] = []
    for stop in (70, 150, 300):
        with consumer(broker, group_id="loop") as reader:
            reader.subscribe(["loop"])
            for record in reader:
                seen.append(record.value)
                if len(seen) == stop:
                    break
    assert sorted(map(int, seen)) == list(range(300)), "none twice and none left out"


def test_what_an_interrupt_keeps_from_the_caller_is_not_lost(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes when the records are on their way to the caller's thread; the consumer then commits and closes."""
    produce(broker, "interrupted", 30)
    seen: list[bytes] = []
    reader = consumer(broker, group_id="interrupted")
    run = reader._thread.run

    def interrupted(coroutine: Any, **named: Any) -> Any:
        came = run(coroutine, **named)
        if isinstance(came, list) and came:
            raise KeyboardInterrupt
        return came

    reader.subscribe(["interrupted"])
    with monkeypatch.context() as patched:
        patched.setattr(reader._thread, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.poll(60_000)
    seen += [record.value for record in reader.poll(10_000, max_records=1)]
    reader.close()
    with consumer(broker, group_id="interrupted") as reader:
        reader.subscribe(["interrupted"])
        while len(seen) < 30:
            seen += [record.value for record in reader.poll(1_000)]
    assert sorted(map(int, seen)) == list(range(30)), "none twice and none left out"


def test_listeners_and_callbacks_run_in_the_caller_s_thread_and_may_use_the_consumer(broker: Broker) -> None:
    produce(broker, "threads", 30)
    here = threading.get_ident()
    heard: list[str] = []
    with consumer(broker, group_id="threads", enable_auto_commit=False) as reader:

        class Listener:
            def onPartitionsAssigned(self, partitions: Any) -> None:
                assert threading.get_ident() == here
                assert reader.assignment() == set(partitions)
                for where in partitions:
                    reader.seek(where, 5)
                heard.append("assigned")

            def onPartitionsRevoked(self, partitions: Any) -> None:
                assert threading.get_ident() == here
                reader.commitSync()
                heard.append("revoked")

        reader.subscribe(["threads"], listener=Listener())
        count = 0
        while count < 15:
            count += len(reader.poll(1_000))

        def committed(offsets: Any, error: Any) -> None:
            assert threading.get_ident() == here
            assert error is None
            heard.append(f"committed {len(offsets)}")

        reader.commitAsync(callback=committed)
        while len(heard) < 2:
            reader.poll(100)
        reader.seekToBeginning()
        while count < 45:
            count += len(reader.poll(1_000))
    assert heard == ["assigned", "committed 3", "revoked"]
    with consumer(broker, group_id="threads") as looking:
        stored = looking.committed([("threads", index) for index in range(PARTITIONS)])
        assert {at.offset for at in stored.values() if at} == {10}


def test_wakeup_comes_from_another_thread_and_any_other_call_is_refused_there(broker: Broker) -> None:
    with consumer(broker) as reader:
        reader.assign([("nothing", 0)])
        refusals: list[BaseException] = []

        def elsewhere() -> None:
            time.sleep(0.3)
            try:
                reader.poll(0)
            except ConcurrentModificationException as error:
                refusals.append(error)
            reader.wakeup()

        thread = threading.Thread(target=elsewhere)
        thread.start()
        with pytest.raises(WakeupException):
            reader.poll(60_000)
        thread.join()
        assert len(refusals) == 1
        assert not reader.poll(10), "the next one is not disturbed"


def test_a_wakeup_that_comes_too_late_is_harmless(broker: Broker) -> None:
    """As Java's: a handler of a signal does not know what the main thread has closed."""
    reader = consumer(broker)
    reader.close()
    reader.wakeup()


def test_columns_of_all_partitions(broker: Broker) -> None:
    produce(broker, "columns", 3_000)
    with consumer(broker) as reader:
        reader.assign([("columns", index) for index in range(PARTITIONS)])
        rows = 0
        total = 0
        while rows < 3_000:
            batch = reader.poll_arrow(timeout_ms=1_000)
            rows += batch.num_rows
            total += sum(map(int, batch.column("value").to_pylist()))
        assert (rows, total) == (3_000, sum(range(3_000)))
        assert reader.position(("columns", 0)) == 1_000


def test_what_a_poll_shows_of_itself(broker: Broker) -> None:
    produce(broker, "shown", 12)
    with consumer(broker) as reader:
        reader.assign([("shown", 0)])
        records = reader.poll(5_000)
        assert repr(records) == "<ConsumerRecords: 4 of shown-0>"
        assert records.partitions() == (TopicPartition("shown", 0),)
        assert records.count() == len(records) == len(records.records(("shown", 0))) == 4
        assert records.records("shown") == list(records)
        page = records._repr_html_()
        assert page.count("<tr>") == 5
        assert "<td>shown</td>" in page
        assert records.to_arrow().num_rows == 4
        assert repr(reader.poll(0)) == "<ConsumerRecords: none>"


def test_a_closed_consumer_says_so_and_closes_twice(broker: Broker) -> None:
    reader = consumer(broker)
    reader.close()
    reader.close()
    with pytest.raises(IllegalStateException, match="already been closed"):
        reader.poll(0)
    with pytest.raises(ConfigException, match=r"did you mean group\.id\?"):
        consumer(broker, groupid="g")


def test_a_forked_child_is_told_to_make_its_own(broker: Broker) -> None:
    with consumer(broker, group_id="forked") as reader:
        reader.subscribe(["columns"])
        reader.poll(100)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                reader.poll(0)
            except IllegalStateException as error:
                code = 0 if "make a new consumer" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        reader.poll(100)


@pytest.mark.parametrize(("library", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_data_frames_of_a_poll(broker: Broker, library: str, method: str) -> None:
    produce(broker, f"frames-{library}", 9)
    with consumer(broker) as reader:
        reader.assign([(f"frames-{library}", 0)])
        frame = getattr(reader.poll(10_000), method)()
    assert list(frame.columns) == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert list(frame["value"]) == [b"0", b"3", b"6"]
    assert list(frame["offset"]) == [0, 1, 2]
