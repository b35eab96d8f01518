"""`semel bench`: which suites run with which words, what is told to who has no peer, and the page made of all figures.

Method: the suites' own `main` is replaced where only the choice matters; the page and its pictures come from made-up figures.
"""

import argparse
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from semel.bench import __main__ as bench_main
from semel.bench import performance, suites
from semel.bench.broker_figures import Figure, Target, as_json, figure
from semel.bench.growth_plot import growth_plot
from semel.bench.idempotence import figures_of, seeds_table
from semel.bench.measure import BenchError
from semel.bench.peer import check_alone, peer_of
from semel.bench.report import aligned
from semel.cli.main import cli
from semel.peers import kafka as kafka_peer
from semel.peers.processes import SemelProcess
from semel.runtime.environment import Environment

WHERE = Environment(
    "2026-01-02 03:04 UTC", "abc", "CPython", "a processor", 2, "python -m semel.bench broker"
)


def semel(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What suites were asked to do, instead of doing it; `groups` fails."""
    seen: list[list[str]] = []

    def main(words: list[str]) -> int:
        seen.append(words)
        return 1 if words[0] == "groups" else 0

    monkeypatch.setattr(bench_main, "main", main)
    return seen


def test_named_suites_run_once_in_the_order_of_the_table(asked: list[list[str]]) -> None:
    result = semel("scale", "broker", "scale", "--quick", "--alone")
    assert result.exit_code == 0, result.output
    assert asked == [["broker", "--quick", "--alone"], ["scale", "--quick", "--alone"]]


def test_all_suites_that_can_be_run_against_a_broker_elsewhere_are(asked: list[list[str]]) -> None:
    result = semel("--against", "127.0.0.1:1", "--pairs", "2")
    assert result.exit_code == 1  # `groups` fails here; the others have run.
    assert "not measured: groups" in result.output
    assert [words[0] for words in asked] == [
        "broker",
        "client",
        "transactions",
        "groups",
        "idempotence",
        "tables",
    ]
    assert asked[0] == ["broker", "--pairs", "2", "--against", "127.0.0.1:1"]
    assert asked[-1] == ["tables", "--pairs", "2"]


def test_every_suite_takes_the_words_it_is_given(tmp_path: Path) -> None:
    """Words a suite does not know would only be told by the suite, after hours of the others."""
    for one in suites.SUITES:
        for wishes in ({"quick": True}, {"pairs": 3, "write": tmp_path}, {"directory": tmp_path}):
            words = suites.arguments_of(one, **wishes)
            with pytest.raises(SystemExit) as stopped:
                bench_main.main([*words, "--help"])
            assert stopped.value.code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "there is no suite 'speed'; there are broker, client, transactions, groups, idempotence"),
        (["recovery", "--against", "h:1"], "recovery must start and kill the peer"),
        (["broker", "--against", "nowhere"], "'nowhere' is no HOST:PORT"),
        (["broker", "--against", "h:1", "--alone"], "keep one"),
        (["broker", "--quick", "--write", "."], "--quick figures are not for a page"),
        (["broker", "--beside", "python", "--alone"], "--beside names a peer"),
        (["broker", "--beside", "python", "--write", "."], "beside the Apache Kafka of this machine"),
        (["spark", "--alone"], "nothing is measured there without a peer"),
    ],
)
def test_wishes_that_cannot_be_met_are_told(
    asked: list[list[str]], arguments: list[str], message: str
) -> None:
    result = semel(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert asked == []


def test_who_has_no_kafka_is_told_every_way_to_one(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEMEL_PEERS", str(tmp_path))
    monkeypatch.setattr(kafka_peer, "java", lambda: "java")
    result = semel("broker")
    assert isinstance(result.exception, kafka_peer.PeerMissingError)
    for way in ("Java 17+ and Maven", "semel.peers.kafka install", "--against HOST:PORT", "--alone"):
        assert way in str(result.exception)
    assert asked == []


def test_another_semel_is_the_peer(asked: list[list[str]]) -> None:
    """As before and after a change: the other's brokers are started and killed here."""
    result = semel("broker", "recovery", "--beside", sys.executable, "--quick")
    assert result.exit_code == 0, result.output
    assert asked == [[name, "--quick", "--beside", sys.executable] for name in ("broker", "recovery")]
    peer = peer_of(argparse.Namespace(alone=False, against=None, beside=sys.executable))
    assert peer is not None
    assert peer.is_ours
    assert peer.name.startswith("semel")
    broker = peer.broker(Path("nowhere"), {})
    assert isinstance(broker, SemelProcess)
    assert broker.command[0] == sys.executable


def test_an_environment_without_semel_is_named() -> None:
    with pytest.raises(BenchError, match=r"--beside /nowhere/python: no Semel can be started with it"):
        peer_of(argparse.Namespace(alone=False, against=None, beside="/nowhere/python"))


def test_a_peer_that_is_not_there_is_named() -> None:
    with pytest.raises(BenchError, match=r"nobody answers at 127\.0\.0\.1:1 .*check --against"):
        check_alone("127.0.0.1:1")


# The page


def _figures() -> list[Figure]:
    return [
        figure("Produce", "large", "GB/s", [2.0] * 3, [1.0] * 3, targets=[Target(1, at_least=True)]),
        figure("Produce", "large", "broker CPU s per GB", [0.8] * 3, [1.0] * 3, targets=[Target(0.5)]),
        figure("Produce", "large", "client CPU s per GB", [0.8] * 3, [1.0] * 3),
    ]


def test_the_page_has_every_suite_with_date_machine_and_ratios_first(tmp_path: Path) -> None:
    (tmp_path / "benchmarks-broker.json").write_text(as_json(_figures(), WHERE, []), encoding="utf-8")
    result = semel("--page", str(tmp_path))
    assert result.exit_code == 0, result.output
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert (
        "| [broker](#broker) | 2026-01-02 03:04 UTC | abc | a processor, 2 cores, CPython | 1 of 2 |" in text
    )
    assert "| scale | not yet |" in text
    assert "| large | GB/s | 2.00 [2.00, 2.00] | 2.00 | 1.00 | ≥ 1: reached |" in text
    assert "≤ 0.5: **missed**" in text
    assert "client CPU" not in text  # On the suite's own page.
    assert "GB/s" in (tmp_path / "performance.svg").read_text(encoding="utf-8")


def test_the_page_has_what_compares_programs_too(tmp_path: Path) -> None:
    """Every suite keeps its figures where the page looks for them."""
    docs = Path(__file__).parents[2] / "docs"
    (tmp_path / "benchmarks-client.json").write_bytes((docs / "benchmarks-client.json").read_bytes())
    text = performance.page(tmp_path)
    assert "| [client](#client) |" in text
    assert "confluent-kafka" in text
    assert suites.arguments_of(suites.suite("client"), write=tmp_path)[-1] == str(
        tmp_path / "benchmarks-client.md"
    )


def test_figures_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "benchmarks-broker.json").write_text(json.dumps({"figures": []}), encoding="utf-8")
    with pytest.raises(BenchError, match=r"benchmarks-broker\.json holds no figures of this version"):
        performance.page(tmp_path)


def test_growth_is_drawn_for_both_over_the_sizes() -> None:
    figures = [
        figure("Partitions", f"{size:,} partitions", "MB resident", [40.0 + size], [400.0 + size])
        for size in (1, 10_000)
    ]
    picture = growth_plot([*figures, figure("Log", "1 GB", "MB resident", [40.0])])
    ET.fromstring(picture)
    assert ">Partitions<" in picture
    assert ">Resident memory, MB<" in picture
    assert "10k partitions" in picture
    assert ">Log<" not in picture  # One point is no growth.
    assert picture.count("<polyline") == 2


def test_tables_are_straight_in_a_terminal() -> None:
    text = "before\n| | n |\n|---|---:|\n| one | 1 |\n| three | 1,000 |\nafter **missed**"
    assert aligned(text) == "before\n           n\n-----  -----\none        1\nthree  1,000\nafter missed"


def test_a_loss_is_taken_inside_a_round_and_set_beside_the_classic_table() -> None:
    def looks(speed: float, rest: float) -> list[dict[str, float]]:
        one = {"messages/s": speed, "latency p50, ms": rest, "CPU µs per message": rest}
        return [{**one, "MB resident, broker and client": rest}] * 3

    modes = {"off, acks=1": looks(100, 10), "off, acks=all": looks(90, 10), "on, acks=all": looks(90, 11)}
    made = figures_of({"Semel": modes, "Kafka": modes})
    losses = {(one.work, one.quantity): one for one in made if one.group.startswith("What")}
    from_one = "acks=1 → acks=all and idempotence"
    assert losses[from_one, "messages/s: loss, %"].semel.median == pytest.approx(10)
    assert losses[from_one, "messages/s: loss, %"].verdicts() == ["≤ 10 alone: reached"]
    assert losses["acks=all → with idempotence", "messages/s: loss, %"].semel.median == 0
    table = seeds_table(made)
    assert (
        "| throughput, msg/s | 50,000 → 45,000 (+10 %) | 100 → 90.0 (+10.0 %) | 100 → 90.0 (+10.0 %) | 90.0 → 90.0 (+0.0 %)"
        in table
    )
    assert "| memory, MB | 100 → 120 (+20 %) | 10.0 → 11.0 (+10.0 %) |" in table
