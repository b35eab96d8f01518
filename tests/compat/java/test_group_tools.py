"""Kafka's ConsumerGroupCommand and GroupsCommand print the same at Semel as at Apache Kafka.

Method: one story, told to both brokers: groups come to be by a reset, get members of the classic and of the new protocol,
are described, reset, exported, deleted; and are asked for what they cannot do. Every line the tools print is compared;
only addresses, member ids, times and the widths of columns are left out.
"""

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner

from semel import Broker
from semel.cli.main import cli
from semel.peers.kafka import KafkaHome
from support.compat.compat_java import JavaShell
from support.groups.group_members import member

pytestmark = pytest.mark.java
GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ALL_GROUPS: Final = "org.apache.kafka.tools.GroupsCommand"
SETTINGS: Final[dict[str, Any]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
}
_MEMBER_ID: Final = re.compile(r"(?:worker|rdkafka|app-1)-[0-9a-f-]{36}|(?<![\w+/-])[\w+/-]{22}(?![\w+/-])")
_TIME: Final = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]")


class Teller:
    """Tells the story to one broker and keeps what the tools said."""

    def __init__(self, shell: JavaShell, bootstrap: str, directory: Path) -> None:
        self._shell = shell
        self.bootstrap = bootstrap
        self.directory = directory
        self.said: list[tuple[str, int, list[str]]] = []

    def semel(self, *arguments: str, stdin: str | None = None) -> str:
        result = CliRunner().invoke(cli, arguments, input=stdin, env={"SEMEL_BOOTSTRAP": self.bootstrap})
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def tool(self, arguments: str, tool: str = GROUPS) -> str:
        done = self._shell.tool(tool, "--bootstrap-server", self.bootstrap, *arguments.split())
        lines = [self._plain(line) for line in done.output.splitlines()]
        shown = arguments.replace(str(self.directory), "DIRECTORY")
        self.said.append(
            (shown, done.status, [line for line in lines if line and not line.startswith("at ")])
        )
        return done.output

    def _plain(self, line: str) -> str:
        line = line.replace(self.bootstrap, "BROKER").replace(str(self.directory), "DIRECTORY")
        return " ".join(_TIME.sub("TIME", _MEMBER_ID.sub("MEMBER", line)).split())

    def resets(self, *how: str, scope: str = "--group batch --topic orders") -> None:
        for number, one in enumerate(how):
            if not number:
                self.tool(f"{scope} --reset-offsets {one} --dry-run")
            self.tool(f"{scope} --reset-offsets {one} --execute")


def _story(teller: Teller) -> None:
    teller.semel("topics", "create", "orders", "--partitions", "3")
    for partition, count in ((0, 10), (1, 20)):
        lines = "".join(f"{number}\n" for number in range(count))
        teller.semel("produce", "orders", "--partition", str(partition), stdin=lines)
    _about_nobody(teller)
    _offsets_without_members(teller)
    _with_members(teller, "app", "classic")
    _with_members(teller, "new", "consumer")
    _deleting(teller)


def _about_nobody(teller: Teller) -> None:
    teller.tool("--list")
    for what in ("", "--members", "--state", "--offsets"):
        teller.tool(f"--describe --group nobody {what}")
    teller.tool("--delete --group nobody")
    teller.tool("--delete-offsets --group nobody --topic orders")
    teller.tool("--reset-offsets --group nobody --all-topics --to-earliest --dry-run")


def _offsets_without_members(teller: Teller) -> None:
    teller.resets(
        *("--to-earliest", "--to-offset 5", "--to-latest", "--shift-by -3", "--shift-by 2", "--to-current"),
        *("--to-datetime 2020-01-01T00:00:00.000", "--to-datetime 2099-01-01T00:00:00.000"),
        *("--by-duration PT1H", "--to-offset 99", "--shift-by -99", "--to-latest"),
    )
    teller.resets("--to-offset 4", "--shift-by 1", scope="--group batch --topic orders:0,1")
    teller.resets("--shift-by 1", scope="--group other --topic orders:2")
    teller.resets("--to-earliest", scope="--group batch --topic missing")
    exported = teller.tool("--group batch --reset-offsets --to-current --all-topics --export --dry-run")
    file = teller.directory / "offsets.csv"
    lines = "".join(f"{line}\n" for line in exported.splitlines() if line.count(",") == 2)
    assert lines == teller.semel("offsets", "export", "batch")
    file.write_text(lines, encoding="utf-8")
    teller.semel("offsets", "import", "carried", str(file), "--execute")
    teller.tool("--describe --group carried")
    teller.semel("offsets", "reset", "batch", "--all-topics", "--to", "earliest", "--execute")
    teller.tool(f"--group batch --reset-offsets --from-file {file} --dry-run")
    teller.tool(f"--group batch --reset-offsets --from-file {file} --execute")
    for what in (
        "",
        "--members",
        "--state",
        "--members --verbose",
        "--offsets --verbose",
        "--state --verbose",
    ):
        teller.tool(f"--describe --group batch {what}")
    teller.tool("--list --state")
    teller.tool("--list --type")
    teller.tool("--list --state Empty --type classic")
    teller.tool("--list --state Stable")
    teller.tool("--list --state Wrong")
    teller.tool("--describe --all-groups --state Empty")
    teller.tool("--list", ALL_GROUPS)


def _with_members(teller: Teller, group: str, protocol: str) -> None:
    instance_id = "app-1" if protocol == "classic" else None
    with member(teller.bootstrap, group, "orders", protocol=protocol, instance_id=instance_id) as consumer:
        read = consumer.consume(30, timeout=30)
        assert len(read) == 30
        consumer.commit(asynchronous=False)
        for what in (
            "",
            "--members",
            "--members --verbose",
            "--state",
            "--state --verbose",
            "--offsets --verbose",
        ):
            teller.tool(f"--describe --group {group} {what}")
        teller.tool(f"--delete --group {group}")
        teller.tool(f"--delete-offsets --group {group} --topic orders")
        teller.tool(f"--delete-offsets --group {group} --topic missing")
        teller.resets("--to-earliest", scope=f"--group {group} --topic orders")
        teller.tool("--list --state")
        teller.tool("--list --type consumer")
        teller.tool("--list --state Stable --type classic")
        for filtered in (
            "",
            "--group-type consumer",
            "--group-type classic",
            "--protocol consumer",
            "--consumer",
        ):
            teller.tool(f"--list {filtered}", ALL_GROUPS)
    if instance_id is not None:  # A static member does not leave when it closes.
        teller.semel("groups", "remove-members", group, "--instance", instance_id)
    teller.tool(f"--describe --group {group} --state")
    teller.tool(f"--describe --group {group}")
    teller.resets("--to-earliest", scope=f"--group {group} --topic orders")
    teller.tool(f"--describe --group {group} --offsets")


def _deleting(teller: Teller) -> None:
    teller.tool("--delete-offsets --group batch --topic orders:0")
    teller.tool("--delete-offsets --group batch --topic orders:0")
    teller.tool("--delete-offsets --group batch --topic orders --topic missing")
    teller.tool("--describe --group batch")
    teller.tool("--delete --group carried --group app --group nobody")
    teller.tool("--list --state")
    teller.tool("--delete --all-groups")
    teller.tool("--list")


class Told(NamedTuple):
    """What the tools said at both brokers."""

    semel: list[tuple[str, int, list[str]]]
    kafka: list[tuple[str, int, list[str]]]


@pytest.fixture(scope="module")
def told(java_shell: JavaShell, kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Told:
    directory = tmp_path_factory.mktemp("groups")
    with Broker(**SETTINGS) as semel:
        ours = Teller(java_shell, semel.bootstrap, directory)
        _story(ours)
    with kafka_home.broker(directory / "kafka", **SETTINGS) as kafka:
        theirs = Teller(java_shell, kafka.bootstrap, directory)
        _story(theirs)
    return Told(ours.said, theirs.said)


@pytest.mark.mission("EXT-08")
def test_the_tools_say_the_same(told: Told) -> None:
    assert len(told.semel) == len(told.kafka)
    different = [
        (ours, theirs) for ours, theirs in zip(told.semel, told.kafka, strict=True) if ours != theirs
    ]
    assert different == []


@pytest.mark.mission("EXT-08")
def test_the_story_has_something_to_say(told: Told) -> None:
    """What would be alike if nothing worked at all."""
    said: dict[str, list[str]] = {}
    for what, _status, lines in told.semel:
        said.setdefault(what.strip(), lines)
    assert said["--describe --group app"][1].startswith("app orders 0")
    assert "MEMBER" in said["--describe --group new --members"][1]
    assert said["--list"] == []
