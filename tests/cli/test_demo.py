"""`semel demo` says in one line what is missing, fails when the proof does, and keeps the older story.

Method: the command in this process; the performance itself is replaced where only its outcome matters.
"""

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from semel.cli import demo_shop
from semel.cli.demo import command
from semel.cli.spark_needed import SparkMissingError
from semel.spark.java import JavaMissingError
from semel.verify.demo.shop.judgement import Line, Verdict
from semel.verify.demo.shop.story import Outcome, Story
from semel.verify.demo.shop.timeline import Sample, Timeline

KEPT = Line("order events", 3, 3)
TORN = Line("clean", 3, 3, torn=1)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """The lines of a verdict that a performance is to come to."""
    lines = [KEPT]
    monkeypatch.setattr(demo_shop, "find_java", lambda: None)

    def play(_story: Story) -> Outcome:
        return Outcome(
            Verdict(tuple(lines)), Timeline(total=3, samples=[Sample(0.0), Sample(9.0, 3, 3, 2)]), 100
        )

    monkeypatch.setattr(Story, "play", play)
    return lines


def test_a_kept_promise_is_exit_code_0_a_table_and_a_picture(played: list[Line], tmp_path: Path) -> None:
    for name in ("picture.html", "picture.svg"):
        done = CliRunner().invoke(command, ["--picture", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert "expected  found  lost  duplicated  torn  wrong" in done.output
        assert f"The picture: {tmp_path / name}" in done.output
    assert (tmp_path / "picture.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "picture.svg").read_text().startswith("<svg")


def test_a_torn_batch_is_a_failure(played: list[Line], tmp_path: Path) -> None:
    played.append(TORN)
    done = CliRunner().invoke(command, ["--picture", str(tmp_path / "picture.html")])
    assert isinstance(done.exception, demo_shop.NotOnceError)
    assert "The promise was not kept" in (tmp_path / "picture.html").read_text()


def test_money_is_told_in_money() -> None:
    lines = demo_shop.table_lines(Verdict((Line("revenue", 1234567, 1234567, unit="cents"),)))
    assert lines[1].split() == ["revenue", "12,345.67", "12,345.67", "0", "0", "0", "0"]


def test_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> None:
        raise JavaMissingError("Spark needs Java 17 or newer and there is none: install a JDK")

    monkeypatch.setattr(demo_shop, "find_java", none)
    done = CliRunner().invoke(command, ["--picture", str(tmp_path / "picture.html")])
    assert isinstance(done.exception, JavaMissingError)
    assert not list(tmp_path.iterdir())


def test_missing_pyspark_is_one_line_that_names_the_other_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    done = CliRunner().invoke(command, [])
    assert isinstance(done.exception, SparkMissingError)
    assert "semel demo --story records" in str(done.exception)


def test_the_story_of_the_records_is_still_there() -> None:
    done = CliRunner().invoke(command, ["--story", "records", "--records", "20000"])
    assert done.exit_code == 0, done.output
    assert "stored       20,000" in done.output
    assert "kill -9 2 times" in done.output
