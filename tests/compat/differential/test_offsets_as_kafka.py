"""Committed offsets, and groups without members, must be told as Apache Kafka tells them: every field, every version.

Method: that of `test_as_kafka`, with a table of its own. In the end both logs are read: each partition of the offsets
topic must hold the same rows, but for times and ids, under the same keys.
"""

from pathlib import Path
from typing import Final

import pytest

from compat.differential.comparison import assert_alike
from compat.differential.known import Known
from compat.differential.table_offsets import OFFSETS
from semel.bench.kafka_peer import KafkaHome
from semel.core.groups.rows import GROUP_ROWS
from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.wire.messages.group_rows import OffsetCommitValue

_SETTLE_SECONDS: Final = 30.0
"""Until Kafka has loaded the fifty partitions it has just made."""
KNOWN: Final[tuple[Known, ...]] = ()


@pytest.mark.java
def test_offsets_are_told_as_kafka_tells_them(kafka_home: KafkaHome, tmp_path: Path) -> None:
    assert_alike(kafka_home, tmp_path, OFFSETS, KNOWN, settle_seconds=_SETTLE_SECONDS)
    ours, theirs = _rows(tmp_path / "semel"), _rows(tmp_path / "kafka" / "data")
    assert ours == theirs
    assert {partition for partition, _key in ours} == {
        "__consumer_offsets-0",  # The group without a name, and another.
        "__consumer_offsets-21",
        "__consumer_offsets-47",
    }


def _rows(directory: Path) -> dict[tuple[str, str], object]:
    """The last row of each key in each partition."""
    rows: dict[tuple[str, str], object] = {}
    for file in sorted(directory.glob("__consumer_offsets-*/*.log")):
        data = file.read_bytes()
        for position, header in batch.headers(data):
            for record in iter_records(data, position, header):
                row = GROUP_ROWS.decode(record)
                assert row is not None
                if isinstance(row.value, OffsetCommitValue):
                    row.value.commit_timestamp = min(row.value.commit_timestamp, 1)
                    row.value.expire_timestamp = min(row.value.expire_timestamp, 1)
                    row.value.topic_id = b"given" if any(row.value.topic_id) else b""
                rows[file.parent.name, repr(row.key)] = row[1:]
    return rows
