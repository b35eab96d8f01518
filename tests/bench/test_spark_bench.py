"""The bench of Spark measures what it says: both subjects in turn, rows that add up, and it runs to its end.

Method: rounds and rows without Spark; the whole suite, small, in the campaign. No figure is asserted: only what was done.
"""

import importlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from semel.bench import spark
from semel.bench.spark_rounds import interleaved
from semel.bench.spark_source import random_values
from semel.bench.spark_state import KEYS, _orders


def test_both_have_the_same_rounds_in_turn() -> None:
    ran: list[str] = []

    def run(name: str) -> int:
        ran.append(name)
        return len(ran)

    rounds = interleaved(3, {"a": lambda: run("a"), "b": lambda: run("b")})
    assert ran == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert [result for _, result in rounds["a"]] == [3, 6, 7], "the first round warms up"
    assert [result for _, result in rounds["b"]] == [4, 5, 8]
    assert all(seconds >= 0 for seconds, _ in rounds["a"])


def test_rows_are_as_large_as_said_and_the_same_every_time() -> None:
    rows = random_values(100)(5000, 20)["value"]
    assert {len(value) for value in rows.to_pylist()} == {100}
    assert rows.equals(random_values(100)(5000, 20)["value"])
    orders = _orders(KEYS - 1, 3)
    assert orders["key"].to_pylist() == [b"%d" % (KEYS - 1), b"0", b"1"]
    assert [json.loads(value) for value in orders["value"].to_pylist()] == [
        {"user": f"{user}", "amount": 1} for user in (KEYS - 1, 0, 1)
    ]
    assert orders["value"].type == pa.binary()


def test_every_part_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for part in spark.PARTS:
        assert callable(importlib.import_module(f"semel.bench.spark_{part}").measure)
    with pytest.raises(SystemExit):
        spark.main(["--only", "everything"])
    assert "invalid choice: 'everything'" in capsys.readouterr().err


@pytest.mark.java
@pytest.mark.campaign  # Two brokers and a Spark for minutes.
@pytest.mark.timeout(1800)
def test_it_runs_to_its_end(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    assert spark.main(["--quick", "--json", str(figures), "--directory", str(tmp_path)]) == 0
    found = json.loads(figures.read_text())["figures"]
    groups = {one["group"] for one in found}
    assert {"Reading from Semel", "Reading from Apache Kafka", "Latency with Semel"} <= groups
    assert {"Writing to Semel", "Writing to Apache Kafka", "State, topic to topic with Semel"} <= groups
