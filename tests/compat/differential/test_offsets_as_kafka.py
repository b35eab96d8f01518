"""Committed offsets, and groups without members, must be told and stored as Apache Kafka tells and stores them.

Method: that of `test_as_kafka`, with a table of its own, told once. Then both logs are read: each partition of the offsets
topic must hold the same rows, but for times and ids, under the same keys. Then each broker is started on a partition the
other one wrote, and must serve the offsets in it.
"""

import shutil
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from compat.differential.comparison import Comparison, kafka_side, semel_side
from compat.differential.exchange import Side
from compat.differential.known import Known
from compat.differential.table_members import MEMBERS
from compat.differential.table_offsets import OFFSETS, TOO_LARGE, committed, fetched
from semel.broker.coordinators.java_hash import partition_for
from semel.core.groups.rows import GROUP_ROWS
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire.messages.group_rows import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from semel.core.wire.messages.offset_commit import OffsetCommitResponse
from semel.core.wire.messages.offset_fetch import OffsetFetchResponse
from semel.peers.kafka import KafkaHome

pytestmark = pytest.mark.java
_SETTLE_SECONDS: Final = 30.0
"""Until Kafka has loaded the fifty partitions it has just made."""
KNOWN: Final[tuple[Known, ...]] = ()
GROUPS: Final = {"Semel": "of semel", "Kafka": "of kafka"}
"""Groups only one side knows, to be found by the other."""
_OFFSET: Final = 1234


class Told(NamedTuple):
    """What is left when the story was told."""

    found: list[str]
    unused: list[Known]
    semel: Path
    kafka: Path


@pytest.fixture(scope="module")
def told(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Told:
    directory = tmp_path_factory.mktemp("offsets")
    semel, kafka = directory / "semel", directory / "kafka"
    settings = {"group_initial_rebalance_delay_ms": "0"}
    with semel_side(semel, **settings) as ours, kafka_side(kafka_home, kafka, **settings) as theirs:
        comparison = Comparison(ours, theirs, KNOWN, _SETTLE_SECONDS)
        found = [line for step in (*OFFSETS, *MEMBERS, *TOO_LARGE) for line in comparison.compare(step)]
        for side in (ours, theirs):
            _commit(side)
    return Told(found, [one for one in KNOWN if one not in comparison.used], semel, kafka)


def _commit(side: Side) -> None:
    """A commit for the other side to find. To Semel an offset of a topic with another id is none of this topic's, so
    Kafka is asked in the way that writes no id."""
    group = GROUPS[side.name]
    version, retention_ms = (4, 86_400_000) if side.name == "Kafka" else (9, -1)
    answer = side.ask(
        committed(group, ("orders", 1, _OFFSET), retention_ms=retention_ms)(side, version), version
    )
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == 0


def test_offsets_are_told_as_kafka_tells_them(told: Told) -> None:
    assert not told.found, f"{len(told.found)} fields differ (ours, Kafka's):\n" + "\n".join(told.found)
    assert not told.unused, f"no longer different: {told.unused}"


def test_offsets_are_stored_as_kafka_stores_them(told: Told) -> None:
    ours, theirs = _rows(told.semel), _rows(told.kafka / "data")
    assert ours == theirs
    groups = ("", "group", "odd", "short", "club", "choir")
    expected = {f"__consumer_offsets-{partition_for(group, 50)}" for group in groups}
    assert {partition for partition, _key in ours} == expected


def _rows(directory: Path) -> dict[tuple[str, str], object]:
    """The last row of each key in each partition."""
    rows: dict[tuple[str, str], object] = {}
    for file in sorted(directory.glob("__consumer_offsets-*/*.log")):
        data = file.read_bytes()
        for position, header in batch.headers(data):
            for record in iter_records(data, position, header):
                row = GROUP_ROWS.decode(record)
                assert row is not None
                if isinstance(row.key, OffsetCommitKey) and row.key.group in GROUPS.values():
                    continue
                if isinstance(row.value, OffsetCommitValue):
                    row.value.commit_timestamp = min(row.value.commit_timestamp, 1)
                    row.value.expire_timestamp = min(row.value.expire_timestamp, 1)
                    row.value.topic_id = b"given" if any(row.value.topic_id) else b""
                if isinstance(row.value, GroupMetadataValue):
                    row.value.current_state_timestamp = min(row.value.current_state_timestamp, 1)
                    row.value.leader = "given" if row.value.leader else row.value.leader
                    for member in row.value.members:
                        member.member_id = "given"
                rows[file.parent.name, repr(row.key)] = row[1:]
    return rows


def test_each_serves_offsets_the_other_stored(told: Told, kafka_home: KafkaHome, tmp_path: Path) -> None:
    """Only the partition moves: ids of topics, and all else, stay each broker's own."""
    moved = tmp_path / "moved"
    places = {"Semel": told.semel, "Kafka": told.kafka / "data"}
    for name, group in GROUPS.items():
        shutil.copytree(_partition(places[name], group), moved / name)
    for name, group in GROUPS.items():
        other = "Kafka" if name == "Semel" else "Semel"
        target = _partition(places[other], group)
        for old in target.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for new in (moved / name).iterdir():
            if new.name != "partition.metadata":
                shutil.copy(new, target / new.name)
    with semel_side(told.semel) as ours:
        assert _found(ours, GROUPS["Kafka"]) == _OFFSET
    with kafka_side(kafka_home, told.kafka) as theirs:
        assert _found(theirs, GROUPS["Semel"]) == _OFFSET


def _partition(directory: Path, group: str) -> Path:
    return directory / f"__consumer_offsets-{partition_for(group, 50)}"


def _found(side: Side, group: str) -> int:
    """What the side has committed for the group, once it has loaded it."""
    while True:
        answer = side.ask(fetched({group: (("orders", 1),)})(side, 9), 9)
        assert isinstance(answer, OffsetFetchResponse)
        if not answer.groups[0].error_code:
            return answer.groups[0].topics[0].partitions[0].committed_offset
