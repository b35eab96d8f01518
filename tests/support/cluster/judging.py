"""The verdict on a cluster after a story: replicas equal on every broker, and Kafka's tools read all of them alike.

Role.   `assert_equal` while the brokers run, `assert_equal_at_rest` while Semel's do not, `assert_clean_end` once they have been stopped: then producers' snapshots and log starts
        are written, and Kafka's DumpLogSegments reads everybody's files.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from support.cluster import replica_files
from support.cluster.load import Ack, as_stored, consumed, judge
from support.cluster.mixed_cluster import MixedCluster
from support.cluster.tools import DUMP, Tools

_PLACE = re.compile(r" position: \d+")


def paths(cluster: MixedCluster, topic: str, partition: int = 0) -> dict[str, Path]:
    """The directories of a partition's replicas."""
    return {
        str(cluster.members[broker]): cluster.log_of(broker, topic, partition)
        for broker in cluster.assignment(topic)[partition]
    }


def assert_equal(cluster: MixedCluster, *topics: str, compacted: bool = False) -> None:
    """Batches byte for byte, and leader epochs; of compacted topics the contents."""
    for topic in topics:
        for partition in cluster.assignment(topic):
            found = replica_files.settled_differences(paths(cluster, topic, partition), compacted=compacted)
            assert not found, f"{topic}-{partition}: {found}\n{cluster.tails()}"


def assert_equal_at_rest(cluster: MixedCluster, *topics: str) -> None:
    """The same, also while Semel's brokers have come to a clean end. They run again afterwards."""
    assert_equal(cluster, *topics)
    with cluster.resting():
        assert_equal(cluster, *topics)
    cluster.wait_in_sync(*topics)


def assert_kept(cluster: MixedCluster, topic: str, acks: Iterable[Ack], *, deleted_before: int = 0) -> int:
    """Everything acknowledged is there once, where it was said to be, in order: on every replica, and for a consumer. How many."""
    told = list(acks)
    ends = {}
    for partition in cluster.assignment(topic):
        mine = [ack for ack in told if ack.partition == partition]
        for name, path in paths(cluster, topic, partition).items():
            files = replica_files.read(path)
            verdict = judge(mine, {partition: as_stored(files.records())}, deleted_before=deleted_before)
            assert verdict.is_right, f"{topic}-{partition} on {name}: {verdict}"
            ends[partition] = files.log_end
    verdict = judge(told, consumed(cluster.bootstrap, topic, ends), deleted_before=deleted_before)
    assert verdict.is_right, f"a consumer of {topic}: {verdict}"
    return verdict.acked


def assert_clean_end(cluster: MixedCluster, tools: Tools, *topics: str) -> None:
    """Stop every broker; replicas agree in all that is written at an end, and Kafka reads them alike."""
    wanted = {
        (topic, partition): paths(cluster, topic, partition)
        for topic in topics
        for partition in cluster.assignment(topic)
    }
    cluster.stop_all()
    for (topic, partition), replicas in wanted.items():
        read = {name: replica_files.read(path) for name, path in replicas.items()}
        assert not (found := replica_files.differences(read)), f"{topic}-{partition}: {found}"
        starts = {name: files.log_start for name, files in read.items()}
        assert len(set(starts.values())) == 1, f"{topic}-{partition} begins at {starts}"
        assert not (found := replica_files.producer_differences(replicas)), f"{topic}-{partition}: {found}"
        start = next(iter(starts.values()))
        dumps = {name: dumped(tools, path, start) for name, path in replicas.items()}
        (first_name, first), *others = dumps.items()
        for name, other in others:
            assert other == first, f"{topic}-{partition}: {first_name} and {name} are dumped differently"
        assert first or not read[first_name].batches


def dumped(tools: Tools, directory: Path, start: int) -> list[str]:
    """What Kafka's DumpLogSegments says of the batches from `start` on, wherever they stand in their segment."""
    files = ",".join(map(str, replica_files.segments(directory)))
    said = tools.run(DUMP, "--deep-iteration", "--print-data-log", "--files", files).splitlines()
    assert not any("invalid" in line.lower() and "isvalid: true" not in line for line in said), said
    lines = [_PLACE.sub("", line) for line in said if line.startswith(("baseOffset:", "|"))]
    first = next(
        (
            number
            for number, line in enumerate(lines)
            if (found := re.match(r"baseOffset: \d+ lastOffset: (\d+)", line)) and int(found[1]) >= start
        ),
        len(lines),
    )
    return lines[first:]
