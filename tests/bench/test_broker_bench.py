"""The broker's benchmark measures what it says: its loads reach a broker, its sums are right, its page tells the truth.

Method: figures, targets, page and plot from made-up values; the loads against a real `semel broker` process, and against
a stand-in that answers wrongly; processes and clones on small ones of our own. No figure is asserted: only what was done.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semel.bench import broker as bench
from semel.bench import broker_clients, broker_lives
from semel.bench.__main__ import main
from semel.bench.broker_figures import Figure, Target, as_json, figure, page, summary, table
from semel.bench.broker_load import (
    Load,
    LoadError,
    ProduceFrame,
    Wire,
    fetch,
    fetch_first,
    produce_first,
    produce_large,
    produce_small,
    records_of,
    small_requests,
)
from semel.bench.broker_workloads import KAFKA, SEMEL, Samples, Side, Workload, figures_of, measure
from semel.bench.idempotence_cost import judge_and_record_seconds
from semel.bench.measure import BenchError
from semel.bench.plot import ratio_plot
from semel.core.records import batch
from semel.core.wire.messages.produce import ProduceRequest
from semel.drawing.ratios import times_said
from semel.errors import WireError
from semel.peers.kafka import PeerFailedError
from semel.peers.processes import SemelProcess, clone, cpu_seconds, pid_of, resident_bytes
from semel.runtime.environment import Environment

WHERE = Environment("today", "abc", "Python", "a processor", 2, "python -m semel.bench broker")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SemelProcess]:
    process = SemelProcess(tmp_path_factory.mktemp("broker"), {"num.partitions": "1"})
    process.start()
    yield process
    process.stop()


@pytest.fixture
def wire(broker: SemelProcess) -> Iterator[Wire]:
    with Wire(broker.bootstrap) as connection:
        yield connection


# Figures


def test_a_ratio_is_taken_inside_each_round() -> None:
    made = figure("g", "w", "q", [1.0, 10.0, 100.0], [2.0, 10.0, 400.0])
    assert made.ratio is not None
    assert (made.semel.median, made.ratio.median, made.ratio.low, made.ratio.high) == (10.0, 0.5, 0.25, 1.0)


@pytest.mark.parametrize(
    ("ratios", "target", "verdict"),
    [
        ([0.2, 0.3, 0.4], Target(0.5), "≤ 0.5: reached"),
        ([0.2, 0.3, 0.6], Target(0.5), "≤ 0.5: reached by the median"),
        ([0.2, 0.6, 0.6], Target(0.5), "≤ 0.5: **missed**"),
        ([2.0, 3.0, 4.0], Target(2, at_least=True), "≥ 2: reached"),
        ([1.0, 1.9, 4.0], Target(2, at_least=True), "≥ 2: **missed**"),
        ([79.0, 79.0, 79.0], Target(80, absolute=True), "≤ 80 alone: reached"),
    ],
)
def test_a_target_is_reached_or_missed(ratios: list[float], target: Target, verdict: str) -> None:
    assert figure("g", "w", "q", ratios, [1.0, 1.0, 1.0], targets=[target]).verdicts() == [verdict]


def test_without_a_peer_a_ratio_is_not_decided_but_an_absolute_bound_is() -> None:
    made = figure("g", "w", "q", [0.4], targets=[Target(0.5), Target(0.5, absolute=True)])
    assert made.verdicts() == ["≤ 0.5: not decided", "≤ 0.5 alone: reached"]


def test_rounds_that_do_not_pair_are_no_figure() -> None:
    with pytest.raises(BenchError, match="w, q: 2 rounds of Semel beside 1 of Kafka"):
        figure("g", "w", "q", [1.0, 2.0], [1.0])


def _figures() -> list[Figure]:
    return [
        figure("Produce", "large", "GB/s", [2.0] * 7, [1.0] * 7, targets=[Target(1, at_least=True)]),
        figure("Produce", "large", "CPU", [0.8] * 7, [1.0] * 7, targets=[Target(0.5)]),
        figure("Memory", "idle", "MB", [60.0], [400.0], targets=[Target(80, absolute=True)]),
        figure("Memory", "idle & alone", "MB", [60.0]),
    ]


def test_the_page_shows_every_figure_and_names_what_was_missed() -> None:
    text = page(_figures(), WHERE, ["a note"], kafka_version="4.3.1", plot="p.svg")
    assert "2 of 3 targets were reached. Missed:\n\n- large, CPU: ≤ 0.5: **missed**" in text
    assert "| large | GB/s | 2.00 | 1.00 | 2.00 [2.00, 2.00] | ≥ 1: reached |" in text
    assert "|  | CPU | 0.800 | 1.00 | 0.800 [0.800, 0.800] | ≤ 0.5: **missed** |" in text
    assert "7 rounds; intervals hold with 98.4%." in text
    assert "![Semel beside Apache Kafka](p.svg)" in text
    assert text.index("## Produce") < text.index("## Memory") < text.index("- a note")
    assert "One look." in text
    assert "Apache Kafka 4.3.1" in text


def test_nothing_missed_is_said_too() -> None:
    assert summary(_figures()[:1]) == "All 1 targets were reached.\n"


def test_the_figures_are_kept_as_json() -> None:
    document = json.loads(as_json(_figures(), WHERE, ["n"]))
    assert document["figures"][1]["ratio"] == {"median": 0.8, "low": 0.8, "high": 0.8}
    assert document["environment"]["commit"] == "abc"


def test_the_plot_has_a_mark_for_every_ratio_and_one_better_direction() -> None:
    root = ET.fromstring(ratio_plot(_figures(), "A & B"))
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "A & B"
    texts = [element.text for element in root.findall(f".//{space}text")]
    assert texts[0] == "A & B"
    for one in _figures()[:3]:
        assert one.ratio is not None
        better = one.ratio.median if one.more_is_better else 1 / one.ratio.median
        assert times_said(better) in texts, "a cost is inverted"
    legend = {"median, target reached", "median, target missed", "median, no target"}
    assert legend <= set(texts), "what a mark means is said in words"
    hollow = [one for one in root.iter(f"{space}polygon") if "f-surface" in one.attrib["class"]]
    assert len(hollow) == 2, "the missed one, and its sample in the legend"


def test_which_direction_is_better() -> None:
    def of(quantity: str, *targets: Target) -> Figure:
        return figure("g", "w", quantity, [1.0], [1.0], targets=targets)

    assert of("GB/s").more_is_better
    assert of("requests/s, all at once").more_is_better
    assert not of("broker CPU s per GB").more_is_better
    assert not of("s to start after kill -9").more_is_better
    assert of("with ÷ without", Target(1, at_least=True)).more_is_better


def test_a_workload_becomes_speed_cpu_and_latency() -> None:
    samples = Samples()
    for name, factor in ((SEMEL, 1.0), (KAFKA, 2.0)):
        latencies = [factor * number / 1e6 for number in range(1, 101)]
        samples.loads[name].append(Load(factor, 0.1 * factor, 1000, 10**9, latencies))
        samples.broker_cpu[name].append(0.5 * factor)
    small = Workload("g", "w", "requests", _no_run, Target(2, at_least=True), per_gb=False, latency=True)
    figures = figures_of(small, samples)
    assert {one.quantity: round(one.semel.median, 6) for one in figures} == {
        "requests/s": 1000,
        "broker CPU µs per request": 500,
        "client CPU µs per request": 100,
        "ack p50, µs": 50,
        "ack p99, µs": 99,
    }
    assert [one.ratio.median for one in figures if one.ratio] == pytest.approx([2, 0.5, 0.5, 0.5, 0.5])
    large = Workload("g", "w", "batches", _no_run, Target(1, at_least=True))
    assert [(one.quantity, one.semel.median) for one in figures_of(large, samples)] == [
        ("GB/s", 1.0),
        ("broker CPU s per GB", 0.5),
        ("client CPU s per GB", 0.1),
    ]


def _no_run(_side: Side, _topic: str) -> Load:
    raise AssertionError("nothing is to run")


# Loads


def test_batches_of_records_stay_below_the_size_asked_for() -> None:
    for size_bytes in (100, 1024):
        made = records_of(size_bytes, batch_bytes=1_000_000)
        assert 0.97e6 < len(made) <= 1_000_000
    assert batch.read_header(records_of(100, count=3)).records_count == 3


def test_a_prebuilt_request_is_the_batch_it_is_numbered_to_be() -> None:
    request = ProduceFrame.of("t", records_of(10, count=4))
    request.identify(77)
    request.number(3)
    decoded = ProduceRequest.decode(
        bytes(request.data[4:]), 11, request.data.index(b"semel-bench") + 11 + 1 - 4
    )
    (topic,) = decoded.topic_data
    records = topic.partition_data[0].records
    assert records is not None
    header = batch.read_header(records)
    batch.check_crc(records, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 0, 12)
    assert (topic.name, decoded.acks, len(records)) == ("t", -1, request.batch_bytes)


def test_every_load_reaches_a_broker_and_is_read_back(wire: Wire) -> None:
    wire.create_topic("loads")
    request = ProduceFrame.of("loads", records_of(100, batch_bytes=20_000))
    made = produce_large(wire, request, 24, in_flight=5)
    assert (made.units, made.bytes) == (24, 24 * request.batch_bytes)
    for per_fetch in (1, 8):
        read = fetch(wire, "loads", batches=24, batch=request, batches_per_fetch=per_fetch)
        assert read.units == 24 // per_fetch
        assert read.bytes > made.bytes
    assert fetch_first(wire, "loads") == made.bytes
    produce_large(wire, request, 2, in_flight=2, idempotent=False)
    wire.delete_topic("loads")


@pytest.mark.parametrize("in_flight", [1, 5, 50])
@pytest.mark.parametrize("idempotent", [True, False])
def test_small_requests_are_all_answered_in_order(wire: Wire, in_flight: int, idempotent: bool) -> None:
    topic = f"small-{in_flight}-{idempotent}"
    wire.create_topic(topic)
    request = ProduceFrame.of(topic, records_of(100, count=1))
    requests = small_requests(request, 120, wire.producer_id() if idempotent else -1)
    made = produce_small(wire, requests, in_flight=in_flight)
    assert made.units == 120
    assert len(made.latencies) == (120 if in_flight == 1 else 0)


def test_a_load_that_is_refused_is_no_measurement(wire: Wire) -> None:
    request = ProduceFrame.of("nobody-made-this", records_of(100, count=1))
    with pytest.raises(LoadError, match="producing: the broker answered UNKNOWN_TOPIC_OR_PARTITION"):
        produce_large(wire, request, 1, in_flight=1)


def test_a_first_produce_makes_its_topic(wire: Wire) -> None:
    produce_first(wire, "made-on-the-way")
    assert fetch_first(wire, "made-on-the-way") > 0


def test_a_broker_that_hangs_up_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _address = server.accept()
            connection.close()

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        with Wire(f"127.0.0.1:{server.getsockname()[1]}") as wire:
            hanging_up.join()
            with pytest.raises((LoadError, ConnectionError)):
                wire.producer_id()


def test_rounds_take_turns_on_topics_of_their_own(broker: SemelProcess, wire: Wire) -> None:
    ran: list[tuple[str, str]] = []

    def run(side: Side, topic: str) -> Load:
        ran.append((side.name, topic))
        side.wire.await_leaders(topic)
        return Load(1.0, 0.1, 1, 1)

    with Wire(broker.bootstrap) as other:
        sides = [Side(SEMEL, broker, wire), Side(KAFKA, broker, other, topics_made=100)]
        samples = measure(Workload("g", "w", "u", run, Target(1)), sides, pairs=2)
        assert [name for name, _topic in ran] == [KAFKA, SEMEL, SEMEL, KAFKA, KAFKA, SEMEL]
        assert len({topic for _name, topic in ran}) == 6
        assert [len(samples.loads[name]) for name in (SEMEL, KAFKA)] == [2, 2]
        assert all(spent >= 0 for spent in samples.broker_cpu[SEMEL])
        ran.clear()
        filled: list[str] = []
        reading = Workload("g", "w", "u", run, Target(1), fill=lambda _side, topic: filled.append(topic))
        measure(reading, sides, pairs=1)
        assert sorted({topic for _name, topic in ran}) == sorted(filled)


def test_what_the_java_producer_prints_is_understood() -> None:
    printed = (
        "3000 records sent, 600.0 records/sec (0.06 MB/sec), 9.0 ms avg latency, 5 ms max latency.\n"
        "5000 records sent, 2500.0 records/sec (0.24 MB/sec), 1.34 ms avg latency, 5.00 ms max latency, 1 ms 50th\n"
    )
    made = broker_clients.produced_by_java(printed, 0.5, 5000, 100)
    assert (made.seconds, made.client_cpu, made.units, made.bytes) == (2.0, 0.5, 5000, 500_000)
    with pytest.raises(LoadError, match="did not say that it sent 6000 records"):
        broker_clients.produced_by_java(printed, 0.5, 6000, 100)


def test_confluent_kafka_produces_and_consumes(broker: SemelProcess, wire: Wire) -> None:
    pytest.importorskip("confluent_kafka")
    wire.create_topic("confluent", broker_clients.PARTITIONS)
    made = broker_clients.confluent_produce(broker.bootstrap, "confluent", records=400, size_bytes=50)
    read = broker_clients.confluent_consume(broker.bootstrap, "confluent", records=400, size_bytes=50)
    assert (made.units, made.bytes, read.units) == (400, 20_000, 399)
    with pytest.raises(LoadError, match="confluent holds 400 records, 401 were produced"):
        broker_clients.check_count(broker.bootstrap, "confluent", 401)


def test_judging_is_timed_for_every_slice_of_batches() -> None:
    taken = judge_and_record_seconds(1_500)
    assert len(taken) == 3
    assert all(0 < one < 1 for one in taken)


# Processes


def test_a_process_is_charged_for_its_cpu_time(broker: SemelProcess) -> None:
    script = "import time\nwhile time.process_time() < 0.2: pass\nprint('spent', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as spending:
        assert spending.stdout is not None
        spending.stdout.readline()
        assert cpu_seconds(spending.pid) >= 0.2
        spending.communicate(b"\n")
    assert cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)
    assert resident_bytes(pid_of(broker)) > 10_000_000


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = SemelProcess(tmp_path, command=[sys.executable, "-c", "raise SystemExit('no disk, no broker')"])
    with pytest.raises(PeerFailedError, match="no disk, no broker"):
        broken.start()
    chatty = SemelProcess(tmp_path, command=[sys.executable, "-c", "print('hello')"])
    with pytest.raises(PeerFailedError, match="said 'hello', not that it is ready"):
        chatty.start()
    with pytest.raises(PeerFailedError, match="does not run"):
        pid_of(chatty)


def test_a_clone_shares_records_and_nothing_else(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "data" / "t-0").mkdir(parents=True)
    for name in ("stderr.log", "data/t-0/0.log", "data/t-0/0.index"):
        (source / name).write_bytes(b"before")
    clone(source, target)
    for name, shared in (("stderr.log", False), ("data/t-0/0.log", True), ("data/t-0/0.index", False)):
        assert (target / name).read_bytes() == b"before"
        assert (target / name).samefile(source / name) is shared


def test_a_life_from_start_to_kill_and_back(tmp_path: Path) -> None:
    def make(directory: Path) -> SemelProcess:
        return SemelProcess(directory)

    broker_lives.prepare_start(make, tmp_path / "empty")
    started = broker_lives.start(make, tmp_path / "empty", tmp_path / "first")
    assert started.first_ack_seconds > 0
    assert started.resident_bytes > 10_000_000
    broker_lives.prepare_restart(make, tmp_path / "full", 400_000)
    restarted = broker_lives.restart(make, tmp_path / "full", tmp_path / "second")
    assert restarted.first_fetch_seconds >= restarted.ready_seconds > 0


# The command


def test_the_page_its_plot_and_its_figures_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Path] = []

    def all_of_it(
        _scale: object, pairs: int, root: Path, show: Callable[[str], object], _peer: object
    ) -> list[Figure]:
        assert pairs == 3
        seen.append(root)
        show(table(_figures()))
        return _figures()

    monkeypatch.setattr(bench, "run_all", all_of_it)
    monkeypatch.setattr(bench, "peer_of", lambda _options: None)
    target = tmp_path / "broker.md"
    assert main(["broker", "--pairs", "3", "--write", str(target), "--directory", str(tmp_path)]) == 0
    assert "python -m semel.bench broker --pairs 3" in target.read_text(encoding="utf-8")
    assert target.with_suffix(".svg").read_text(encoding="utf-8").startswith("<svg")
    assert len(json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))["figures"]) == 4
    assert "2 of 3 targets were reached." in capsys.readouterr().out
    assert not seen[0].exists()


def test_a_failure_is_one_line_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_arguments: object) -> list[Figure]:
        raise LoadError("the broker closed the connection")

    monkeypatch.setattr(bench, "run_all", fails)
    assert main(["broker", "--alone", "--directory", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "semel.bench: the broker closed the connection\n"
    assert list(tmp_path.iterdir()) == []


def test_a_kill_on_the_way_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_killed(*_arguments: object) -> list[Figure]:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal was not heard")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(bench, "run_all", is_killed)
    with pytest.raises(SystemExit) as stopped:
        main(["broker", "--alone", "--directory", str(tmp_path)])
    assert stopped.value.code == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "0"], "--pairs 0 is out of range; choose between 1 and 1001"),
        (["--write", "page.txt"], "--write page.txt is not a Markdown page"),
        (["--quick", "--write", "page.md"], "--quick figures are not for a page"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["broker", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_an_answer_of_another_size_is_noticed() -> None:
    """Many in flight counts answers by the size of the first; one of another size must not pass."""

    def answer() -> None:
        connection, _address = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(struct.pack(">i", 4) + bytes(4) + struct.pack(">i", 60) + bytes(8))

    requests = small_requests(ProduceFrame.of("t", records_of(10, count=1)), 2, -1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer)
        answering.start()
        with Wire(f"127.0.0.1:{server.getsockname()[1]}") as wire, pytest.raises(WireError):
            produce_small(wire, requests, in_flight=2)
        answering.join()
