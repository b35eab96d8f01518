"""The benchmark of transactions measures what it says: transactions really commit, aborted ones are really hidden.

Method: the loads against a real `semel broker` process, small; figures from made-up rounds. No figure is asserted: only what
was done.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.bench import transactional_ids, transactions
from semel.bench.__main__ import main
from semel.bench.broker_figures import page
from semel.bench.broker_load import Load, LoadError, Wire
from semel.bench.broker_workloads import KAFKA, SEMEL, Samples
from semel.bench.transaction_clients import (
    check_end,
    confluent_copy,
    confluent_scan,
    confluent_stream,
    confluent_transact,
)
from semel.bench.transaction_load import (
    V1,
    V2,
    await_transactions,
    fill_with_aborted,
    introduce,
    scan,
    transact,
)
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.core.wire.messages.list_transactions import ListTransactionsRequest
from semel.core.wire.registry import ApiKey
from semel.peers.processes import SemelProcess
from semel.runtime.environment import Environment


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SemelProcess]:
    process = SemelProcess(tmp_path_factory.mktemp("broker"), transactions.SETTINGS)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def wire(broker: SemelProcess) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as connection:
        await_transactions(connection, "first")
        yield connection


@pytest.mark.parametrize("protocol", [V1, V2])
def test_every_producer_commits_what_it_was_told_to(broker: SemelProcess, wire: Wire, protocol: int) -> None:
    topic = f"by-protocol-{protocol}"
    wire.create_topic(topic, 3)
    names = [f"{topic}-{number}" for number in range(3)]
    load = transact(broker.bootstrap, topic, names, count=7, protocol=protocol)
    assert (load.units, len(load.latencies)) == (21, 21)
    check_end(broker.bootstrap, topic, 3, 42)  # A record and a marker each.
    described = wire.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=names), 0
    )
    assert {one.transaction_state for one in described.transaction_states} == {"CompleteCommit"}
    # Under v2 every end bumps the epoch. Being asked for and introduced took one each.
    assert {one.producer_epoch for one in described.transaction_states} == {1 if protocol == V1 else 8}


def test_a_refusal_ends_the_load(broker: SemelProcess, wire: Wire) -> None:
    wire.create_topic("narrow", 1)
    with pytest.raises(LoadError, match="would use up the producer id"):
        transact(broker.bootstrap, "narrow", ["greedy"], count=40_000, protocol=V2)
    with pytest.raises(LoadError, match="ends at 0, with 5"):
        check_end(broker.bootstrap, "narrow", 1, 5, patience_seconds=0.0)


def test_a_scan_sees_what_is_aborted_only_where_it_asks_for_committed_records(
    broker: SemelProcess, wire: Wire
) -> None:
    wire.create_topic("mixed")
    mixed = fill_with_aborted(
        wire, "mixed", "mixer", transactions=20, records=4, size_bytes=10, abort_every=10
    )
    assert (mixed.transactions, mixed.records, mixed.aborted) == (20, 4, 2)
    for committed in (True, False):
        assert scan(wire, "mixed", mixed, committed=committed, per_fetch=5).units == 80
        shown = 72 if committed else 80
        load = confluent_scan(broker.bootstrap, "mixed", records=shown, size_bytes=10, committed=committed)
        assert 0 < load.units < shown


def test_confluent_kafka_commits_copies_and_streams(broker: SemelProcess, wire: Wire) -> None:
    wire.create_topic("client", 2)
    assert confluent_transact(broker.bootstrap, "client", ["one", "two"], count=2).units == 4
    wire.create_topic("stream", 4)
    streamed = confluent_stream(broker.bootstrap, "stream", "streamer", records=300, size_bytes=5)
    assert (streamed.units, streamed.bytes) == (300, 1_500)
    wire.create_topic("plain", 4)
    confluent_stream(broker.bootstrap, "plain", None, records=300, size_bytes=5)
    wire.create_topic("copy")
    copied = confluent_copy(
        broker.bootstrap, "plain", "copy", "copier", records=300, per_transaction=100, size_bytes=5
    )
    assert copied.units == 300


def test_ids_are_introduced_and_known_again(wire: Wire) -> None:
    names = [f"many-{number:03d}" for number in range(120)]
    assert introduce(wire, names).units == 120
    again = introduce(wire, names[:5], in_flight=1)
    assert (again.units, len(again.latencies)) == (5, 5)
    listed = wire.ask(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(state_filters=["Empty"]), 0)
    assert set(names) <= {one.transactional_id for one in listed.transaction_states}


def test_a_look_at_many_ids_survives_kill_9(tmp_path: Path) -> None:
    looked = transactional_ids.look(
        lambda directory: SemelProcess(directory, transactions.SETTINGS), tmp_path / "ids", 250
    )
    assert min(looked) > 0


def samples(seconds: float) -> Samples:
    made = Samples()
    for name, factor in ((SEMEL, 1.0), (KAFKA, 4.0)):
        made.loads[name] = [Load(seconds * factor, 0.1, 100, 0, [0.001 * factor] * 100)] * 3
        made.broker_cpu[name] = [0.01 * factor] * 3
    return made


def test_figures_say_how_many_how_fast_and_what_it_costs() -> None:
    first = transactions.workloads(transactions.QUICK)[0]
    speed, cpu, p50, p99 = transactions.figures_of(first, samples(1.0))
    assert (speed.quantity, speed.semel.median, speed.ratio and speed.ratio.median) == (
        "transactions/s",
        100.0,
        4.0,
    )
    assert speed.verdicts() == ["≥ 2: reached"]
    assert (cpu.semel.median, p50.semel.median, p99.quantity) == (100.0, 1000.0, "commit p99, µs")
    cost = transactions.costs(transactions.QUICK)[2]
    share = transactions.figures_of_cost(cost, samples(2.0), samples(1.0))[2]
    assert (share.quantity, share.semel.median) == ("with ÷ without", 0.5)
    where = Environment("today", "abc", "Python", "a processor", 2, "python -m semel.bench transactions")
    text = page([speed, share], where, (), kafka_version="4.3.1", plot="p.svg", header=transactions._HEADER)
    assert "# Transactions beside Apache Kafka" in text


def test_a_page_is_not_written_from_a_quick_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["transactions", "--quick", "--write", "page.md"])
    assert "--quick figures are not for a page" in capsys.readouterr().err
