"""`semel log verify` finds what is wrong with files at rest, and finds nothing where nothing is.

Method: a log with several segments, aborted transactions and snapshots, written by the real code; then one byte, entry or
file of it changed at a time.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.errors import LogError
from semel.log.config import LogConfig
from semel.log.verification import Report, verify
from semel.runtime.files import RealFiles
from support.log.log_kit import NOW, batch_of, end, open_at, send

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)
FIRST = "00000000000000000000"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Ten segments or so: an idempotent producer, and a transactional one that commits and aborts in turn."""
    directory = tmp_path / "data" / "orders-0"
    log = open_at(RealFiles(), CONFIG, directory=str(directory))
    for number in range(60):
        send(log, batch_of(b"plain" * 10, producer_id=1, sequence=number, timestamp_ms=NOW + number))
        send(
            log,
            batch_of(
                b"txn" * 10, producer_id=2, sequence=number, transactional=True, timestamp_ms=NOW + number
            ),
        )
        end(log, 2, commit=number % 3 > 0)
    log.close(NOW)
    return directory


def check(path: Path) -> Report:
    return verify(RealFiles(), str(path))


def texts(path: Path) -> str:
    return "\n".join(f"{Path(one.path).name}: {one.text}" for one in check(path).findings)


def test_a_sound_log_has_no_findings(partition: Path) -> None:
    report = check(partition)
    assert report.findings == []
    assert (report.partitions, report.batches) == (1, 180)
    assert report.segments == len(list(partition.glob("*.log"))) > 3
    assert report.bytes == sum(path.stat().st_size for path in partition.glob("*.log"))


def test_a_leader_epoch_that_began_after_the_last_sync_is_no_flaw(partition: Path) -> None:
    """Its file is written with a sync; the batches say it as well, and a start believes them."""
    log = open_at(RealFiles(), CONFIG, directory=str(partition))
    send(log, batch_of(b"x"), leader_epoch=1)
    log.release()
    assert texts(partition) == ""


def test_nothing_is_changed_by_looking(partition: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()}
    check(partition)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()} == before


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def second_base(partition: Path) -> str:
    return sorted(partition.glob("*.log"))[1].stem


def _append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def _overwrite(path: Path, start: int, stop: int) -> None:
    data = bytearray(path.read_bytes())
    data[start:stop] = bytes(len(data[start:stop]))
    path.write_bytes(data)


def _repeat_first(partition: Path) -> None:
    path = partition / f"{FIRST}.log"
    data = path.read_bytes()
    length = 12 + int.from_bytes(data[8:12], "big")
    path.write_bytes(data + data[:length])


def _swap_snapshots(partition: Path) -> None:
    first, second, *_ = sorted(partition.glob("*.snapshot"))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def _cut_time_index(partition: Path) -> None:
    path = partition / f"{FIRST}.timeindex"
    path.write_bytes(path.read_bytes()[:-12])


Damage = Callable[[Path], object]
DAMAGES: list[tuple[str, Damage, str]] = [
    ("a byte of a record", lambda p: flip(p / f"{FIRST}.log", 90), r"position 0: .*checksum"),
    ("bytes behind the end", lambda p: _append(p / f"{FIRST}.log", b"rest"), "4 bytes from position"),
    ("a batch twice", _repeat_first, "offset 0 follows offset"),
    ("an index entry elsewhere", lambda p: flip(p / f"{FIRST}.index", 7), "no batch begins at position"),
    (
        "an offset in an index",
        lambda p: _overwrite(p / f"{FIRST}.index", 0, 4),
        "offset 0 points to position",
    ),
    ("a time index entry", lambda p: _overwrite(p / f"{FIRST}.timeindex", 0, 8), "the batch there has"),
    ("a time too early", lambda p: _overwrite(p / f"{FIRST}.timeindex", -12, -4), "does not follow"),
    (
        "half an entry",
        lambda p: _append(p / f"{FIRST}.timeindex", b"\1"),
        "not a whole number of 12-byte entries",
    ),
    ("a missing index", lambda p: (p / f"{FIRST}.index").unlink(), "index: it is missing"),
    (
        "a missing transaction index",
        lambda p: (p / f"{FIRST}.txnindex").unlink(),
        "abort of producer 2 at offset 2 is missing",
    ),
    ("a snapshot", lambda p: flip(p / f"{second_base(p)}.snapshot", 30), "checksum"),
    (
        "the snapshot of another time",
        _swap_snapshots,
        r"producer 1: it has \(epoch, last sequence",
    ),
    (
        "a snapshot beyond the end",
        lambda p: (p / f"{10**6:020d}.snapshot").write_bytes(b""),
        "but the log ends at 180",
    ),
    ("a missing segment end", _cut_time_index, "it ends with timestamp"),
]


@pytest.mark.parametrize(("damage", "finding"), [pytest.param(d, f, id=name) for name, d, f in DAMAGES])
def test_every_damage_is_found(partition: Path, damage: Damage, finding: str) -> None:
    damage(partition)
    assert re.search(finding, texts(partition)), texts(partition)


def test_a_data_directory_with_its_checkpoints(partition: Path) -> None:
    data = partition.parent
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 180\n")
    assert check(data).findings == []
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 181\n")
    assert "it says 181 of orders-0, whose log ends at 180: records are missing" in texts(data)
    (data / "recovery-point-offset-checkpoint").write_text("nonsense\n")
    assert "a checkpoint begins with version 0" in texts(data)


def test_a_directory_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="is not a log: name a partition's directory"):
        check(tmp_path)


def test_the_command_says_what_it_found(partition: Path) -> None:
    sound = CliRunner().invoke(cli, ["log", "verify", str(partition)])
    assert sound.exit_code == 0
    assert sound.output.startswith("1 partition, ")
    assert sound.output.endswith(": nothing is wrong\n")
    flip(partition / f"{FIRST}.log", 90)
    damaged = CliRunner().invoke(cli, ["log", "verify", str(partition.parent)])
    assert damaged.exit_code == 1
    assert f"{partition}/{FIRST}.log: position 0: " in damaged.output
    assert re.search(r": (1 finding|[2-9] findings)$", damaged.output.splitlines()[-1])
    assert CliRunner().invoke(cli, ["log", "verify", str(partition), "-o", "json"]).exit_code == 1
    assert CliRunner().invoke(cli, ["log", "verify", "/nowhere"]).exit_code == 2
