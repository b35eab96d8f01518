"""Messages written by Apache Kafka 4.3.1 are read and written again, byte for byte.

The messages of clusters under ZooKeeper are Kafka 3.9.2's. Method: two captured files of each release. `messages`: random messages of every API and version, encoded by Kafka's own generated classes,
each with Kafka's own reading of it as JSON. `frames`: requests and responses recorded between a Kafka broker and Kafka's
tools, aiokafka and kafka-python. `tools/wire_golden.py` made them. The frames of 3.9.2 were recorded between brokers of one
cluster; a broker or controller written in Python wrote some of them, and Kafka's brokers accepted each.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from semel.core.wire import registry
from semel.core.wire.framing import read_request_header, read_response_header, request_frame, response_frame
from semel.core.wire.kafka_json import kafka_json
from semel.core.wire.message import Message
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from semel.core.wire.messages.api_versions import ApiVersionsResponse
from semel.core.wire.messages.fetch import FetchRequest
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from semel.core.wire.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from support.wire.wire_values import all_messages, versions_of

GOLDEN = Path(__file__).parent / "golden"
Row = dict[str, Any]


def _load(name: str) -> list[Row]:
    return [json.loads(line) for line in gzip.decompress((GOLDEN / name).read_bytes()).splitlines()]


MESSAGES = [*_load("messages-4.3.1.jsonl.gz"), *_load("messages-3.9.2.jsonl.gz")]
FRAMES = _load("frames-4.3.1.jsonl.gz")
BETWEEN_BROKERS = _load("frames-between-brokers-3.9.2.jsonl.gz")


def _rows_of(cls: type[Message], version: int) -> list[Row]:
    return [row for row in MESSAGES if row["message"] == cls.__name__ and row["version"] == version]


def _check(cls: type[Message], row: Row) -> Message:
    raw, version = bytes.fromhex(row["bytes"]), row["version"]
    message = cls.decode(raw, version)
    assert _without_records(kafka_json(message, version)) == _without_records(row["json"])
    assert message.encode(version) == raw
    return message


def _without_records(value: Any) -> Any:
    """Kafka's JSON leaves record bytes out; the bytes themselves are compared."""
    if isinstance(value, dict):
        return {name: _without_records(inner) for name, inner in value.items() if name != "records"}
    return [_without_records(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_kafkas_bytes_of_every_version_read_and_write_the_same(cls: type[Message]) -> None:
    for version in versions_of(cls):
        rows = _rows_of(cls, version)
        assert rows, f"no golden bytes of {cls.__name__} v{version}"
        for row in rows:
            _check(cls, row)


@pytest.mark.mission("TXP-07")
@pytest.mark.parametrize("version", range(6))
def test_add_partitions_to_txn_is_byte_exact(version: int) -> None:
    """Versions 0-3: id, producer id int64, epoch int16, topics; versions 4-5: the same per transaction."""
    for row in _rows_of(AddPartitionsToTxnRequest, version):
        request = _check(AddPartitionsToTxnRequest, row)
        assert isinstance(request, AddPartitionsToTxnRequest)
        assert bool(request.transactions) <= (version >= 4)
    transactional_id, producer_id, epoch = "tx", 0x0102030405060708, 0x090A
    if version < 3:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
        )
        assert request.encode(version).hex() == "00027478" + "0102030405060708" + "090a" + "00000000"


@pytest.mark.mission("TXP-09")
@pytest.mark.parametrize("version", range(5))
def test_add_offsets_to_txn_is_byte_exact(version: int) -> None:
    """Id, producer id int64, epoch int16, group; what it adds to a transaction is told beside Kafka's own."""
    for row in _rows_of(AddOffsetsToTxnRequest, version):
        _check(AddOffsetsToTxnRequest, row)
    request = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=0x0102030405060708, producer_epoch=0x090A, group_id="g"
    )
    plain = "00027478" + "0102030405060708" + "090a" + "000167"
    flexible = "037478" + "0102030405060708" + "090a" + "0267" + "00"
    assert request.encode(version).hex() == (plain if version < 3 else flexible)


@pytest.mark.mission("TXP-11", "R-25")
@pytest.mark.parametrize("version", range(6))
def test_txn_offset_commit_is_byte_exact(version: int) -> None:
    """Id, group, producer id int64, epoch int16; from version 3 the member; no time to keep offsets for."""
    for row in _rows_of(TxnOffsetCommitRequest, version):
        _check(TxnOffsetCommitRequest, row)
    request = TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=0x0102030405060708, producer_epoch=0x090A
    )
    plain = "00027478" + "000167" + "0102030405060708" + "090a" + "00000000"
    member = "ffffffff" + "01" + "00"  # Generation -1, no member id, no instance.
    flexible = "037478" + "0267" + "0102030405060708" + "090a" + member + "01" + "00"
    assert request.encode(version).hex() == (plain if version < 3 else flexible)


@pytest.mark.mission("TXP-13", "R-43")
@pytest.mark.parametrize("version", [1, 2])
def test_write_txn_markers_is_byte_exact(version: int) -> None:
    """Producer id, epoch, result, topics and last the coordinator's epoch."""
    for row in _rows_of(WriteTxnMarkersRequest, version):
        _check(WriteTxnMarkersRequest, row)
    marker = WritableTxnMarker(
        producer_id=0x0102030405060708,
        producer_epoch=0x090A,
        transaction_result=True,
        coordinator_epoch=0x0B0C0D0E,
        transaction_version=2,
    )
    told = "0102030405060708" + "090a" + "01" + "01" + "0b0c0d0e" + ("02" if version == 2 else "") + "00"
    assert WriteTxnMarkersRequest(markers=[marker]).encode(version).hex() == "02" + told + "00"


@pytest.mark.mission("READ-08", "R-46")
@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_carries_the_isolation_level_and_is_byte_exact(version: int) -> None:
    for row in _rows_of(FetchRequest, version):
        _check(FetchRequest, row)
    committed, uncommitted = (FetchRequest(isolation_level=level).encode(version) for level in (1, 0))
    different = [
        at for at, (one, other) in enumerate(zip(committed, uncommitted, strict=True)) if one != other
    ]
    # After replica id (gone in 15), max wait, min bytes and max bytes, each int32.
    assert different == [16 if version < 15 else 12]
    assert FetchRequest.decode(committed, version).isolation_level == 1


@pytest.mark.parametrize("kind", ["request", "response"])
def test_recorded_frames_read_and_write_the_same(kind: str) -> None:
    rows = [row for row in FRAMES if row["kind"] == kind]
    assert len(rows) > 100
    for row in rows:
        _reads_and_writes_the_same(row)


@pytest.mark.parametrize("row", BETWEEN_BROKERS, ids=lambda row: row["title"])
def test_frames_between_brokers_read_and_write_the_same(row: Row) -> None:
    _reads_and_writes_the_same(row)


def test_the_frames_between_brokers_cover_the_apis_of_a_cluster() -> None:
    seen = {(row["key"], row["kind"]) for row in BETWEEN_BROKERS}
    assert {(int(api.key), kind) for api in registry.CLUSTER_APIS for kind in ("request", "response")} <= seen


def _reads_and_writes_the_same(row: Row) -> None:
    frame, version, api = bytearray.fromhex(row["frame"]), row["version"], registry.api(row["key"])
    if row["kind"] == "request":
        header, position = read_request_header(frame)
        assert (header.api_key, header.api_version) == (api.key, version)
        again = request_frame(header, api.request.decode(frame, version, position))
    else:
        correlation_id, position = read_response_header(frame, api.response_header(version))
        again = response_frame(correlation_id, api.response.decode(frame, version, position), version)
    assert again[4:] == frame, f"{api.name} {row['kind']} v{version}"
    assert int.from_bytes(again[:4], "big") == len(frame)


def test_the_recording_covers_what_clients_really_send() -> None:
    """Both transaction protocols, classic and KIP-848 groups, administration: else the test above shows little."""
    seen = {row["key"] for row in FRAMES}
    groups, transactions, administration = (
        {8, 9, 10, 11, 13, 14, 68, 69},
        {22, 24, 25, 26, 27, 28, 65, 66},
        {19, 20, 21, 29, 30, 31, 32},
    )
    expected = {0, 1, 2, 3, 18} | groups | transactions | administration
    assert not expected - seen
    assert {row["version"] for row in FRAMES if row["key"] == 22 and row["kind"] == "request"} >= {0, 5}


def test_produce_is_advertised_from_version_0_as_kafka_does() -> None:
    """PROTOCOL trap 29: otherwise old librdkafka drops compression in silence."""
    answers = [row for row in FRAMES if row["key"] == 18 and row["kind"] == "response"]
    assert {row["version"] for row in answers} == {0, 1, 2, 3, 4}
    for row in answers:
        response = ApiVersionsResponse.decode(bytes.fromhex(row["frame"]), row["version"], position=4)
        shown = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        for api in registry.APIS:
            # The recorded broker had its unstable versions switched on.
            assert shown[api.key] == api.advertised(unstable=True), api.name
