"""`semel schema` beside a real registry's answers, as a person calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from semel.cli.main import cli
from semel.errors import SemelError
from semel.exceptions import SerializationException
from support.schemas.examples import BASKET_PROTO, ORDER_1, ORDER_2, ORDER_BROKEN, ORDER_PROTO
from support.schemas.fixtures import registry_url as registry_url  # noqa: PLC0414 - a fixture.

IGNORED = [part for name in ("topic", "offset") for part in ("--ignore", name)]


def semel(*arguments: str, registry: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["schema", *arguments, "-r", registry], input=text)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (
        ("one.avsc", ORDER_1),
        ("two.avsc", ORDER_2),
        ("broken.avsc", ORDER_BROKEN),
        ("order.proto", ORDER_PROTO),
        ("basket.proto", BASKET_PROTO),
        ("empty.avsc", " "),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.avsc").write_bytes(b"\xff")
    return tmp_path


def test_a_schema_s_life(registry_url: str, files: Path) -> None:
    def call(*arguments: str) -> Result:
        return semel(*arguments, registry=registry_url)

    registered = call("register", "cli-value", str(files / "one.avsc"))
    assert registered.output.startswith("cli-value version 1 has schema id ")
    assert call("register", "cli-value", str(files / "one.avsc")).output == registered.output
    schema_id = registered.output.split()[-1]
    document = json.loads(call("register", "cli-value", str(files / "two.avsc"), "-o", "json").output)
    assert (document["subject"], document["version"], document["type"]) == ("cli-value", 2, "AVRO")
    assert json.loads(call("get", "cli-value").output) == json.loads(ORDER_2)
    assert json.loads(call("get", "cli-value", "--version", "1").output) == json.loads(ORDER_1)
    assert json.loads(call("get", schema_id).output) == json.loads(ORDER_1)
    shown = json.loads(call("get", schema_id, "--id", "-o", "json").output)
    assert (shown["id"], shown["subject"]) == (int(schema_id), None)
    listed = call("list").output.splitlines()
    assert listed[0].split() == ["SUBJECT", "VERSION", "ID", "TYPE"]
    assert ["cli-value", "2", str(document["id"]), "AVRO"] in [line.split() for line in listed]
    assert call("delete", "cli-value", "--version", "1").output.startswith(
        "deleted cli-value version 1; its schemas"
    )
    assert call("delete", "cli-value").exit_code == 0
    assert call("delete", "cli-value", "--permanent").output.strip().endswith("for good")


def test_a_check_says_whether_a_schema_may_follow(registry_url: str, files: Path) -> None:
    from semel.schema import SchemaRegistryClient

    semel("register", "cli-check", str(files / "one.avsc"), registry=registry_url)
    SchemaRegistryClient(registry_url).set_compatibility("cli-check", "BACKWARD")
    good = semel("check", "cli-check", str(files / "two.avsc"), registry=registry_url)
    assert (good.exit_code, good.output) == (0, "compatible with cli-check, whose level is BACKWARD\n")
    bad = semel("check", "cli-check", str(files / "broken.avsc"), "-o", "json", registry=registry_url)
    assert bad.exit_code == 1
    assert json.loads(bad.output)["compatible"] is False


def test_a_file_that_uses_another(registry_url: str, files: Path) -> None:
    semel("register", "cli-order", str(files / "order.proto"), registry=registry_url)
    reference = ("--reference", "order.proto=cli-order:1")
    made = semel(
        "register", "cli-basket", str(files / "basket.proto"), *reference, "-o", "json", registry=registry_url
    )
    assert json.loads(made.output)["references"] == [
        {"name": "order.proto", "subject": "cli-order", "version": 1}
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["register", "a", "-"], "may be anything: end its name with"),
        (["register", "a", "empty.avsc"], "is empty"),
        (["register", "a", "binary.avsc"], "is no text in UTF-8"),
        (["check", "a", "one.avsc", "--reference", "x"], "'x' is no NAME=SUBJECT:VERSION"),
        (["get", "a", "--version", "0"], "'0' is neither a number from 1 on nor 'latest'"),
        (["get", "a", "--id"], "--id takes a number"),
    ],
)
def test_a_mistake_is_said_without_a_registry(files: Path, arguments: list[str], said: str) -> None:
    given = [str(files / one) if one.endswith("avsc") else one for one in arguments]
    result = semel(*given, registry="http://127.0.0.1:1", text="{}")
    assert result.exit_code == 2
    assert said in result.output


def test_lines_are_written_and_printed_with_their_schema(
    registry_url: str, files: Path, semel_broker: Any, semel_topic: str
) -> None:
    """The topic's name is new each time, and its subject would not be in the recording: a schema's id is given instead."""
    runner = CliRunner()
    made = semel("register", "cli-lines", str(files / "two.avsc"), "-o", "json", registry=registry_url)
    schema_id = str(json.loads(made.output)["id"])
    reach = ["-b", semel_broker.bootstrap, "-r", registry_url]
    lines = '1:{"id": 7, "note": "ü"}\n2:{"id": 8}\n3:\n'
    written = runner.invoke(
        cli,
        ["produce", semel_topic, *reach, "--schema", schema_id, "--key-separator", ":", "-Z"],
        input=lines,
    )
    assert written.exit_code == 0, written.output
    plain = runner.invoke(cli, ["produce", semel_topic, *reach[:2]], input="plain\n")
    assert plain.exit_code == 0, plain.output

    def consumed(*arguments: str) -> str:
        return runner.invoke(cli, ["consume", semel_topic, *reach, "--key-separator", " ", *arguments]).output

    shown = '1 {"id":7,"note":"ü"}\n2 {"id":8,"note":null}\n3 \n plain\n'
    assert consumed() == shown
    assert consumed("--decode", "auto") == shown
    objects = [
        json.loads(line)
        for line in runner.invoke(cli, ["consume", semel_topic, *reach, "-o", "jsonl"]).output.splitlines()
    ]
    assert [one["value"] for one in objects] == [
        {"id": 7, "note": "ü"},
        {"id": 8, "note": None},
        None,
        "plain",
    ]
    again = runner.invoke(
        cli,
        ["produce", semel_topic, *reach, "--schema", schema_id, "--input", "jsonl", *IGNORED],
        input=json.dumps(objects[0]) + "\n",
    )
    assert again.exit_code == 0, again.output
    assert consumed("--offset", "4") == '1 {"id":7,"note":"ü"}\n'
    assert consumed("--decode", "none").startswith(f"1 \0\0\0\0{chr(int(schema_id))}")
    failed = runner.invoke(cli, ["consume", semel_topic, *reach, "--decode", "avro"])
    assert isinstance(failed.exception, SerializationException)
    assert "-0 at offset 3 cannot be decoded: the bytes begin with b'plain'" in str(failed.exception)
    other = runner.invoke(cli, ["consume", semel_topic, *reach, "--decode", "protobuf"])
    assert "is a schema of Avro, not of Protobuf" in str(other.exception)


def test_a_line_that_does_not_fit_its_schema_is_not_written(
    registry_url: str, files: Path, semel_broker: Any, semel_topic: str
) -> None:
    made = semel("register", "cli-wrong", str(files / "one.avsc"), "-o", "json", registry=registry_url)
    schema = ["--schema", str(json.loads(made.output)["id"])]
    reach = ["-b", semel_broker.bootstrap, "-r", registry_url]
    for line, said in (('{"id": "x"}', "is no value of the Avro schema"), ("{", "is not JSON")):
        result = CliRunner().invoke(cli, ["produce", semel_topic, *reach, *schema], input=line + "\n")
        assert isinstance(result.exception, SemelError)
        assert said in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--schema", "nothing"], "give a file (.avsc, .proto, .json), an id, or latest"),
        (["--schema", "a.txt"], "give a file"),
        (["--message", "Order"], "--message names a message of --schema, which is missing"),
    ],
)
def test_a_schema_that_is_none_is_said_before_anything_is_asked(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["produce", "orders", "-b", "127.0.0.1:1", *arguments], input="")
    assert result.exit_code == 2
    assert said in result.output
