"""What producers written elsewhere send, our consumer reads: every codec, null and empty parts, headers, times, large values.

Method: each client sends the same variety of records to a running broker; our consumer reads it as records and as columns. The
offsets the producer was told must be those the consumer sees.
"""

import time

import pytest

from semel import Consumer, ConsumerRecord
from semel.core.records.batch import TimestampType
from support.compat.compat_clients import Client
from support.compat.compat_kit import CODECS, Sent, ThreadBroker, by_partition, variety


def read(bootstrap: str, topic: str, partitions: int, count: int) -> dict[int, list[ConsumerRecord]]:
    found: dict[int, list[ConsumerRecord]] = {index: [] for index in range(partitions)}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in range(partitions)])
        deadline = time.monotonic() + 60
        while sum(map(len, found.values())) < count:
            assert time.monotonic() < deadline, found
            for record in consumer.poll(1_000):
                found[record.partition].append(record)
    return found


def read_columns(
    bootstrap: str, topic: str, partitions: int, count: int
) -> dict[int, list[tuple[object, ...]]]:
    rows: dict[int, list[tuple[object, ...]]] = {index: [] for index in range(partitions)}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in range(partitions)])
        deadline = time.monotonic() + 60
        while sum(map(len, rows.values())) < count:
            assert time.monotonic() < deadline, rows
            for row in consumer.poll_arrow(timeout_ms=1_000).to_pylist():
                headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
                stamp_ms = round(row["timestamp"].timestamp() * 1000)
                rows[row["partition"]].append((row["key"], row["value"], headers, stamp_ms))
    return rows


def meant(records: list[Sent]) -> list[tuple[object, ...]]:
    return [(one.key, one.value, one.headers, one.timestamp_ms) for one in records]


@pytest.mark.mission("OFF-01", "CFG-17")
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_client_in_every_codec(
    broker: ThreadBroker, any_client: Client, codec: str, topic: str
) -> None:
    if codec not in any_client.codecs:
        pytest.skip(f"{any_client.name}: the library for {codec} is not installed")
    records = variety(3, int(time.time() * 1000), all_nulls=any_client.all_nulls)
    offsets = any_client.produce(broker.bootstrap, topic, records, codec=codec)
    found = read(broker.bootstrap, topic, 3, len(records))
    columns = read_columns(broker.bootstrap, topic, 3, len(records))
    for partition, sent in by_partition(records).items():
        got = found[partition]
        assert [(one.key, one.value, one.headers, one.timestamp) for one in got] == meant(sent)
        assert columns[partition] == meant(sent)
        told = [offset for offset, one in zip(offsets, records, strict=True) if one.partition == partition]
        assert [one.offset for one in got] == told, "producer and consumer name the same offsets"
        assert all(one.timestamp_type is TimestampType.CREATE_TIME for one in got)
        assert [one.serialized_value_size for one in got] == [
            -1 if one.value is None else len(one.value) for one in sent
        ]
