"""The programs in `examples/` run as they stand, and print what they are there to show.

Method: each `main` runs in this process against the broker it starts itself, and its output is read; one is run as its header
says, with a command. What an example's seed got wrong is kept as a story beside it, with the loss or repeat it predicts.
"""

import importlib
import logging
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import ex01_idempotent_producer
from ex07_only_produce import build_producer
from orders import RECORDS, build_consumer, write_orders
from semel import Broker, Consumer, Producer
from semel.verify.fault_proxy import Fate, FaultProxy, at_random

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def said(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """The lines the example named by the test's parameter prints; a good example is warned about nothing."""
    monkeypatch.setattr(sys, "argv", ["example"])
    importlib.import_module(request.param).main()
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert not warned
    return capsys.readouterr().out.splitlines()


def example(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("said", [name], indirect=True, ids=[name])


READ = [f"offset = {n}, key = key-{n}, value = value-{n}" for n in range(5)]


def test_every_example_runs_with_one_command_and_is_tested_here() -> None:
    programs = sorted(path for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text())
    assert [path.stem[:4] for path in programs if path.stem.startswith("ex")] == [
        f"ex{n:02}" for n in range(1, 15)
    ]
    tested = Path(__file__).read_text()
    for path in programs:
        assert f'@example("{path.stem}")' in tested, f"{path.name} is not tested"
        assert f"python examples/{path.name}\n" in path.read_text(), f"{path.name} does not say how to run it"
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "ex14_send_twice.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, done.stdout) == (0, "stored at offset 0\nstored at offset 1\n"), done.stderr


@pytest.mark.mission("EX-01", "CFG-30")
@example("ex01_idempotent_producer")
def test_an_idempotent_producer_sends_ten_records(said: list[str]) -> None:
    assert said == [f"Message sent successfully: offset={n}" for n in range(10)]


def _stored(bootstrap: str) -> list[tuple[str, str]]:
    """Keys and values of the first example's topic."""
    with Consumer(
        bootstrap_servers=bootstrap,
        key_deserializer="StringDeserializer",
        value_deserializer="StringDeserializer",
    ) as consumer:
        consumer.assign([("test-topic", 0)])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([("test-topic", 0)])["test-topic", 0]  # type: ignore[index]  # a pair will do
        found: list[tuple[str, str]] = []
        while len(found) < end:
            found += [(record.key, record.value) for record in consumer.poll(500)]
    return found


TEN = [(f"key-{n}", f"message-{n}") for n in range(10)]


@pytest.mark.mission("IDEM-37")
@pytest.mark.parametrize("idempotent", [True, False])
def test_the_same_program_does_the_same_with_idempotence_on_and_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], idempotent: bool
) -> None:
    with Broker() as broker:
        monkeypatch.setattr(sys, "argv", ["example", broker.bootstrap])
        config = ex01_idempotent_producer.create_idempotent_config(broker.bootstrap)
        changed = {**config, "enable.idempotence": idempotent, "acks": "all"}
        monkeypatch.setattr(ex01_idempotent_producer, "create_idempotent_config", lambda _servers: changed)
        ex01_idempotent_producer.main()
        said = capsys.readouterr().out.splitlines()
        assert said == [f"Message sent successfully: offset={n}" for n in range(10)]
        assert _stored(broker.bootstrap) == TEN


@pytest.mark.mission("IDEM-40")
@pytest.mark.parametrize(
    "faults",
    [
        {Fate.CUT_AFTER: 0.5, Fate.LATE_COPY: 0.2},
        {Fate.DELAY: 0.8, Fate.REPEAT: 0.2},
        {Fate.CUT_BEFORE: 0.3, Fate.CUT_AFTER: 0.3, Fate.ECHO: 0.3},
    ],
    ids=["acks are lost", "acks are late", "anything"],
)
def test_the_first_example_as_it_stands_stores_each_record_once_over_a_bad_link(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], faults: dict[Fate, float]
) -> None:
    """No line of the program knows of it: what is sent again is recognised by the broker."""
    harmed = 0
    for seed in range(5):
        plan = at_random(seed, faults, faults_max=8, delay_max_seconds=0.1)
        with Broker() as broker, FaultProxy(broker.bootstrap, plan) as proxy:
            monkeypatch.setattr(sys, "argv", ["example", proxy.bootstrap])
            ex01_idempotent_producer.main()
            said = capsys.readouterr().out.splitlines()
            assert said == [f"Message sent successfully: offset={n}" for n in range(10)]
            assert _stored(broker.bootstrap) == TEN
            harmed += len(proxy.fates())
    assert harmed >= 5


@pytest.mark.mission("EX-02", "MET-09")
@example("ex02_idempotence_check")
def test_the_four_settings_are_printed(said: list[str]) -> None:
    assert said == ["✅ idempotence is on", "retries: 2147483647", "acks: -1", "max in flight: 5"]


@pytest.mark.mission("EX-03", "OFF-09")
@example("ex03_commit_sync")
def test_a_commit_after_every_record(said: list[str]) -> None:
    assert said == [*READ, "committed = 5"]


@pytest.mark.mission("EX-04", "OFF-09")
@example("ex04_commit_async")
def test_commits_without_waiting(said: list[str]) -> None:
    assert said == [*READ, "committed = 5", "failed commits = 0"]


def test_a_failed_commit_reaches_the_callback(caplog: pytest.LogCaptureFixture) -> None:
    """EX-04's error path: what is committed for a topic that is not there is refused."""
    from ex04_commit_async import failures, on_complete

    settings = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        servers = {"bootstrap.servers": broker.bootstrap}
        with Producer(servers) as producer:
            producer.send("orders", "one").result(30)
        with Consumer({**servers, **settings}) as consumer:
            consumer.subscribe(["orders"])
            while not consumer.poll(500):
                pass
            consumer.commit_async({("no-such-topic", 0): 1}, on_complete)
            while not failures:
                consumer.poll(100)
    assert "Commit failed for offsets" in caplog.text
    failures.clear()


@pytest.mark.mission("EX-05", "OFF-13", "OFF-09")
@example("ex05_commit_both")
def test_commits_without_waiting_and_one_at_the_end(said: list[str]) -> None:
    assert said == [*READ, "committed = 5", "read again = 0"]


@pytest.mark.mission("EX-06")
@example("ex06_offsets_in_database")
def test_offsets_in_the_database(said: list[str]) -> None:
    assert said == ["crashed", *(f"stored key = key-{n}, value = value-{n}" for n in range(5))]


@pytest.mark.mission("EX-07")
@example("ex07_only_produce")
def test_two_records_are_visible_together(said: list[str]) -> None:
    assert said == [
        "aborted: the business logic failed",
        "visible: ['transaction-data-1', 'transaction-data-2']",
    ]


@pytest.mark.mission("EX-08")
@example("ex08_consume_transform_produce")
def test_consume_transform_produce(said: list[str]) -> None:
    """The second transaction is not committed: its two records are read again, and passed on once."""
    assert said == [
        *READ[:4],
        "committed = 2",
        *READ[2:],
        "committed = 5",
        f"passed on: {[f'value-{n} done' for n in range(5)]}",
    ]


@pytest.mark.mission("EX-09")
@example("ex09_only_consume")
def test_only_consuming(said: list[str]) -> None:
    assert said == [*READ, "committed = 5"]


@pytest.mark.mission("EX-10")
@example("ex10_producer_pool")
def test_a_pool_of_producers(said: list[str]) -> None:
    assert said[0].startswith("transactional ids: ['order-service-0'")
    assert said[0].count("order-service-") <= 3, "a producer is used again"
    assert said[1] == "orders: 12, confirmations: 12"


@pytest.mark.mission("EX-11")
@example("ex11_idempotent_message")
def test_an_idempotent_message(said: list[str]) -> None:
    assert said == [
        "stored at offset 0",
        "IllegalStateException: Transactional method invoked on a non-transactional producer: set transactional.id.",
    ]


@pytest.mark.mission("EX-12", "CID-07")
@example("ex12_kafka_and_database")
def test_two_transactions_are_not_one(said: list[str]) -> None:
    """Database first: the order is in the database only. Kafka first: in the topic only. With the outbox: in both, or none."""
    assert said == [
        "naive: database ['database-first'], topic ['kafka-first']",
        "cured: database ['committed'], topic ['committed']",
    ]


@pytest.mark.mission("EX-13")
@example("ex13_dedup_cache")
def test_the_dedup_cache(said: list[str]) -> None:
    """The seed's order repeats `a` (its id was deleted) and loses `b` (it was committed before the work)."""
    assert said == [
        "the seed's order: {'a': 2, 'c': 1}",
        "claim, work, done, commit: {'a': 1, 'b': 1, 'c': 1}",
    ]


@pytest.mark.mission("EX-14")
@example("ex14_send_twice")
def test_sending_twice_stores_twice(said: list[str]) -> None:
    assert said == ["stored at offset 0", "stored at offset 1"]


@pytest.mark.mission("CID-01", "CID-02", "CID-03")
@example("wrong_orders")
def test_the_wrong_orders_lose_or_repeat_exactly_one(said: list[str]) -> None:
    assert said == [
        "commit, then work: lost ['value-2'], repeated []",
        "work, then commit: lost [], repeated ['value-2']",
        "hand on, then commit: lost ['value-2'], repeated []",
        "worker pool: lost [], repeated []",
    ]


def life_of_a_transfer(servers: str, *, ahead: int) -> list[str]:
    """Pass on what is left; `ahead` is added to each record's offset before it is committed: 1 is right, the seed has 0."""
    passed: list[str] = []
    with (
        build_producer(servers, f"ahead-{ahead}") as producer,
        build_consumer(servers, f"ahead-{ahead}") as consumer,
    ):
        producer.init_transactions()
        consumer.subscribe(["seed-in"])
        position = 0
        while position < RECORDS:
            records = list(consumer.poll(200))
            if records:
                with producer.transaction():
                    for record in records:
                        producer.send("seed-out", record.value)
                    last = records[-1]
                    producer.send_offsets_to_transaction(
                        {("seed-in", 0): last.offset + ahead}, consumer.group_metadata()
                    )
                passed += [record.value for record in records]
            if consumer.assignment():
                position = consumer.position(("seed-in", 0))
    return passed


@pytest.mark.mission("R-39")
def test_the_records_own_offset_in_a_transaction_repeats_one_record() -> None:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        write_orders(broker.bootstrap, "seed-in")
        for ahead, again in ((0, ["value-4"]), (1, [])):
            assert life_of_a_transfer(broker.bootstrap, ahead=ahead) == [f"value-{n}" for n in range(RECORDS)]
            assert life_of_a_transfer(broker.bootstrap, ahead=ahead) == again


@pytest.mark.mission("R-21")
def test_the_records_own_offset_in_a_database_repeats_one_record(tmp_path: Path) -> None:
    """The seed stores the offset of the record it has counted, and seeks to it after a restart: that record counts twice."""
    with Broker(group_initial_rebalance_delay_ms=0) as broker, sqlite3.connect(tmp_path / "seed.db") as db:
        write_orders(broker.bootstrap, "seed-in")
        db.execute("CREATE TABLE counted (value TEXT)")
        db.execute("CREATE TABLE position (at INTEGER)")
        db.execute("INSERT INTO position VALUES (0)")
        for _ in range(2):
            with build_consumer(broker.bootstrap, "seed") as consumer:
                consumer.assign([("seed-in", 0)])
                consumer.seek(("seed-in", 0), db.execute("SELECT at FROM position").fetchone()[0])
                while consumer.position(("seed-in", 0)) < RECORDS:
                    for record in consumer.poll(200):
                        db.execute("INSERT INTO counted VALUES (?)", (record.value,))
                        db.execute("UPDATE position SET at = ?", (record.offset,))
                    db.commit()
        counted = [value for (value,) in db.execute("SELECT value FROM counted ORDER BY value")]
    db.close()
    assert counted == [f"value-{n}" for n in range(RECORDS)] + ["value-4"]
