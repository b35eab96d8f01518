"""`semel log dump`: files shown in Kafka's words, mistakes answered with a way out.

Method: a small log on the real disk, and the command run as a user runs it.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.runtime.files import RealFiles
from support.log.log_kit import NOW, batch_of, end, open_at, send


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log = open_at(RealFiles(), directory=str(tmp_path / "orders-0"))
    send(log, batch_of(b"hello", producer_id=12345, sequence=100, transactional=True))
    end(log, 12345, commit=True)
    log.close(NOW)
    return tmp_path / "orders-0"


def test_every_record_shows_producer_partition_and_sequence(directory: Path) -> None:
    path = directory / "00000000000000000000.log"
    result = CliRunner().invoke(cli, ["log", "dump", "--files", str(path), "--print-data-log"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"Dumping {path}"
    assert "orders-0" in lines[0]
    assert "baseSequence: 100 lastSequence: 100 producerId: 12345 producerEpoch: 0" in lines[2]
    assert lines[3].endswith("sequence: 100 headerKeys: [] key: k payload: hello")
    assert lines[5].endswith("endTxnMarker: COMMIT coordinatorEpoch: 0")


def test_several_files_by_comma_or_by_argument(directory: Path) -> None:
    log, index = (str(directory / f"00000000000000000000.{kind}") for kind in ("log", "index"))
    by_comma = CliRunner().invoke(cli, ["log", "dump", "--files", f"{log},{index}"])
    by_argument = CliRunner().invoke(cli, ["log", "dump", log, index])
    assert by_comma.exit_code == by_argument.exit_code == 0
    assert by_comma.output == by_argument.output
    assert by_comma.output.count("Dumping ") == 2
    assert "| offset" not in by_comma.output


def test_a_damaged_file_is_shown_as_far_as_it_goes(directory: Path) -> None:
    path = directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data + b"rest")
    result = CliRunner().invoke(cli, ["log", "dump", str(path), "--deep-iteration"])
    assert result.exit_code == 0
    assert "isvalid: false" in result.output
    assert "the checksum does not hold" in result.output
    assert "Found 4 invalid bytes at the end" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one file"),
        (["--files", "/nowhere.log"], "/nowhere.log is not a file that can be read"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["log", "dump", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_a_file_of_another_kind_names_the_kinds_there_are(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    result = CliRunner().invoke(cli, ["log", "dump", str(path)])
    assert result.exit_code == 1
    assert ".txnindex" in str(result.exception)
