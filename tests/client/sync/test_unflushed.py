"""A script that ends without `flush` has stored what it sent; what could not be stored is named, and nothing else.

Method: real scripts in processes of their own, whose producers linger far longer than the scripts live. Their records are
counted afterwards, and their standard error is read: it is empty unless something is lost.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import semel
from semel import Broker, Consumer

RECORDS = 300
SECONDS = 120.0
_PRELUDE = f"""
import os, sys
import semel
from semel import Producer
bootstrap, topic = sys.argv[1:3]
settings = {{"bootstrap.servers": bootstrap, "linger.ms": 600_000, "delivery.timeout.ms": 900_000}}
def sent(producer, count={RECORDS}):
    for number in range(count):
        producer.send(topic, str(number))
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script, which knows the broker and the topic, run to its end."""
    return subprocess.run(
        [sys.executable, "-c", _PRELUDE + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def stored(bootstrap: str, topic: str) -> list[str]:
    """The values of the topic's committed records."""
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [(topic, one.partition) for one in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        values: list[str] = []
        while any(consumer.position(where) < end for where, end in ends.items()):
            values += [record.value.decode() for record in consumer.poll(1000)]
        return values


WAYS = {
    "a global": """
        producer = Producer(settings)
        sent(producer)
        """,
    "a local that is dropped": """
        def main():
            producer = Producer(settings)
            sent(producer)
        main()
        """,
    "dropped while the script goes on": """
        def main():
            producer = Producer({**settings, "delivery.timeout.ms": 900_000})
            sent(producer)
        main()
        with semel.Consumer(bootstrap_servers=bootstrap) as consumer:
            while consumer.end_offsets([(topic, 0)], timeout_ms=60_000)[topic, 0] < 300:
                pass
        """,
    "sys.exit": """
        producer = Producer(settings)
        sent(producer)
        sys.exit(0)
        """,
    "a thread that outlives main": """
        import threading
        producer = Producer(settings)
        main = threading.current_thread()
        def work():
            main.join(60)
            sent(producer)
        threading.Thread(target=work).start()
        """,
    "many producers": """
        producers = [Producer(settings) for _ in range(6)]
        for producer in producers:
            sent(producer, 50)
        """,
    "a child of multiprocessing": """
        import multiprocessing
        def work():
            sent(Producer(settings))
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        sys.exit(child.exitcode)
        """,
    "an executor of processes": """
        import concurrent.futures, multiprocessing
        kept = []
        def work(_number):
            kept.append(Producer(settings))
            sent(kept[-1], 100)
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
            list(pool.map(work, range(3)))
        """,
    "a fork in between": """
        producer = Producer(settings)
        sent(producer)
        child = os.fork()
        if not child:
            sys.exit(0)
        os.waitpid(child, 0)
        """,
    "no answer is asked for": """
        producer = Producer({**settings, "acks": 0, "enable.idempotence": False})
        sent(producer)
        """,
    "asyncio's own loop, and a name to look up": """
        sys.modules["uvloop"] = None
        producer = Producer({**settings, "bootstrap.servers": bootstrap.replace("localhost", "127.0.0.1")})
        sent(producer)
        """,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_sent_is_stored_once(way: str) -> None:
    with Broker(host="localhost") as broker:
        done = run(WAYS[way], broker.bootstrap, "orders")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        values = stored(broker.bootstrap, "orders")
        assert len(values) == RECORDS
        if way in ("a global", "a fork in between"):
            assert values == [str(number) for number in range(RECORDS)]


def test_an_exception_that_ends_the_script_does_not_take_the_records_along(
    semel_broker: Broker, semel_topic: str
) -> None:
    done = run(
        "producer = Producer(settings)\nsent(producer)\nraise ValueError('ends here')",
        semel_broker.bootstrap,
        semel_topic,
    )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: ends here")
    assert "producer" not in done.stderr.rpartition("Error:")[2]
    assert len(stored(semel_broker.bootstrap, semel_topic)) == RECORDS


@pytest.mark.parametrize("first", ["Producer", "Broker"])
def test_a_broker_of_the_same_process_answers_until_its_clients_are_done(first: str, tmp_path: Path) -> None:
    script = f"""
        semel.{first}
        broker = semel.Broker(data_dir={str(tmp_path)!r}).start()
        producer = semel.Producer({{**settings, "bootstrap.servers": broker.bootstrap}})
        sent(producer)
        """
    done = run(script, "-", "orders")
    assert (done.returncode, done.stderr) == (0, "")
    with Broker(data_dir=tmp_path) as broker:
        assert len(stored(broker.bootstrap, "orders")) == RECORDS


def test_records_that_cannot_be_stored_are_counted_and_named() -> None:
    script = """
        import semel.client.sync.shell as shell
        shell.EXIT_SECONDS = 2.0
        with semel.Broker() as broker:
            producer = Producer({**settings, "bootstrap.servers": broker.bootstrap})
            sent(producer, 7)
        """
    done = run(script, "-", "orders")
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    # On a busy machine the producer may write to a connection whose end it has not met yet: then nobody knows.
    fate = "(lost, never sent|perhaps lost, sent and not acknowledged)"
    assert re.match(f"producer-1: 7 records for orders {fate}, when the process ended, after 2 s", last)
    assert "the last error:" in last
    assert "nobody listens at" in last
    assert "Call flush() or close()" in last
    assert done.stderr.count("7 records") == 1


def test_an_open_transaction_is_aborted_and_said(semel_broker: Broker, semel_topic: str) -> None:
    script = """
        producer = Producer({**settings, "transactional.id": "left open"})
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, "committed")
        producer.begin_transaction()
        producer.send(topic, "stored and aborted")
        producer.flush()
        sent(producer)
        """
    done = run(script, semel_broker.bootstrap, semel_topic)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "TransactionalId left open was open when the process ended: it is aborted" in line
    assert "commit_transaction()" in line
    assert stored(semel_broker.bootstrap, semel_topic) == ["committed"]
    with semel.Admin(bootstrap_servers=semel_broker.bootstrap) as admin:
        states = {one.transactional_id: str(one.state) for one in admin.list_transactions()}
        assert states["left open"] == "CompleteAbort"


@pytest.mark.parametrize(
    "end", ["asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"]
)
def test_an_asyncio_producer_whose_loop_ended_names_what_it_lost(
    end: str, semel_broker: Broker, semel_topic: str
) -> None:
    script = f"""
        import asyncio
        from semel import aio
        kept = []
        async def main():
            kept.append(aio.Producer(settings))
            for _ in range(3):
                await kept[-1].send(topic, "x")
        {end}
        """
    done = run(script, semel_broker.bootstrap, semel_topic)
    lines = [line for line in done.stderr.splitlines() if line.startswith("producer-1: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(
        f"producer-1: 3 records for {semel_topic} lost, never sent, when the event loop"
    )


def test_an_asyncio_producer_that_was_closed_says_nothing(semel_broker: Broker, semel_topic: str) -> None:
    script = """
        import asyncio
        from semel import aio
        async def main():
            async with aio.Producer(settings) as producer:
                await producer.send(topic, "x")
        asyncio.run(main())
        """
    done = run(script, semel_broker.bootstrap, semel_topic)
    assert (done.returncode, done.stderr) == (0, "")
    assert stored(semel_broker.bootstrap, semel_topic) == ["x"]


def test_a_member_that_was_not_closed_is_told_about_its_group_and_not_about_records(
    semel_broker: Broker, semel_topic: str
) -> None:
    script = """
        consumer = semel.Consumer(bootstrap_servers=bootstrap, group_id="g")
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(100)
        """
    done = run(script, semel_broker.bootstrap, semel_topic)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("consumer-g-1 was not closed when the process ended: group g gives its partitions")
    assert "45000 ms (session.timeout.ms)" in line


@pytest.mark.parametrize(
    "client",
    [
        "client = semel.Admin(bootstrap_servers=bootstrap); client.list_topics()",
        "client = semel.Consumer(bootstrap_servers=bootstrap); client.assign([(topic, 0)]); client.poll(10)",
        "client = semel.Producer(bootstrap_servers=bootstrap); client.send(topic, 'x').result()",
    ],
)
def test_a_client_with_nothing_left_to_do_says_nothing(
    client: str, semel_broker: Broker, semel_topic: str
) -> None:
    done = run(client, semel_broker.bootstrap, semel_topic)
    assert (done.returncode, done.stderr) == (0, "")
