"""`semel topics add-partitions` and `trim`, at Semel and at Apache Kafka.

Method: a topic with known records; the plan, what it changes (nothing), what it names to be run, and what that does.
"""

import json
import re
import shlex
import uuid
from typing import Any

import pytest
import yaml

from support.cli.commands import Commands


def offsets_of(semel: Commands, topic: str) -> list[tuple[int, int]]:
    (described,) = json.loads(semel.done("topics", "describe", topic, "-o", "json").stdout)
    return [(one["start_offset"], one["end_offset"]) for one in described["partitions"]]


@pytest.fixture
def semel(group_bootstrap: str) -> Commands:
    return Commands(group_bootstrap)


@pytest.fixture
def topic(semel: Commands) -> str:
    """Two partitions with ten records each."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    semel.done("topics", "create", name, "--partitions", "2")
    lines = "".join(f"{number}\n" for number in range(10))
    for partition in ("0", "1"):
        semel.done("produce", name, "--partition", partition, stdin=lines)
    return name


def test_a_plan_deletes_nothing_and_names_the_command_that_does(semel: Commands, topic: str) -> None:
    planned = semel.done("topics", "trim", topic, "--before", "4", "--partition", "1")
    assert [line.split() for line in planned.stdout.splitlines()] == [
        ["TOPIC", "PARTITION", "FROM", "TO", "OFFSETS"],
        [topic, "1", "0", "4", "4"],
    ]
    assert offsets_of(semel, topic) == [(0, 10), (0, 10)]
    said = re.fullmatch(
        rf"a plan, nothing is deleted; to delete 4 offsets of {topic}: semel (.*)\n", planned.stderr
    )
    assert said is not None, planned.stderr
    executed = semel.done(*shlex.split(said[1]))
    assert executed.stderr == f"done: 4 offsets of {topic} deleted\n"
    assert offsets_of(semel, topic) == [(0, 10), (4, 10)]
    assert semel.done("consume", topic, "--partition", "1", "-n", "1").stdout == "4\n"


def test_everything_and_times(semel: Commands, topic: str) -> None:
    rows: list[dict[str, Any]] = json.loads(
        semel.done("topics", "trim", topic, "--before", "@2001-01-01", "-o", "json").stdout
    )
    assert [(one["start_offset"], one["new_start_offset"]) for one in rows] == [(0, 0), (0, 0)]
    semel.done("topics", "trim", topic, "--before", "7", "--execute")
    assert offsets_of(semel, topic) == [(7, 10), (7, 10)]
    again = semel.done("topics", "trim", topic, "--before", "5", "--execute")
    assert again.stderr == f"{topic} has nothing to delete there\n"
    semel.done("topics", "trim", topic, "--before", "latest", "--execute")
    assert offsets_of(semel, topic) == [(10, 10), (10, 10)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--before", "11"], "-0 ends at 10: there is nothing at 11; choose partitions with --partition, or write latest."),
        (["--before", "-1"], "'-1' is neither an offset nor @TIME nor latest."),
        (["--before", "1", "--partition", "2"], "has the partitions 0 to 1, not 2."),
        ([], "Missing option '--before'"),
        (["--before", "1", "--execute", "--dry-run"], "--execute carries the plan out and --dry-run does not"),
    ],
)  # fmt: skip
def test_wrong_usage_deletes_nothing(semel: Commands, topic: str, arguments: list[str], said: str) -> None:
    result = semel("topics", "trim", topic, *arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert offsets_of(semel, topic) == [(0, 10), (0, 10)]


def test_partitions_are_added(semel: Commands, topic: str) -> None:
    said = semel.done("topics", "add-partitions", topic, "--total", "5").stdout
    assert said == f"{topic} has 5 partitions now, 3 of them new\n"
    semel.done("produce", topic, "--partition", "4", stdin="x\n")
    assert semel.done("topics", "add-partitions", topic, "--add", "1").stdout.endswith(
        "6 partitions now, 1 of them new\n"
    )
    for arguments, text in (
        (["--total", "6"], "has 6 partitions already, and partitions cannot be taken away."),
        ([], "Say how many with one of --total and --add."),
        (["--total", "7", "--add", "1"], "Say how many with one of --total and --add."),
    ):
        result = semel("topics", "add-partitions", topic, *arguments)
        assert result.exit_code == 2
        assert text in result.output
    missing = semel("topics", "add-partitions", "nowhere", "--add", "1")
    assert "topic nowhere does not exist" in str(missing.exception)


def test_every_listing_has_every_format(semel: Commands, topic: str) -> None:
    """Nothing is refused, and programs can read it: on Semel and on Apache Kafka."""
    group = f"g-{topic}"
    semel.done("consume", topic, "--group", group)
    commands = [
        ["topics", "list"], ["topics", "describe", topic], ["groups", "list"], ["groups", "describe", group],
        ["offsets", "show", group], ["offsets", "reset", group, "--topic", topic, "--to", "earliest"],
        ["configs", "describe", "--topic", topic, "--all"], ["producers", "describe", topic], ["txn", "list"],
        ["txn", "find-hanging", "--topic", topic, "--all"], ["topics", "trim", topic, "--before", "1"],
    ]  # fmt: skip
    for command in commands:
        shown = {
            output: semel.done(*command, "-o", output).stdout
            for output in ("table", "wide", "csv", "json", "yaml")
        }
        assert yaml.safe_load(shown["yaml"]) == json.loads(shown["json"]), command
        assert len(shown["wide"]) >= len(shown["table"]), command
        assert "\x1b" not in "".join(shown.values()), command
        assert shown["csv"].splitlines()[0].replace("_", "").replace(",", "").isalpha(), command
