"""The rows of the coordinators' topics are shown in `semel log dump` as Kafka's own tool shows them.

Method: a partition with every kind of row, with tombstones, with rows of kinds nobody knows and with rows that are damaged;
each of our lines is compared with the line of Kafka's DumpLogSegments, and a few are read by eye below.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.core.coordination.outcome import LogRow
from semel.core.groups.assignors.members import Member
from semel.core.groups.assignors.protocol import MemberAssignment, encode_assignment, encode_subscription
from semel.core.groups.rows import GROUP_ROWS, CommittedOffset, offset_row, offset_tombstone
from semel.core.records.build import RecordInput, build_batch
from semel.core.transactions.rows import FORMAT, row_of, tombstone_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import TRANSACTIONS_V2, Transaction
from semel.core.wire.messages.group_rows import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    TopicPartitions,
)
from semel.core.wire.messages.group_rows import TopicPartition as AssignedPartitions
from semel.peers.kafka import KafkaHome
from semel.runtime.files import RealFiles
from semel.types import TopicPartition
from support.log.log_kit import NOW, open_at, send

LOG = "00000000000000000000.log"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPIC_ID = bytes(range(16))
SUBSCRIPTION = encode_subscription(Member("m1", ("orders",)))
ASSIGNMENT = encode_assignment(MemberAssignment([TopicPartition("orders", 0), TopicPartition("orders", 2)]))


def transaction_rows() -> list[RecordInput]:
    empty = Transaction('quoted "id" ü', 4000, 7, 60_000, last_update_ms=NOW)
    partitions = {
        TopicPartition("orders", 0): None,
        TopicPartition("orders", 2): None,
        TopicPartition("__consumer_offsets", 1): None,
    }
    ongoing = empty.with_partitions(partitions, client_version=TRANSACTIONS_V2, now_ms=NOW)
    prepared = ongoing.prepared(
        commit=True, client_version=TRANSACTIONS_V2, now_ms=NOW + 1, next_producer_id=5000
    )
    assert prepared.state is TransactionState.PREPARE_COMMIT
    told = [row_of(one) for one in (empty, ongoing, prepared, prepared.completed(NOW + 2))]
    return [FORMAT.encode(row, NOW) for row in (*told, tombstone_of("gone"))]


def group_rows() -> list[RecordInput]:
    by_hand = CommittedOffset(42, 3, 'why "not" ü', NOW)
    rows = [
        offset_row("g", "orders", 1, by_hand),
        offset_row("g", "orders", 1, by_hand._replace(expire_timestamp_ms=NOW + 5)),
        offset_row("g", "orders", 1, by_hand._replace(topic_id=TOPIC_ID)),
        offset_tombstone("g", "orders", 1),
        classic("consumer", SUBSCRIPTION, ASSIGNMENT),
        classic("consumer", SUBSCRIPTION, b""),
        classic("consumer", b"mine", b"\x00"),
        classic("connect", SUBSCRIPTION, ASSIGNMENT),
        LogRow(GroupMetadataKey(group="empty"), GroupMetadataValue(protocol=None, leader=None), 3),
        LogRow(ConsumerGroupMetadataKey(group_id="k"), ConsumerGroupMetadataValue(epoch=3, metadata_hash=77)),
        LogRow(
            ConsumerGroupMemberMetadataKey(group_id="k", member_id="m"),
            ConsumerGroupMemberMetadataValue(
                instance_id=None,
                subscribed_topic_names=["a", "b"],
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=9, supported_protocols=[ClassicProtocol(name="range", metadata=b"x")]
                ),
            ),
        ),
        LogRow(
            ConsumerGroupTargetAssignmentMetadataKey(group_id="k"),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3),
        ),
        LogRow(
            ConsumerGroupTargetAssignmentMemberKey(group_id="k", member_id="m"),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[AssignedPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]
            ),
        ),
        LogRow(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="k", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=1,
                assigned_partitions=[
                    TopicPartitions(topic_id=TOPIC_ID, partitions=[0], assignment_epochs=[1])
                ],
            ),
        ),
        LogRow(
            ConsumerGroupRegularExpressionKey(group_id="k", regular_expression="a.*"),
            ConsumerGroupRegularExpressionValue(topics=["a"], version=3, timestamp=NOW),
        ),
    ]
    nobody_knows = RecordInput(b"\x00\x63abc", b"\x00\x00", NOW)
    return [*(GROUP_ROWS.encode(row, NOW) for row in rows), nobody_knows]


def classic(protocol_type: str, subscription: bytes, assignment: bytes) -> LogRow:
    member = MemberMetadata(
        member_id="m1", client_id="c", client_host="/h", subscription=subscription, assignment=assignment
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=3, protocol="range", leader="m1", members=[member]
    )
    return LogRow(GroupMetadataKey(group="g"), value, 3)


def written(directory: Path, records: Sequence[RecordInput]) -> str:
    log = open_at(RealFiles(), directory=str(directory))
    send(log, build_batch(records[:2]))
    for record in records[2:]:
        send(log, build_batch([record]))
    log.close(NOW)
    return str(directory / LOG)


def shown(*arguments: str) -> list[str]:
    result = CliRunner().invoke(cli, ["log", "dump", *arguments])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.java
@pytest.mark.parametrize(
    ("topic", "records", "decoder"),
    [
        ("__transaction_state", transaction_rows(), "--transaction-log-decoder"),
        ("__consumer_offsets", group_rows(), "--offsets-decoder"),
    ],
)
def test_rows_are_shown_as_kafka_shows_them(
    topic: str, records: list[RecordInput], decoder: str, kafka_home: KafkaHome, tmp_path: Path
) -> None:
    path = written(tmp_path / f"{topic}-3", records)
    kafka = kafka_home.run("-Dstdout.encoding=UTF-8", DUMP, "--files", path, decoder).splitlines()
    assert len(kafka) == 2 + len(records) - 1 + len(
        records
    )  # Two heads, a line for each batch and each record.
    assert shown("--files", path, decoder) == kafka
    assert shown("--files", path, "--print-data-log") == kafka


def test_what_a_row_says_is_there_to_be_read(tmp_path: Path) -> None:
    lines = shown("--print-data-log", written(tmp_path / "__transaction_state-0", transaction_rows()))
    assert lines[3].endswith(
        ' key: {"type":"0","data":{"transactionalId":"quoted \\"id\\" ü"}} payload: {"version":"1","data":'
        '{"producerId":4000,"producerEpoch":7,"transactionTimeoutMs":60000,"transactionStatus":0,'
        '"transactionPartitions":null,"transactionLastUpdateTimestampMs":1700000000000,'
        '"transactionStartTimestampMs":-1}}'
    )
    assert lines[-1].endswith('{"transactionalId":"gone"}} payload: <DELETE>')
    lines = shown("--print-data-log", written(tmp_path / "__consumer_offsets-49", group_rows()))
    assert lines[3].endswith(
        ' key: {"type":"1","data":{"group":"g","topic":"orders","partition":1}} payload: {"version":"3","data":'
        '{"offset":42,"leaderEpoch":3,"metadata":"why \\"not\\" ü","commitTimestamp":1700000000000}}'
    )
    assert lines[-1].endswith(" key: Unknown record type 99 at offset 15, skipping.")


def test_only_rows_of_these_topics_are_taken_for_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "orders-0", [RecordInput(b"\x00\x01k", b"v", NOW)] * 2)
    assert shown("--print-data-log", path)[3].endswith(" key: \x00\x01k payload: v")
    elsewhere = written(tmp_path / "moved-0", transaction_rows())
    assert '"transactionalId":"gone"' in shown("--transaction-log-decoder", elsewhere)[-1]
    assert "transactionalId" not in "".join(shown("--deep-iteration", elsewhere))


def test_damaged_rows_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    good = group_rows()[0]
    damaged = [
        RecordInput(None, good.value, NOW),
        RecordInput(b"k", good.value, NOW),
        RecordInput(good.key, b"\x00\x63", NOW),
        RecordInput(good.key, b"\x00\x03a", NOW),
        RecordInput(good.key, b"\x00", NOW),
        RecordInput(b"\x00\x01\x00", good.value, NOW),
    ]
    path = written(tmp_path / "__consumer_offsets-0", [*damaged, good])
    lines = [line for line in shown("--print-data-log", path) if line.startswith("| ")]
    assert len(lines) == len(damaged) + 1
    for offset, line in enumerate(lines[:-1]):
        assert f" key: Error at offset {offset}, skipping. " in line
    assert '"offset":42' in lines[-1]
