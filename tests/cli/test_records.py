"""`semel consume` and `semel produce` with everything a record has: formats, ranges, headers, tombstones, markers, files.

Method: an embedded broker, the commands as a user runs them. What one of them writes the other reads, and the topics are equal.
"""

import csv
import io
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet
import pytest

from semel import Broker, Consumer, Producer
from semel.cli.reading import Member
from semel.types import TopicPartition
from support.cli.commands import Commands

_SETTINGS: Final[dict[str, Any]] = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_RECORDS: Final[list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]] = [
    (b"k", b"plain", []),
    (None, b'with, "quotes"\nand a line', [("h", b"1"), ("h", None)]),
    (b"", b"", []),
    (b"gone", None, []),
    ("größer".encode(), "日本".encode(), [("ü", "ß".encode())]),
]
_PLACE: Final = [("partition", "ascending"), ("offset", "ascending")]
_BYTES: Final = (b"\xff", b"\x00\xfe", [("b", b"\xff")])


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(**_SETTINGS) as running:
        yield running


def by_partition(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda one: int(one["partition"]))


class Bytes(Commands):
    """Commands whose output is records."""

    def read(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        return self.done(*arguments, stdin=stdin).stdout_bytes

    def records(self, topic: str) -> list[dict[str, Any]]:
        """The records by partition: which partition comes first depends on answers of brokers."""
        lines = self.read("consume", topic, "-o", "jsonl").splitlines()
        return by_partition([json.loads(line) for line in lines])


@pytest.fixture
def semel(broker: Broker) -> Bytes:
    return Bytes(broker.bootstrap)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def full(broker: Broker, semel: Bytes, topic: str) -> str:
    """A topic of two partitions with records of every shape."""
    semel.read("topics", "create", topic, "--partitions", "2")
    fill(broker, topic)
    return topic


def fill(broker: Broker, topic: str, *more: Any) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number, (key, value, headers) in enumerate([*_RECORDS, *more]):
            producer.send(topic, value, key, number % 2, 1_767_225_600_123 + number, headers)


def content(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in one.items() if key not in ("topic", "offset")} for one in records]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
@pytest.mark.parametrize("through", ["file", "pipe"])
def test_what_consume_writes_produce_reads(
    broker: Broker, semel: Bytes, full: str, tmp_path: Path, form: str, through: str
) -> None:
    """A topic copied through each format is the same topic: nulls, empty texts, headers, times and partitions."""
    if form != "csv":
        fill(broker, full, _BYTES)
    copy = f"{full}-copy"
    semel.read("topics", "create", copy, "--partitions", "2")
    if through == "pipe":
        semel.read("produce", copy, "--input", form, stdin=semel.read("consume", full, "-o", form))
    else:
        file = str(tmp_path / f"records.{form}")  # Its end says the format.
        assert semel.read("consume", full, file) == b""
        assert [one.name for one in tmp_path.iterdir()] == [f"records.{form}"]
        semel.read("produce", copy, file)
    assert content(semel.records(copy)) == content(semel.records(full))


def test_other_programs_read_the_columns(semel: Bytes, full: str, tmp_path: Path) -> None:
    for form in ("parquet", "arrow"):
        semel.read("consume", full, str(tmp_path / f"r.{form}"))
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet").sort_by(_PLACE)
    assert table.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert table.column("value").to_pylist()[:2] == [b"plain", b""]
    assert pa.ipc.open_file(tmp_path / "r.arrow").read_all().sort_by(_PLACE).equals(table)
    rows = by_partition(list(csv.DictReader(io.StringIO(semel.read("consume", full, "-o", "csv").decode()))))
    assert [row["value"] for row in rows][:2] == ["plain", ""]
    assert rows[0]["timestamp"] == "2026-01-01T00:00:00.123Z"


def test_an_error_leaves_no_file(broker: Broker, semel: Bytes, full: str, tmp_path: Path) -> None:
    fill(broker, full, _BYTES)
    said = semel.failed("consume", full, str(tmp_path / "r.csv"))
    assert f"the key of {full}-1 at offset " in said
    assert "CSV has nothing else: use -o jsonl" in said
    assert list(tmp_path.iterdir()) == []
    assert "cannot be written: No such file" in semel.failed("consume", full, str(tmp_path / "no" / "r.csv"))


def test_json_is_one_document_and_jsonl_a_line_each(semel: Bytes, full: str, topic: str) -> None:
    array = by_partition(json.loads(semel.read("consume", full, "-o", "json")))
    assert array == semel.records(full)
    assert array[1]["headers"] == []
    assert array[0]["key"] == "k"
    assert json.loads(semel.read("consume", full, "-o", "json", "--offset", "latest")) == []


def test_ranges_and_ends(semel: Bytes, topic: str) -> None:
    semel.read("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(200)))

    def read(*arguments: str) -> list[int]:
        return [int(line) for line in semel.read("consume", topic, *arguments).split()]

    assert read("--offset", "-3") == [197, 198, 199]
    assert read("--offset", "-1000") == list(range(200))
    assert read("--offset", "96:100") == [96, 97, 98, 99]
    assert read("--offset", "198:end") == [198, 199]
    assert read("--offset", "197", "--until", "199") == [197, 198]
    assert read("--until", "2") == [0, 1]
    assert read("--until", "@2001-01-01") == []
    assert read("--until", "@2100-01-01", "--offset", "-1") == [199]
    assert read("--offset", "100:100") == []
    assert read("--follow", "--until", "2") == [0, 1]
    assert read("--offset", "-5", "-n", "2") == [195, 196]
    assert semel.read("consume", topic, "--offset", "-2", "-o", "csv").count(b"\n") == 3
    assert "both say where to end" in semel.refused("consume", topic, "--offset", "1:2", "--until", "3")
    assert "With --follow the end is an offset" in semel.refused(
        "consume", topic, "--follow", "--until", "@1"
    )


def test_headers_keys_and_tombstones_of_lines(semel: Bytes, topic: str) -> None:
    semel.read("produce", topic, "-k", "key", "-H", "a=1", "-H", "b", "-H", "c=x=y", "-Z", stdin=b"one\n\n")
    one, gone = semel.records(topic)
    assert (one["key"], one["value"], gone["key"], gone["value"]) == ("key", "one", "key", None)
    assert gone["headers"] == [
        {"name": "a", "value": "1"}, {"name": "b", "value": None}, {"name": "c", "value": "x=y"},
    ]  # fmt: skip
    table = semel.read("consume", topic, "-o", "table").decode().splitlines()
    assert [line.split()[3:] for line in table] == [
        ["KEY", "HEADERS", "VALUE"], ["key", "a=1,b,c=x=y", "one"], ["key", "a=1,b,c=x=y", "(tombstone)"],
    ]  # fmt: skip
    assert semel.read("consume", topic, "-f", r"%o %k %v %h\n", "--null", "NULL") == (
        b"0 key one a=1,b,c=x=y\n1 key NULL a=1,b,c=x=y\n"
    )
    assert semel.read("consume", topic, "--null", "(none)") == b"one\n(none)\n"
    semel.read("produce", topic, "--key-separator", ":", stdin=b"k:\n")
    assert semel.records(topic)[-1]["value"] == ""  # Without -Z an empty value is one.
    wide = semel.read("consume", topic, "-o", "wide", "--offset", "-1").decode().splitlines()
    assert wide[0].split()[:4] == ["TOPIC", "PARTITION", "OFFSET", "TIME"]


def test_control_records_stand_at_their_offsets(semel: Bytes, topic: str) -> None:
    semel.read("produce", topic, "-X", f"transactional.id={topic}", stdin=b"one\ntwo\n")
    semel.read("produce", topic, stdin=b"three\n")
    lines = [
        json.loads(line) for line in semel.read("consume", topic, "-o", "jsonl", "--control").splitlines()
    ]
    assert [(one["offset"], one.get("value", one.get("control"))) for one in lines] == [
        (0, "one"), (1, "two"), (2, "commit"), (3, "three"),
    ]  # fmt: skip
    assert "(commit of producer " in semel.read("consume", topic, "-o", "table", "--control").decode()
    assert len(semel.read("consume", topic, "-o", "jsonl", "--control", "--until", "3").splitlines()) == 3
    assert "--control needs -o table" in semel.refused("consume", topic, "--control")
    # A copy has no markers but those of its own.
    copied = semel.read("consume", topic, "-o", "jsonl", "--control")
    semel.read("produce", f"{topic}-copy", "--input", "jsonl", stdin=copied)
    assert [one["value"] for one in semel.records(f"{topic}-copy")] == ["one", "two", "three"]


def test_a_file_is_one_transaction_or_stored_up_to_the_mistake(
    semel: Bytes, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.jsonl"
    good = "".join(json.dumps({"value": "x" * 100}) + "\n" for _ in range(60_000))  # Several groups of lines.
    file.write_text(good + "nothing\n", encoding="utf-8")
    said = semel.failed("produce", topic, str(file), "-X", "transactional.id=files")
    assert said.startswith(f"{file}, line 60001: 'nothing' is not JSON")
    assert said.endswith("; nothing of it is committed")
    assert semel.read("consume", topic) == b""
    said = semel.failed("produce", topic, str(file))
    stored = len(semel.read("consume", topic, "-f", "%o\n").splitlines())
    assert stored > 0
    assert said.endswith(f"; {stored} rows before it are stored")


_CSV_HEAD: Final = "the first row of the file is 1, its columns' names"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("f.jsonl", b'{"value":"a"}\n{"value":\n', "f.jsonl, line 2: '{\"value\":' is not JSON: "),
        ("f.jsonl", b"[1]\n", "f.jsonl, line 1: '[1]' is not an object with key and value"),
        ("f.jsonl", b'{"key":"a"}\n', "f.jsonl, line 1, column value: it is missing; a tombstone has"),
        ("f.jsonl", b'{"value":"a","id":7}\n', "f.jsonl, line 1, column id: no record has it; "),
        ("f.jsonl", b'{"value":"a","timestamp":"soon"}\n', "f.jsonl, line 1, column timestamp: 'soon' is not a time"),
        ("f.jsonl", b'{"value":"a","partition":9}\n', "f.jsonl, line 1, column partition: 9 is not a partition of"),
        ("f.jsonl", b'{"value_base64":"?"}\n', "f.jsonl, line 1, column value: '?' is not base64"),
        ("f.jsonl", b'{"value":"a","headers":[{"value":"x"}]}\n', "line 1, column headers: {'value': 'x'} is not a header"),
        ("f.csv", b"key,value\na,b\nc\n", "f.csv: CSV parse error: Row #3: Expected 2 columns, got 1: c"),
        ("f.csv", b"value,partition\na,0\nb,x\n", "f.csv: In CSV column #1: Row #3: CSV conversion error to int32"),
        ("f.csv", b"value,partition\na,0\nb,9\n", "f.csv, row 3, column partition: 9 is not a partition of"),
        ("f.csv", b"value,timestamp\na,1\nb,soon\n", "f.csv, row 3, column timestamp: 'soon' is not a time"),
        ("f.csv", b"key\na\n", "f.csv, column value: it is missing; there are key"),
        ("f.csv", b"value,when\na,1\n", "f.csv, column when: no record has it; "),
        ("f.csv", b"value\n\xff\n", "f.csv: In CSV column #0: Row #2: CSV conversion error to string: invalid UTF8 data"),
        ("f.csv", b"", "f.csv: Empty CSV file"),
        ("f.parquet", b"PAR1 and so on", "f.parquet is not a whole file of parquet: "),
        ("f.arrow", b"ARROW1 and so on", "f.arrow is not a whole file of arrow: "),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named_with_its_place(
    semel: Bytes, topic: str, tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    error = semel.failed("produce", topic, str(tmp_path / name))
    assert said in error
    assert str(tmp_path / name) in error
    assert error.endswith(" stored")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": [1, 2]}, "column value has type int64: it must be bytes or text"),
        ({"value": ["a", "b"], "partition": [0, -1]}, "row 2, column partition: -1 is not a partition"),
        ({"value": ["a", "b"], "timestamp": [1, -5]}, "row 2, column timestamp: -5 is before 1970"),
        ({"value": ["a"], "headers": [[{"key": None, "value": b""}]]}, "row 1, column headers: a header has no key"),
        ({"value": ["a"], "id": [1]}, "column id: no record has it; "),
    ],
)  # fmt: skip
def test_a_mistake_in_columns_is_named_with_its_place(
    semel: Bytes, topic: str, tmp_path: Path, columns: dict[str, Any], said: str
) -> None:
    table = pa.table(columns)
    if "headers" in columns:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        table = table.set_column(1, "headers", pa.array(columns["headers"], kind))
    pyarrow.parquet.write_table(table, tmp_path / "f.parquet")
    error = semel.failed("produce", topic, str(tmp_path / "f.parquet"))
    assert said in error
    assert error.startswith(str(tmp_path / "f.parquet"))
    assert error.endswith("; nothing is stored")


def test_values_of_json_are_stored_as_json_and_columns_may_be_ignored(semel: Bytes, topic: str) -> None:
    lines = b'{"value":{"a":[1,"\xc3\xbc"]},"key":7,"id":1}\n\n{"value":true,"headers":{"n":"v"}}\n'
    said = json.loads(
        semel.read("produce", topic, "--input", "jsonl", "--ignore", "id", "-o", "json", stdin=lines)
    )
    assert said == {
        "topic": topic,
        "records": 2,
        "partitions": [{"partition": 0, "records": 2, "base_offset": 0}],
    }
    first, second = semel.records(topic)
    assert (first["key"], first["value"]) == ("7", '{"a":[1,"ü"]}')
    assert (second["value"], second["headers"]) == ("true", [{"name": "n", "value": "v"}])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("consume t --group g -o parquet", "a file of parquet is whole only at its end"),
        ("consume t f.csv --group g", "FILE appears only at the end"),
        ("consume t --group g --until 7", "With --group the group decides what is read"),
        ("consume t --group g -o table --control", "Control records belong to no group"),
        ("consume t -f %v -o json", "--format says all of how a record looks"),
        ("consume t -o json --null x", "--null is for values and --format"),
        ("consume t -o json --key-separator x", "--key-separator is for values"),
        ("produce t f.csv -k x", "--input has keys, headers, nulls and partitions in its columns"),
        ("produce t --ignore x", "--ignore passes over columns of --input, and lines have none"),
        ("produce t -k x --key-separator :", "--key is the key of every line"),
        ("produce t -H =x", "'=x' is not NAME=VALUE"),
    ],
)
def test_options_that_exclude_each_other(semel: Bytes, arguments: str, said: str) -> None:
    assert said in semel.refused(*arguments.split())


class _Late(Member):
    """A member to whose partition records are added right after it got it."""

    def __init__(self, consumer: Consumer, topic: str, bootstrap: str) -> None:
        self._add = (bootstrap, topic)
        super().__init__(consumer, topic, follow=False)

    def _assigned(self, partitions: Any) -> None:
        super()._assigned(partitions)
        bootstrap, topic = self._add
        Commands(bootstrap).done("produce", topic, stdin=b"late\n")


def test_a_group_commits_nothing_that_was_not_printed(broker: Broker, semel: Bytes, topic: str) -> None:
    """Records that come while a member reads are polled with the others; they were committed, and printed by nobody."""
    semel.read("produce", topic, stdin=b"early\n")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    printed = []
    with Consumer(settings | {"enable.auto.commit": False}) as consumer:
        reading = _Late(consumer, topic, broker.bootstrap)
        while not reading.is_over():
            records = consumer.poll(500)
            for record in records:
                if reading.wants(record.topic_partition, record.offset):
                    printed.append(record.value)
                    reading.printed(record)
            reading.all_printed(records.partitions())
        reading.end()
        committed = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert printed == [b"early", b"late"]
    assert committed is not None
    assert committed.offset == 2
