"""The benchmark of groups measures what it says: members really rebalance, commits are really stored, sums are right.

Method: the loads against a real `semel broker` process, small; figures from made-up rounds. No figure is asserted: only what
was done.
"""

from collections.abc import Iterator

import pytest

from semel.bench import groups
from semel.bench.__main__ import main
from semel.bench.broker_clients import confluent_consume_in_group, confluent_produce, consumed_by_java
from semel.bench.broker_figures import page
from semel.bench.broker_load import Load, LoadError, ProduceFrame, Wire, produce_large, records_of
from semel.bench.broker_workloads import KAFKA, SEMEL, Samples
from semel.bench.group_load import WireGroup, await_coordinator, commit, join_to_first_record
from semel.core.wire.messages.describe_groups import DescribeGroupsRequest
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.core.wire.registry import ApiKey
from semel.peers.processes import SemelProcess
from semel.runtime.environment import Environment


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SemelProcess]:
    process = SemelProcess(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"})
    process.start()
    yield process
    process.stop()


@pytest.fixture
def wire(broker: SemelProcess) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as connection:
        await_coordinator(connection, "first")
        yield connection


def state(wire: Wire, group: str) -> tuple[str, int]:
    described = wire.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group]), 3).groups[0]
    return described.group_state, len(described.members)


def committed(wire: Wire, group: str, topic: str) -> int:
    asked = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    return wire.ask(ApiKey.OFFSET_FETCH, asked, 5).topics[0].partitions[0].committed_offset


@pytest.mark.parametrize("count", [3, 4])
def test_members_rebalance_as_often_as_they_are_told(broker: SemelProcess, wire: Wire, count: int) -> None:
    group = WireGroup(broker.bootstrap, f"rebalancing-{count}", "letters", 5)
    try:
        before = group.generation
        load = group.rebalances(count)
        # The guest comes and goes once before, and goes after an odd number.
        assert group.generation == before + count + 2 + count % 2
        assert (load.units, len(load.latencies)) == (count, count)
        assert state(wire, f"rebalancing-{count}") == ("Stable", 5)
    finally:
        group.close()


def test_a_member_gets_from_nothing_to_a_record(broker: SemelProcess, wire: Wire) -> None:
    wire.create_topic("first-record")
    produce_large(wire, ProduceFrame.of("first-record", records_of(100, count=1)), 1, in_flight=1)
    assert join_to_first_record(broker.bootstrap, "first-record", "beginners") > 0
    assert state(wire, "beginners") == ("Empty", 0)


@pytest.mark.parametrize("in_flight", [1, 7])
def test_every_commit_is_stored(broker: SemelProcess, wire: Wire, in_flight: int) -> None:
    topic = f"commits-{in_flight}"
    wire.create_topic(topic)
    load = commit(broker.bootstrap, topic, topic, count=40, in_flight=in_flight)
    assert (load.units, len(load.latencies)) == (40, 40 if in_flight == 1 else 0)
    assert committed(wire, topic, topic) == 39


def test_commits_that_are_refused_are_no_measurement(broker: SemelProcess, wire: Wire) -> None:
    with pytest.raises(LoadError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        commit(broker.bootstrap, "no-such-topic", "refused", count=2, in_flight=1)


def test_confluent_kafka_polls_in_a_group(broker: SemelProcess, wire: Wire) -> None:
    wire.create_topic("polled", 4)
    confluent_produce(broker.bootstrap, "polled", records=2000, size_bytes=10)
    load = confluent_consume_in_group(broker.bootstrap, "polled", "pollers", records=2000, size_bytes=10)
    assert load.units == 1999
    assert state(wire, "pollers") == ("Empty", 0)


_PRINTED = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    "2026-01-01 00:00:00:000, 2026-01-01 00:00:04:000, 9.5, 2.4, 100000, 25000.0, 3000, 1000, 9.5, 100000.0\n"
)


def test_what_the_java_consumer_prints_is_understood() -> None:
    load = consumed_by_java(_PRINTED, 2.5, 100_000, 100)
    assert (load.seconds, load.client_cpu, load.units, load.bytes) == (1.0, 2.5, 100_000, 10_000_000)
    with pytest.raises(LoadError, match="did not say that it read 200000 records"):
        consumed_by_java(_PRINTED, 2.5, 200_000, 100)


def test_waits_become_times_and_work_becomes_speed() -> None:
    rebalance, join, by_client, commits, *_ = groups.workloads(groups.QUICK)
    samples = Samples()
    for name, seconds in ((SEMEL, 0.001), (KAFKA, 0.004)):
        samples.loads[name] = [Load(seconds * 2, 0.0, 2, 0, [seconds, seconds])] * 3
        samples.broker_cpu[name] = [seconds] * 3
    made = {
        one: groups.figures_of(workload, samples)
        for one, workload in (
            ("rebalance", rebalance),
            ("join", join),
            ("client", by_client),
            ("commit", commits),
        )
    }
    assert [one.quantity for one in made["rebalance"]] == ["ms, median", "ms, p95"]
    assert made["rebalance"][0].verdicts() == ["≤ 1: reached"]
    assert [one.quantity for one in made["join"]] == ["ms, median", "ms, p95", "broker CPU µs per join"]
    assert [one.verdicts() for one in made["client"]] == [[], []]
    assert made["commit"][0].quantity == "commits/s"
    assert made["commit"][0].verdicts() == ["≥ 1: reached"]
    assert made["commit"][0].ratio is not None
    assert made["commit"][0].ratio.median == pytest.approx(4.0)


def test_the_page_has_a_heading_of_its_own() -> None:
    samples = Samples()
    for name in (SEMEL, KAFKA):
        samples.loads[name], samples.broker_cpu[name] = [Load(1.0, 0.0, 1, 0, [1.0])], [1.0]
    figures = groups.figures_of(groups.workloads(groups.QUICK)[0], samples)
    where = Environment("today", "abc", "Python", "a processor", 2, "python -m semel.bench groups")
    text = page(figures, where, (), kafka_version="4.3.1", plot="plot.svg", header=groups._HEADER)
    assert text.startswith("# Consumer groups beside Apache Kafka\n")
    assert "Apache Kafka 4.3.1" in text
    assert "| 50 members | ms, median |" in text


def test_quick_figures_are_not_for_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["groups", "--quick", "--write", "page.md"])
    assert "not for a page" in capsys.readouterr().err
