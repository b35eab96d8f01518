"""Kafka's admin tools print about Semel what they print about Kafka.

Method: one story of commands, as an administrator would type them, run against both brokers by the unmodified tools; exit status
and output are compared line by line. What two clusters cannot share (ids, ports, paths, sizes) is masked, and where Java prints
a hash map, lines or words are put in order. What is meant to differ is listed in `DIFFERENT` with its reason, and checked to differ.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from semel.peers.kafka import KafkaHome
from support.compat.compat_java import JavaShell, ToolRun
from support.compat.compat_kit import ThreadBroker

pytestmark = pytest.mark.java
_TOOLS: Final = "org.apache.kafka.tools."
TOPICS: Final = _TOOLS + "TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
FEATURES: Final = _TOOLS + "FeatureCommand"
ELECTIONS: Final = _TOOLS + "LeaderElectionCommand"
MOVES: Final = _TOOLS + "reassign.ReassignPartitionsCommand"
DIRECTORIES: Final = _TOOLS + "LogDirsCommand"
OFFSETS: Final = _TOOLS + "GetOffsetShell"


_WRITTEN_BY_KAFKA: Final = (
    "min.insync.replicas=1",
    "DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1",
)
_CORDONED: Final = " or some brokers have all their log directories cordoned"


class Place(NamedTuple):
    """One of the two brokers."""

    name: str
    bootstrap: str


def at_topic(name: str) -> tuple[str, ...]:
    return ("--entity-type", "topics", "--entity-name", name)


TEAM: Final = ("--entity-type", "groups", "--entity-name", "team")
NODE: Final = ("--entity-type", "brokers", "--entity-name", "1")
EVERY_NODE: Final = ("--entity-type", "brokers", "--entity-default")
USER: Final = ("--entity-type", "users", "--entity-name", "alice")
CLIENT: Final = ("--entity-type", "clients", "--entity-name", "app")
ADDRESS: Final = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
STORY: Final[tuple[tuple[str, ...], ...]] = (
    # Topics
    (TOPICS, "--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=3600000"),
    (TOPICS, "--create", "--topic", "orders"),
    (TOPICS, "--create", "--topic", "orders", "--if-not-exists"),
    (TOPICS, "--create", "--topic", "wide", "--partitions", "3", "--replication-factor", "2"),
    (TOPICS, "--create", "--topic", "bad", "--config", "retention.ms=soon"),
    (TOPICS, "--create", "--topic", "by-hand", "--replica-assignment", "1,1"),
    (TOPICS, "--list"),
    (TOPICS, "--describe"),
    (TOPICS, "--describe", "--topic", "orders"),
    (TOPICS, "--describe", "--topics-with-overrides"),
    (TOPICS, "--describe", "--under-replicated-partitions"),
    (TOPICS, "--describe", "--unavailable-partitions"),
    (TOPICS, "--describe", "--at-min-isr-partitions", "--topic", "orders"),
    (TOPICS, "--describe", "--topic", "nowhere"),
    (TOPICS, "--alter", "--topic", "orders", "--partitions", "4"),
    (TOPICS, "--alter", "--topic", "orders", "--partitions", "3"),
    (TOPICS, "--describe", "--topic", "orders", "--partition-size-limit-per-response", "1"),
    # Settings
    (
        CONFIGS,
        "--alter",
        *at_topic("orders"),
        "--add-config",
        "max.message.bytes=2000000,cleanup.policy=[compact,delete]",
    ),
    (CONFIGS, "--describe", *at_topic("orders")),
    (CONFIGS, "--alter", *at_topic("orders"), "--delete-config", "cleanup.policy"),
    (CONFIGS, "--describe", "--all", *at_topic("orders")),
    (CONFIGS, "--alter", *at_topic("nowhere"), "--add-config", "max.message.bytes=1"),
    (CONFIGS, "--describe", "--entity-type", "topics"),
    (CONFIGS, "--alter", *NODE, "--add-config", "message.max.bytes=3000000"),
    (CONFIGS, "--alter", *EVERY_NODE, "--add-config", "log.cleaner.threads=2,log.retention.ms=7200000"),
    (CONFIGS, "--alter", *NODE, "--add-config", "num.partitions=3"),
    (CONFIGS, "--describe", *NODE),
    (CONFIGS, "--describe", *EVERY_NODE),
    (CONFIGS, "--alter", *NODE, "--delete-config", "message.max.bytes"),
    (CONFIGS, "--alter", *TEAM, "--add-config", "consumer.session.timeout.ms=50000"),
    (CONFIGS, "--alter", *TEAM, "--add-config", "consumer.session.timeout.ms=1"),
    (CONFIGS, "--describe", *TEAM),
    (CONFIGS, "--describe", "--all", *TEAM),
    (
        CONFIGS,
        "--alter",
        "--entity-type",
        "broker-loggers",
        "--entity-name",
        "1",
        "--add-config",
        "nobody=DEBUG",
    ),
    # Quotas and users
    (CONFIGS, "--alter", *CLIENT, "--add-config", "producer_byte_rate=1000,consumer_byte_rate=2000"),
    (CONFIGS, "--describe", *CLIENT),
    (CONFIGS, "--alter", *USER, "--add-config", "request_percentage=12.5"),
    (CONFIGS, "--alter", *USER, *CLIENT, "--add-config", "consumer_byte_rate=7"),
    (CONFIGS, "--describe", *USER, *CLIENT),
    (
        CONFIGS,
        "--alter",
        "--entity-type",
        "users",
        "--entity-default",
        "--add-config",
        "producer_byte_rate=5",
    ),
    (CONFIGS, "--alter", *ADDRESS, "--add-config", "connection_creation_rate=9"),
    (CONFIGS, "--describe", "--entity-type", "ips"),
    (
        CONFIGS,
        "--alter",
        *USER,
        "--add-config",
        "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]",
    ),
    (CONFIGS, "--alter", *USER, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"),
    (CONFIGS, "--describe", "--entity-type", "users"),
    (CONFIGS, "--alter", *USER, "--delete-config", "SCRAM-SHA-256"),
    (CONFIGS, "--alter", *USER, "--delete-config", "SCRAM-SHA-256"),
    (CONFIGS, "--describe", *USER),
    (CONFIGS, "--alter", *CLIENT, "--delete-config", "producer_byte_rate"),
    (CONFIGS, "--describe", "--entity-type", "clients"),
    # Features
    (FEATURES, "upgrade", "--feature", "group.version=1"),
    (FEATURES, "upgrade", "--feature", "group.version=2"),
    (FEATURES, "upgrade", "--feature", "nope.version=1"),
    (FEATURES, "downgrade", "--feature", "group.version=0", "--dry-run"),
    (FEATURES, "downgrade", "--feature", "transaction.version=1"),
    (FEATURES, "upgrade", "--feature", "transaction.version=2"),
    # Elections and moves
    (ELECTIONS, "--election-type", "preferred", "--topic", "orders", "--partition", "0"),
    (ELECTIONS, "--election-type", "unclean", "--topic", "orders", "--partition", "1"),
    (ELECTIONS, "--election-type", "preferred", "--all-topic-partitions"),
    (ELECTIONS, "--election-type", "preferred", "--topic", "nowhere", "--partition", "0"),
    (MOVES, "--list"),
    (MOVES, "--generate", "--topics-to-move-json-file", "{topics}", "--broker-list", "1"),
    (MOVES, "--execute", "--reassignment-json-file", "{here}"),
    (MOVES, "--verify", "--reassignment-json-file", "{here}"),
    (MOVES, "--execute", "--reassignment-json-file", "{elsewhere}"),
    (MOVES, "--cancel", "--reassignment-json-file", "{here}"),
    # Looking around
    (DIRECTORIES, "--describe", "--topic-list", "orders,by-hand"),
    (OFFSETS, "--topic", "orders"),
    (OFFSETS, "--topic-partitions", "orders:0-1", "--time", "earliest"),
    (_TOOLS + "DeleteRecordsCommand", "--offset-json-file", "{records}"),
    (_TOOLS + "ClusterTool", "cluster-id"),
    (_TOOLS + "ClusterTool", "list-endpoints"),
    (_TOOLS + "AclCommand", "--list"),
    (_TOOLS + "ClientMetricsCommand", "--list"),
    (_TOOLS + "GroupsCommand", "--list"),
    (
        *(_TOOLS + "ClientCompatibilityTest", "--topic", "orders", "--num-cluster-nodes", "1"),
        *(
            word
            for name in (
                "offsets-for-times",
                "cluster-id",
                "create-topics",
                "describe-configs",
                "idempotent-producer",
            )
            for word in (f"--{name}-supported", "True")
        ),
        *("--describe-acls-supported", "False", "--expect-record-too-large-exception", "False"),
    ),
    (TOPICS, "--delete", "--topic", "by-hand"),
    (TOPICS, "--delete", "--topic", "by-hand"),
    (TOPICS, "--list"),
)
DIFFERENT: Final[Mapping[tuple[str, ...], str]] = {
    (FEATURES, "describe"): "Kafka has features of its own metadata, of share groups and of streams groups",
    (
        _TOOLS + "MetadataQuorumCommand",
        "describe",
        "--status",
    ): "there is no quorum of controllers to describe",
}
_LOOKING: Final = {"--describe", "--list"}
_LOOK_SECONDS: Final = 30.0
"""Kafka's broker hears of a change from its controller, a moment after whoever made it was answered."""


@pytest.fixture(scope="module")
def places(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    directory = tmp_path_factory.mktemp("tools")
    with (
        ThreadBroker(directory / "semel", node_id="1", log_segment_bytes="1073741824") as ours,
        kafka_home.broker(directory / "kafka") as theirs,
    ):
        yield Place("Semel", ours.bootstrap), Place("Kafka", f"127.0.0.1:{theirs.port}")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """What some of the tools read: their names in the story, and where they are."""

    def partitions(replicas: list[int]) -> object:
        return {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": replicas}]}

    contents = {
        "topics": {"version": 1, "topics": [{"topic": "orders"}]},
        "here": partitions([1]),
        "elsewhere": partitions([2]),
        "records": {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": -1}]},
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    return {f"{{{name}}}": str(tmp_path / name) for name in contents}


def _both(
    java_shell: JavaShell, places: tuple[Place, Place], command: tuple[str, ...], files: dict[str, str]
) -> list[tuple[int, list[str]]]:
    return [shown(run(java_shell, place, command, files), place) for place in places]


@pytest.mark.mission("EXT-08")
def test_every_tool_prints_the_same(
    java_shell: JavaShell, places: tuple[Place, Place], files: dict[str, str]
) -> None:
    found = []
    for command in STORY:
        deadline = time.monotonic() + (_LOOK_SECONDS if _LOOKING & set(command) else 0)
        mine, kafkas = _both(java_shell, places, command, files)
        while mine != kafkas and time.monotonic() < deadline:
            mine, kafkas = _both(java_shell, places, command, files)
        if mine != kafkas:
            found.append(
                f"{' '.join(command)}\n  Semel {mine[0]}:\n{_lines(mine[1])}\n  Kafka {kafkas[0]}:\n{_lines(kafkas[1])}"
            )
    assert not found, f"{len(found)} commands differ:\n" + "\n".join(found)


@pytest.mark.parametrize("command", list(DIFFERENT))
def test_what_is_meant_to_differ_does(
    java_shell: JavaShell, places: tuple[Place, Place], files: dict[str, str], command: tuple[str, ...]
) -> None:
    mine, kafkas = (shown(run(java_shell, place, command, files), place) for place in places)
    assert mine != kafkas, DIFFERENT[command]


def run(shell: JavaShell, place: Place, command: tuple[str, ...], files: Mapping[str, str]) -> ToolRun:
    tool, *arguments = (files.get(word, word) for word in command)
    at = ("--bootstrap-server", place.bootstrap)
    if tool.endswith(("FeatureCommand", "MetadataQuorumCommand")):
        return shell.tool(tool, *at, *arguments)
    if tool.endswith("ClusterTool"):
        return shell.tool(tool, *arguments, *at)
    return shell.tool(tool, *at, *arguments)


def shown(done: ToolRun, place: Place) -> tuple[int, list[str]]:
    """Status and lines, without what is each broker's own and where in the tool an error came from."""
    host, _, port = place.bootstrap.rpartition(":")
    lines = []
    for line in done.output.splitlines():
        if re.match(r"\s+(at|\.\.\.) ", line) or _is_trace(line):
            continue
        line = line.replace(place.bootstrap, "HOST:PORT").replace(port, "PORT").replace(host, "HOST")
        line = re.sub(r"TopicId: \S+", "TopicId: ID", line)
        line = re.sub(r"(Cluster ID:) \S+", r"\1 ID", line)
        line = re.sub(r'"(logDir)":"[^"]*"', r'"\1":"PATH"', line)
        line = re.sub(r'"(log_dirs)":\["/[^"]*"\]', r'"\1":["PATH"]', line)
        line = line.replace(_CORDONED, "")
        line = re.sub(r'"size":\d+', '"size":N', line)
        line = re.sub(r"synonyms=\{(.*)\}", lambda found: f"synonyms={{{_in_order(found[1], ', ')}}}", line)
        line = re.sub(r"(?<=Configs: )(\S*)", lambda found: _in_order(found[1], ","), line)
        if line.strip() == "min.insync.replicas=1 sensitive=false synonyms={}":
            continue
        line = re.sub(r"\s+", " ", line).strip()
        if line.startswith("Quota configs"):
            head, _, rest = line.partition(" are ")
            line = f"{head} are {_in_order(rest, ', ')}"
        lines.append(line)
    return done.status, sorted(line for line in lines if line)


def _is_trace(line: str) -> bool:
    return line.startswith(("Caused by", "[", "\t")) and "Exception" in line


def _in_order(words: str, between: str) -> str:
    """Java's maps have none. Kafka with eligible leader replicas writes one default into every cluster: left out."""
    return between.join(sorted(word for word in words.split(between) if word not in _WRITTEN_BY_KAFKA))


def _lines(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
