"""Apache Kafka's command line tools on a cluster: those of 3.9.2 ask brokers, those of 2.8.2 write znodes.

Role.   `Tools` runs them inside one JVM per version and expects success; `verify_replicas` runs the one tool that does not end.
"""

import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from semel.peers.kafka import KafkaHome
from support.compat.compat_java import JavaShell

_REPORT_MS: Final = 500
_REPORTS_SECONDS: Final = 90.0
_LAG: Final = re.compile(r"max lag is (-?\d+) for partition (\S+) at offset (-?\d+) among (\d+) partitions")

TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT: Final = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
DELETE_RECORDS: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
DUMP: Final = "kafka.tools.DumpLogSegments"
OLD_TOPICS: Final = "kafka.admin.TopicCommand"
OLD_REASSIGN: Final = "kafka.admin.ReassignPartitionsCommand"
OLD_ELECT: Final = "kafka.admin.PreferredReplicaLeaderElectionCommand"


class Tools:
    """The tools of one version, in one JVM."""

    def __init__(self, shell: JavaShell) -> None:
        self._shell = shell

    def run(self, tool: str, *arguments: str) -> str:
        """What it printed. Fails if it did not succeed."""
        run = self._shell.tool(tool, *arguments)
        assert run.status == 0, f"{tool} {' '.join(arguments)} ended with {run.status}\n{run.output}"
        return run.output

    def refused(self, tool: str, *arguments: str) -> str:
        """What it printed as it failed."""
        run = self._shell.tool(tool, *arguments)
        assert run.status != 0, f"{tool} {' '.join(arguments)} succeeded\n{run.output}"
        return run.output


def plan(moves: Mapping[str, Sequence[Sequence[int]]]) -> str:
    """A reassignment, as ReassignPartitionsCommand reads it: for each topic the replicas of its partitions."""
    rows = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for topic, partitions in moves.items()
        for partition, replicas in enumerate(partitions)
    ]
    return json.dumps({"version": 1, "partitions": rows})


def partitions_of(topic: str, count: int) -> str:
    """Partitions, as election tools read them."""
    return json.dumps({"partitions": [{"topic": topic, "partition": number} for number in range(count)]})


def described(output: str) -> dict[int, dict[str, str]]:
    """The partitions TopicCommand describes: its words and their values."""
    found = {}
    for line in output.splitlines():
        if not line.strip().startswith("Topic:") or "Partition:" not in line:
            continue
        fields = {}
        for field in line.strip().split("\t"):
            name, _, value = field.partition(":")
            fields[name.strip()] = value.strip()
        found[int(fields["Partition"])] = fields
    return found


def log_dirs(output: str) -> dict[int, dict[str, dict[str, Any]]]:
    """What LogDirsCommand tells: for each broker its replicas by name."""
    line = next(one for one in output.splitlines() if one.startswith("{"))
    return {
        broker["broker"]: {
            replica["partition"]: replica for where in broker["logDirs"] for replica in where["partitions"]
        }
        for broker in json.loads(line)["brokers"]
    }


@contextlib.contextmanager
def _verifying(home: KafkaHome, bootstrap: str, topics: str, log: Path) -> Iterator[list[str]]:
    """ReplicaVerificationTool, and the lines it has printed so far."""
    lines: list[str] = []
    with log.open("ab") as errors:
        process = subprocess.Popen(
            home.java(
                *("org.apache.kafka.tools.ReplicaVerificationTool", "--broker-list", bootstrap),
                *("--topics-include", topics, "--report-interval-ms", str(_REPORT_MS), "--time", "-2"),
                *("--max-wait-ms", "200"),
                heap="128M",
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def read() -> None:
        assert process.stdout is not None
        lines.extend(line.rstrip("\n") for line in process.stdout)

    reader = threading.Thread(target=read, name="ReplicaVerificationTool", daemon=True)
    reader.start()
    try:
        yield lines
        assert process.poll() is None, f"ReplicaVerificationTool ended\n{lines}\n{log.read_text()}"
    finally:
        process.kill()
        process.wait()
        reader.join(30)
        assert process.stdout is not None
        process.stdout.close()


def verify_replicas(
    home: KafkaHome, bootstrap: str, topics: str, ends: Mapping[str, int], log: Path
) -> tuple[list[str], list[str]]:
    """Kafka's verdict on replicas, read through Fetch: its reports up to the one that is about all of the logs, and the differences.

    `ends`: the log end of each partition, by its name.
    """
    with _verifying(home, bootstrap, topics, log) as lines:
        deadline = time.monotonic() + _REPORTS_SECONDS
        while not _is_over(lines, ends):
            assert time.monotonic() < deadline, f"not verified: {lines}\n{log.read_text()}"
            time.sleep(0.1)
        said = list(lines)
    reports = [line for line in said if _LAG.search(line)]
    others = [line for line in said if line not in reports and "verification process is started" not in line]
    return reports, others


def _is_over(lines: Sequence[str], ends: Mapping[str, int]) -> bool:
    """Its last reports say that nobody lags, and name an offset that is a log's end. It names one partition of all."""
    found = [match for line in lines if (match := _LAG.search(line))][-3:]
    return len(found) == 3 and all(
        int(one[1]) == 0 and int(one[3]) == ends.get(one[2], -1) and int(one[4]) == len(ends) for one in found
    )
