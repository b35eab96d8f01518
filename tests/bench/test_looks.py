"""What the suites of growth, recovery and idempotence do to a broker is what they say.

Method: each look once, tiny, at real `semel broker` processes without a peer. No figure is asserted: only that it was seen.
"""

import json
from pathlib import Path

import pytest

from semel.bench import idempotence, recovery, scale, scale_looks
from semel.bench import recovery_transactions as transactions
from semel.bench.broker_figures import Figure, figure
from semel.bench.measure import BenchError
from semel.bench.peer import makers
from semel.bench.scale_looks import P50
from semel.runtime.environment import environment

MAKERS = makers(None, {})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is looked at at once: what it is does not matter here."""
    monkeypatch.setattr(scale_looks, "_SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(scale_looks, "_WARM", 10)
    monkeypatch.setattr(scale_looks, "_ASKED", 20)


def _seen(figures: list[Figure], work: str) -> set[str]:
    return {one.quantity for one in figures if one.work == work and one.semel.median >= 0}


def test_a_broker_comes_back_with_all_it_had_after_either_end(tmp_path: Path) -> None:
    case = recovery.Case(200_000, 2)
    made = recovery.run_all([case], 1, tmp_path, lambda _text: None, MAKERS)
    wanted = {
        "s until it serves",
        "s to the first fetch of each partition",
        "CPU s until then",
        "MB resident then",
    }
    for ended in ("after kill -9", "after a clean stop"):
        assert _seen(made, case.text(ended)) == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [transactions.COMMITS, transactions.ABORTS, transactions.OFFSETS])
def test_a_broker_comes_back_with_the_transactions_it_had(tmp_path: Path, kind: str) -> None:
    case = transactions.TransactionCase(300, kind)
    made = transactions.run_all([case], 1, tmp_path, lambda _figures: None, MAKERS)
    answered = (
        "s to the group's offset" if kind == transactions.OFFSETS else "s to the right last stable offset"
    )
    wanted = {"s until it serves", answered, "CPU s until then", "MB resident then"}
    assert _seen(made, case.text()) == wanted
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_measured_leaves_the_other_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, second = environment("first"), environment("second")
    of_bytes = figure("Coming back", "2 GB", "s until it serves", [1.0], [2.0])
    of_transactions = figure("Transactions", "10 transactions", "s until it serves", [3.0], [4.0])
    recovery.write(page, [of_bytes], first)
    assert "Transactions" not in page.read_text()
    recovery.write(page, [of_transactions], second)
    text = page.read_text()
    assert (
        text.index("    first\n")
        < text.index("2 GB")
        < text.index("    second\n")
        < text.index("10 transactions")
    )
    recovery.write(
        page, [figure("Coming back", "3 GB", "s until it serves", [1.0], [2.0])], environment("third")
    )
    again = page.read_text()
    assert "2 GB" not in again
    assert again.index("    third\n") < again.index("3 GB") < again.index("    second\n")


def test_a_disk_without_room_is_told_before_anything_is_filled(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"needs .* GB of disk, .* are free .* --gigabytes"):
        recovery.run_all([recovery.Case(10**15, 1)], 1, tmp_path, lambda _text: None, MAKERS)


@pytest.mark.campaign
def test_growth_is_looked_at_along_every_axis(tmp_path: Path) -> None:
    sizes = scale.Sizes(partitions=(1, 3), connections=(2,), producers=(5,), log_gb=(0.001, 0.002))
    made = scale.run_all(sizes, scale.AXES, 1, tmp_path, lambda _text: None, MAKERS, [])
    starts = {"s to start after kill -9", "s to stop", "s to start after that", "MB resident"}
    assert starts | {"ms to make one", "ack p50, µs"} <= _seen(made, "3 partitions")
    assert "ack p50, µs ÷ that at the smallest" in _seen(made, "3 partitions")
    assert {"requests/s, all at once", "KB on top, each"} <= _seen(made, "2 connections")
    assert starts | {"bytes on top, each"} <= _seen(made, "5 producer ids")
    assert starts | {"p50 of a fetch anywhere, µs"} <= _seen(made, "0.002 GB")
    assert list(tmp_path.iterdir()) == []


def test_a_look_at_connections(tmp_path: Path) -> None:
    sizes = scale.Sizes(connections=(1, 2))
    made = scale.run_all(sizes, ["connections"], 1, tmp_path, lambda _text: None, MAKERS, [])
    wanted = {"requests/s, all at once", "KB on top, each", "MB resident", "ack p99, µs"}
    assert wanted | {"ack p50, µs ÷ that at the smallest"} <= _seen(made, "2 connections")
    assert list(tmp_path.iterdir()) == []


def test_only_logs_that_fit_are_grown() -> None:
    assert scale.fitting_gb((1, 5, 20, 50), 30_000_000_000) == [1, 5, 20]


def test_the_page_says_which_logs_there_was_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "scale.md"
    monkeypatch.setattr(scale, "fitting_gb", lambda sizes_gb, _free: [one for one in sizes_gb if one < 1])
    monkeypatch.setattr(scale, "log_measured", lambda *_: iter([[figure("Log", "it", P50, [1.0], [1.0])]]))
    monkeypatch.setattr(scale, "own_makers", lambda *_: MAKERS)
    monkeypatch.setattr(scale, "peer_of", lambda _options: None)
    asked = ["--only", "log", "--log-gb", "0.0001", "20", "50", "--write", str(page)]
    assert scale.main([*asked, "--directory", str(tmp_path)]) == 0
    words = "There was no room on this disk for a log of 20, 50 GB."
    assert f"- {words}\n" in page.read_text()
    assert words in capsys.readouterr().out
    assert words in json.loads(page.with_suffix(".json").read_text())["notes"]


@pytest.mark.mission("PERF-01", "PERF-10", "MET-10")
def test_idempotence_is_priced_in_memory_cpu_network_and_storage(tmp_path: Path) -> None:
    said: list[str] = []
    made = idempotence.run_all(idempotence.Scale(300, 5, 50), 1, tmp_path, said.append, None)
    ways = {mode: _seen(made, mode) for mode in idempotence.MODES}
    for seen in ways.values():
        assert {
            "messages/s",
            "latency p50, ms",
            "CPU µs per message",
            "MB resident, broker and client",
        } <= seen
        assert {"bytes of log per message", "bytes of producer snapshots"} <= seen
    values = {(one.work, one.quantity): one.semel.median for one in made}
    assert values["a request of 16 records", "more bytes per batch when on"] == 0
    assert values["a producer, once", "bytes asked and answered (InitProducerId)"] > 0
    # Three partitions remember one producer of the first run and one of the second; off, nobody.
    assert (
        values["on, acks=all", "bytes of producer snapshots"]
        > values["off, acks=all", "bytes of producer snapshots"]
    )
    printed = "\n".join(said)
    for row in (
        "bytes of memory per producer",
        "CPU µs per message",
        "more bytes per batch when on",
        "the table: without",
    ):
        assert row in printed
