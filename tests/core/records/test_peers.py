"""aiokafka's and kafka-python's encoders write what we write, and each reads what the other wrote.

Method: records by property through the three of them, in every compression the peer has.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from semel.core.records.arrow import decode_batches
from semel.core.records.batch import read_header
from semel.core.records.build import Record, RecordInput, build_batch, iter_records
from support.records.records_kit import CODECS, expected, inputs

PEERS = {
    "aiokafka": (AiokafkaBuilder, AiokafkaBatch, CODECS),
    "kafka-python": (KafkaPythonBuilder, KafkaPythonBatch, (0, 1)),  # The others need libraries of its own.
}
FITTING = st.lists(
    inputs().map(lambda record: record._replace(timestamp_ms=max(0, record.timestamp_ms))),
    min_size=1,
    max_size=15,
)


def written_by(builder: Any, records: list[RecordInput], codec: int) -> bytes:
    peer = builder(
        magic=2, compression_type=codec, is_transactional=True, producer_id=5, producer_epoch=1, base_sequence=6,
        batch_size=1 << 24,
    )  # fmt: skip
    for index, record in enumerate(records):
        assert peer.append(
            index,
            timestamp=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
    return bytes(peer.build())


def read_by(batch: Any, data: bytes) -> Iterator[Record]:
    peer = batch(data)
    assert peer.validate_crc()
    for index, record in enumerate(peer):
        key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
        headers = tuple((name, None if data is None else bytes(data)) for name, data in record.headers)
        yield Record(record.offset, record.timestamp, key, value, headers, 6 + index)


@pytest.mark.parametrize("peer", PEERS)
@given(records=FITTING, data=st.data())
def test_each_reads_what_the_other_wrote(peer: str, records: list[RecordInput], data: st.DataObject) -> None:
    builder, batch, codecs = PEERS[peer]
    codec = data.draw(st.sampled_from(codecs))
    theirs = written_by(builder, records, codec)
    ours = bytes(
        build_batch(
            records, compression=codec, transactional=True, producer_id=5, producer_epoch=1, base_sequence=6
        )
    )
    wanted = expected(records, base_sequence=6)
    assert list(iter_records(theirs, 0, read_header(theirs))) == wanted
    assert list(read_by(batch, ours)) == wanted
    assert decode_batches(theirs).records == decode_batches(ours).records


@pytest.mark.parametrize("peer", PEERS)
@given(records=FITTING)
def test_uncompressed_bytes_differ_in_the_leader_epoch_alone(peer: str, records: list[RecordInput]) -> None:
    theirs = written_by(PEERS[peer][0], records, 0)
    leader_epoch = read_header(theirs).partition_leader_epoch
    ours = build_batch(
        records,
        transactional=True,
        producer_id=5,
        producer_epoch=1,
        base_sequence=6,
        partition_leader_epoch=leader_epoch,
    )
    assert theirs == ours
