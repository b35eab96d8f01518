"""What is counted of an answer's error codes is what Kafka's brokers count.

Method: answers of every API and version that is served, made up at random with codes that exist, are counted by us and by
`errorCounts` of Kafka's own responses.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from semel.broker.apis import SERVED, Row
from semel.broker.metrics.errors import error_counter
from semel.core.wire.message import Response
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from semel.core.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from semel.core.wire.registry import ApiKey
from semel.core.wire.schema import Struct, fields_of
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome
from support.wire.wire_values import random_message

ORACLE = Path(__file__).parents[1] / "java" / "ErrorCounts.java"
EACH = 2
CODES = (
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
# Kafka passes over the code of the whole answer here; we do not.
OVERLOOKED = {"Metadata", "DescribeUserScramCredentials"}
# What Kafka's classes refuse to read when its types make no sense, and what no two of an answer may share: they make maps.
BARRED = {"matching_acls", "resources"}
NAMES = {"resource_name", "name", "transactional_id"}
NUMBERS = {"partition_index"}


def counted(answer: Response, version: int) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    counter = error_counter(type(answer), version)
    if counter is not None:
        counter(answer, counts)
    return dict(counts)


def with_real_codes(rng: random.Random, one: Struct, version: int) -> None:
    for field in fields_of(type(one)):
        value: Any = getattr(one, field.name)
        if field.name in BARRED:
            setattr(one, field.name, [])
        elif field.name.endswith("error_code") and version in field.versions:
            setattr(one, field.name, int(rng.choice(CODES)))
        elif field.name in NAMES and version in field.versions:
            setattr(one, field.name, str(rng.random()))
        elif field.name in NUMBERS:
            setattr(one, field.name, rng.randrange(2**31))
        elif field.struct is not None and value is not None:
            for part in value if field.is_array else [value]:
                with_real_codes(rng, part, version)


AMONG_MEMBERS = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
"""Kafka 4 reads no answers to these."""
ALL_OR_NOTHING = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA}
"""An answer with a code for the whole has none for partitions: Kafka counts such a code once for each."""


@pytest.mark.java
def test_codes_are_counted_as_kafka_counts_them(kafka_home: KafkaHome) -> None:
    compare([row for row in SERVED if row.key not in AMONG_MEMBERS], kafka_home)


@pytest.mark.java
def test_codes_between_brokers_are_counted_as_kafka_3_counts_them(old_kafka_home: KafkaHome) -> None:
    compare([row for row in SERVED if row.key in AMONG_MEMBERS], old_kafka_home)


def compare(rows: Sequence[Row], kafka: KafkaHome) -> None:
    rng = random.Random(9)
    asked: list[tuple[str, int, Response]] = []
    lines: list[str] = []
    for row in rows:
        key, api = row.key, row.api
        for version in range(api.first, api.last + 1):
            for _ in range(EACH):
                answer = random_message(rng, api.response, version)
                assert isinstance(answer, Response)
                with_real_codes(rng, answer, version)
                if key in ALL_OR_NOTHING:
                    answer.error_code = 0  # type: ignore[attr-defined]  # both have it
                asked.append((api.name, version, answer))
                lines.append(f"{int(key)} {version} {answer.encode(version).hex()}")
    told = kafka.run(str(ORACLE), stdin="\n".join(lines) + "\n").splitlines()
    assert len(told) == len(asked)
    for (name, version, answer), line in zip(asked, told, strict=True):
        ours = counted(answer, version)
        theirs = {int(code): int(count) for code, count in (pair.split("=") for pair in line.split())}
        if name in OVERLOOKED and "error_code" in vars(type(answer)):
            ours[answer.error_code] = ours.get(answer.error_code, 0) - 1  # type: ignore[attr-defined]  # just looked
        # Where an old version has no code for the whole answer, Kafka counts a NONE that was never sent.
        ours.pop(0, None)
        theirs.pop(0, None)
        assert {code: count for code, count in ours.items() if count} == theirs, (name, version, answer)


def test_each_code_of_an_answer_is_counted_and_none_is_one_of_them() -> None:
    partitions = [PartitionData(partition_index=0), PartitionData(partition_index=1, error_code=1)]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    assert counted(answer, 12) == {ErrorCode.NONE: 2, ErrorCode.OFFSET_OUT_OF_RANGE: 1}
    assert counted(answer, 4) == {ErrorCode.NONE: 1, ErrorCode.OFFSET_OUT_OF_RANGE: 1}, (
        "version 4 has none for the whole"
    )


def test_codes_under_a_longer_name_count_too() -> None:
    result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=48)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[result])
    answer = AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult(transactional_id="x", topic_results=[topic])]
    )
    assert counted(answer, 4) == {ErrorCode.NONE: 1, ErrorCode.INVALID_TXN_STATE: 1}
