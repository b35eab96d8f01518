"""Our batches are Kafka's: the same bytes for the same records, and each side reads what the other wrote.

Method: many seeded batches are put to Apache Kafka's own `MemoryRecords` (tests/java/RecordsOracle.java), all in one
JVM. Uncompressed batches and markers must be equal byte for byte, checksum included; compressed ones must be read
equal both ways; and of damaged ones we must accept none that Kafka refuses, nor read another content.
"""

import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.core.records.arrow_encode import encode_batch
from semel.core.records.arrow_schema import HEADERS_TYPE
from semel.core.records.batch import TimestampType, check_crc, check_shape, read_header
from semel.core.records.build import Record, RecordInput, build_batch, iter_records
from semel.core.records.control import build_marker
from semel.errors import CorruptBatchError, UnsupportedCompressionError
from semel.peers.kafka import KafkaHome
from support.records.records_kit import CODECS, SEQUENCE_MAX, damaged, random_inputs

ORACLE = Path(__file__).parents[2] / "java" / "RecordsOracle.java"

pytestmark = pytest.mark.java


class Oracle:
    """One JVM that answers a line with a line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, questions: Iterable[str]) -> list[str]:
        return [self._ask(question) for question in questions]

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the oracle ended at {question[:200]}"
        return answer.rstrip("\n")


@pytest.fixture(scope="module")
def oracle(kafka_home: KafkaHome) -> Iterator[Oracle]:
    command = kafka_home.java(str(ORACLE))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Oracle(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def word(data: bytes | None) -> str:
    return "-" if data is None else f"x{data.hex()}"


def record_word(record: RecordInput | Record) -> str:
    headers = [part for key, value in record.headers for part in (word(key.encode()), word(value))]
    return ",".join([str(record.timestamp_ms), word(record.key), word(record.value), *headers])


def read_answer(records: Iterable[Record]) -> str:
    return " ".join(["P", *(f"{record.offset}:{record_word(record)}" for record in records)])


def cases(seed: int, count: int) -> list[tuple[list[RecordInput], dict[str, Any]]]:
    """Records and settings: idempotent or not, transactional or not, sequences near the wrap."""
    random_ = random.Random(seed)
    made = []
    for _ in range(count):
        producing = random_.random() < 0.7
        settings: dict[str, Any] = {
            "base_offset": random_.choice([0, 5, 1 << 40]),
            "partition_leader_epoch": random_.choice([-1, 0, 9]),
            "producer_id": random_.choice([0, 1, (1 << 63) - 1]) if producing else -1,
            "producer_epoch": random_.choice([0, 32766]) if producing else -1,
            "base_sequence": random_.choice([0, 17, SEQUENCE_MAX - 1, SEQUENCE_MAX]) if producing else -1,
            "transactional": producing and random_.random() < 0.5,
        }
        made.append((random_inputs(random_, random_.choice([1, 2, 9, 60])), settings))
    return made


def build_question(
    records: Sequence[RecordInput],
    settings: dict[str, Any],
    codec: int = 0,
    append_time_ms: int | None = None,
) -> str:
    kind = "CreateTime" if append_time_ms is None else "LogAppendTime"
    numbers = [
        codec, kind, -1 if append_time_ms is None else append_time_ms, settings["base_offset"], settings["producer_id"],
        settings["producer_epoch"], settings["base_sequence"], int(settings["transactional"]),
        settings["partition_leader_epoch"],
    ]  # fmt: skip
    return " ".join(["B", *map(str, numbers), *map(record_word, records)])


def table_of(records: Sequence[RecordInput]) -> pa.RecordBatch:
    lists = [[{"key": key, "value": value} for key, value in record.headers] for record in records]
    return pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.int64()),
            "headers": pa.array(lists, HEADERS_TYPE),
        }
    )


@pytest.mark.mission("LOG-10")
def test_uncompressed_batches_are_the_java_clients_byte_for_byte(oracle: Oracle) -> None:
    asked = cases(seed=1, count=300)
    answers = oracle.ask([build_question(records, settings) for records, settings in asked])
    for (records, settings), answer in zip(asked, answers, strict=True):
        assert build_batch(records, **settings).hex() == answer
        assert encode_batch(table_of(records), **settings).hex() == answer
        header = read_header(bytes.fromhex(answer))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
            settings["producer_id"],
            settings["producer_epoch"],
            settings["base_sequence"],
        )


def test_batches_stamped_by_the_broker_are_equal_too(oracle: Oracle) -> None:
    asked = cases(seed=2, count=50)
    answers = oracle.ask([build_question(records, settings, 0, 123_456) for records, settings in asked])
    for (records, settings), answer in zip(asked, answers, strict=True):
        ours = build_batch(
            records, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=123_456, **settings
        )
        assert ours.hex() == answer


def test_each_side_reads_what_the_other_compressed(oracle: Oracle) -> None:
    asked = [(records, settings, codec) for records, settings in cases(seed=3, count=30) for codec in CODECS]
    long_values = [RecordInput(None, random.Random(4).randbytes(999) + bytes(99_000), 5)] * 5  # Many blocks.
    asked += [(long_values, cases(seed=4, count=1)[0][1], codec) for codec in CODECS]
    theirs = oracle.ask([build_question(records, settings, codec) for records, settings, codec in asked])
    ours = [
        encode_batch(table_of(records), compression=codec, **settings) for records, settings, codec in asked
    ]
    read_by_kafka = oracle.ask([f"P {batch.hex()}" for batch in ours])
    for (_, _, codec), java, python, answer in zip(asked, theirs, ours, read_by_kafka, strict=True):
        batch = bytes.fromhex(java)
        header = read_header(batch)
        check_crc(batch, 0, header)
        assert header.compression == codec
        records = list(iter_records(batch, 0, header))
        assert list(iter_records(python, 0, read_header(python))) == records
        assert answer == read_answer(records)


def test_markers_are_kafkas_byte_for_byte(oracle: Oracle) -> None:
    random_ = random.Random(5)
    asked = [
        {
            "producer_id": random_.choice([0, 7, (1 << 63) - 1]),
            "producer_epoch": random_.choice([0, 32767]),
            "coordinator_epoch": random_.choice([-1, 0, (1 << 31) - 1]),
            "commit": random_.random() < 0.5,
            "timestamp_ms": random_.choice([0, 1_700_000_000_000]),
            "base_offset": random_.choice([0, 99]),
            "partition_leader_epoch": random_.choice([-1, 3]),
        }
        for _ in range(60)
    ]
    answers = oracle.ask([" ".join(["M", *(str(int(value)) for value in case.values())]) for case in asked])
    for case, answer in zip(asked, answers, strict=True):
        assert build_marker(**case).hex() == answer  # type: ignore[arg-type]  # a dict of keyword arguments


def test_nothing_damaged_is_accepted_that_kafka_refuses(oracle: Oracle) -> None:
    """Kafka is laxer in places (it drops bits that do not fit a number); where we accept, it must read the same."""
    random_ = random.Random(6)
    batches = [
        bytes(
            damaged(
                random_,
                build_batch(
                    random_inputs(random_, random_.randrange(1, 9)), compression=random_.choice(CODECS)
                ),
            )
        )
        for _ in range(2000)
    ]
    verdicts = {"both accept": 0, "both refuse": 0, "only Kafka accepts": 0}
    for batch, answer in zip(batches, oracle.ask([f"P {batch.hex()}" for batch in batches]), strict=True):
        try:
            check_shape(read_header(batch))
            records = list(iter_records(batch, 0, read_header(batch)))
        except (CorruptBatchError, UnsupportedCompressionError):
            verdicts["both refuse" if answer.startswith("R") else "only Kafka accepts"] += 1
            continue
        if any("\ufffd" in key for record in records for key, _ in record.headers):
            continue  # How many replacement characters stand for broken text is each library's own.
        assert answer == read_answer(records), batch.hex()
        verdicts["both accept"] += 1
    assert min(verdicts["both accept"], verdicts["both refuse"]) > 200, verdicts
