"""Mistakes at the command line: commands, options, addresses, names, files; refused with an exit code and a sentence.

Method: a table; every row is a command line of the real command, in this process, beside a real broker.
"""

import io
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from semel import Broker
from semel.cli.main import main
from support.client.mistakes_kit import DEAD, SOON_SECONDS

USAGE, FAILED = 2, 1
_GENEROUS: Final = 10
_FILES: Final = {
    "wrong.properties": "num.partition=3\n",
    "lines.properties": "no equal sign here\n",
    "text.json": "{not json\n",
    "empty/keep": "",
}


@dataclass(frozen=True)
class Line:
    """One row. `HERE` is the broker, `DIR` a directory with files."""

    words: str
    code: int
    wrong: tuple[str, ...]
    do: str


LINES: Final = (
    Line("frobnicate", USAGE, ("frobnicate",), "semel --help"),
    Line("topics lst -b HERE", USAGE, ("'lst'",), "'list'"),
    Line("groups lst -b HERE", USAGE, ("'lst'",), "'list'"),
    Line("--verson", USAGE, ("--verson",), "--version"),
    Line(f"topics list -b {DEAD}", FAILED, (DEAD,), "start one with 'semel broker'"),
    Line("topics list -b localhost", FAILED, ("'localhost'",), "use HOST:PORT"),
    Line("topics list -b localhost:http", FAILED, ("'localhost:http'",), "use HOST:PORT"),
    Line("topics create -b HERE", USAGE, ("TOPIC",), "semel topics create --help"),
    Line("topics create my_topic! -b HERE", FAILED, ("'my_topic!'",), "ASCII alphanumerics"),
    Line("topics create orders -b HERE", FAILED, ("'orders'",), "already exists"),
    Line("topics create new --partitions 0 -b HERE", USAGE, ("'--partitions'", "'0'"), "from 1 on"),
    Line("topics create new --partitions many -b HERE", USAGE, ("'--partitions'", "'many'"), "from 1 on"),
    Line("topics create new --replication-factor 3 -b HERE", FAILED, ("'new'", "3 time(s)"), "only 1 broker(s)"),
    Line("topics create new --config retention.sm=1 -b HERE", FAILED, ("'new'",), "retention.sm"),
    Line("topics create new --config retention.ms -b HERE", USAGE, ("'retention.ms'",), "key=value"),
    Line("topics delete absent -b HERE", FAILED, ("absent",), "semel topics list"),
    Line("topics describe absent -b HERE", FAILED, ("absent",), "semel topics create absent"),
    Line("produce -b HERE", USAGE, ("TOPIC",), "semel produce --help"),
    Line("produce my_topic! -b HERE", FAILED, ("'my_topic!'",), "letters, digits"),
    Line(f"produce orders -b {DEAD}", FAILED, (DEAD,), "start one with 'semel broker'"),
    Line("produce orders --acks 2 -b HERE", USAGE, ("'--acks'", "'2'"), "'all', '1', '0'"),
    Line("produce orders -X linger=5 -b HERE", FAILED, ("linger",), "did you mean linger.ms?"),
    Line("produce orders -X linger.ms -b HERE", USAGE, ("'linger.ms'",), "key=value"),
    Line("produce orders -X linger.ms=soon -b HERE", FAILED, ("soon", "linger.ms"), "number"),
    Line("produce orders --partition 9 -b HERE", USAGE, ("--partition", "orders"), "partitions 0 to 1"),
    Line("consume -b HERE", USAGE, ("TOPIC",), "semel consume --help"),
    Line("consume absent -b HERE", FAILED, ("absent",), "semel topics list"),
    Line("consume orders --partition 9 -b HERE", USAGE, ("--partition", "orders"), "partitions 0 to 1"),
    Line("consume orders --offset @noon -b HERE", USAGE, ("'--offset'", "'@noon'"), "@2026-01-31T12:00:00Z"),
    Line("consume orders -n -3 -b HERE", USAGE, ("-3",), "x>=1"),
    Line(f"consume orders -b {DEAD}", FAILED, (DEAD,), "start one with 'semel broker'"),
    Line("consume orders -X auto.offset.reset=first -b HERE", FAILED, ("first", "auto.offset.reset"), "'earliest', 'latest'"),
    Line("groups describe nope -b HERE", FAILED, ("nope",), "semel groups list"),
    Line("groups delete nope -b HERE", FAILED, ("nope",), "semel groups list"),
    Line("groups describe -b HERE", USAGE, ("GROUP",), "semel groups describe --help"),
    Line("offsets show nope -b HERE", FAILED, ("nope",), "semel groups list"),
    Line("offsets reset nope -b HERE", USAGE, ("Say where to",), "--to"),
    Line("offsets reset nope --to sometime --topic orders -b HERE", USAGE, ("'--to'", "'sometime'"), "earliest, latest"),
    Line("offsets import nope DIR/text.json -b HERE", FAILED, ("text.json, line 1",), "use TOPIC,PARTITION,OFFSET"),
    Line("offsets import nope DIR/none.csv -b HERE", USAGE, ("none.csv",), "does not exist"),
    Line("configs set retention.ms -b HERE", USAGE, ("'retention.ms'",), "key=value"),
    Line("txn describe nope -b HERE", FAILED, ("nope",), "semel txn list"),
    Line("txn list --state Happy -b HERE", USAGE, ("'--state'", "'Happy'"), "'Ongoing'"),
    Line("log dump DIR/none.log", USAGE, ("none.log",), "file that can be read"),
    Line("log dump DIR/wrong.properties", FAILED, ("wrong.properties",), "expected a name like 00000000000000000000.log"),
    Line("log verify DIR/empty", FAILED, ("empty is not a log",), "name a partition's directory"),
    Line("broker --listen nowhere", USAGE, ("--listen", "'nowhere'"), "as 127.0.0.1:9092"),
    Line("broker --config DIR/none.properties", FAILED, ("none.properties",), "cannot be read"),
    Line("broker --config DIR/wrong.properties", FAILED, ("num.partition",), "did you mean num.partitions?"),
    Line("broker --config DIR/lines.properties", FAILED, ("lines.properties, line 1", "'no equal sign here'"), "key=value"),
    Line("broker --metrics 9090", USAGE, ("metrics=9090",), "as 127.0.0.1:9404"),
    Line("broker -X num.partitions=many", FAILED, ("many", "num.partitions"), "number"),
    Line(f"doctor -b {DEAD}", FAILED, (DEAD,), "start one with 'semel broker'"),
    Line("bench brokr", USAGE, ("'brokr'",), "there are broker"),
    Line("bench broker --against nowhere", USAGE, ("--against", "'nowhere'"), "as 127.0.0.1:9092"),
    Line("bench broker --pairs 0", USAGE, ("'--pairs'", "0"), "1<=x"),
    Line("bench --page DIR/none", USAGE, ("none",), "does not exist"),
    Line("demo --story shops", USAGE, ("'shops'",), "'shop', 'records'"),
    Line("demo --orders 5", USAGE, ("'--orders'", "5"), "1000<=x"),
    Line("demo --picture DIR/none/x.html", USAGE, ("'--picture'", "there is no directory"), "make it, or write elsewhere"),
    Line("verify everything", USAGE, ("'everything'",), "'idempotence', 'transactions'"),
    Line("verify --seconds 0", USAGE, ("'--seconds'", "0"), "1<=x"),
    Line("verify --fault flood", USAGE, ("'flood'",), "'network'"),
    Line("verify --judge DIR/none", USAGE, ("none",), "does not exist"),
    Line("verify --judge DIR/text.json", FAILED, ("line 1", "{not json"), "event of a history"),
    Line("verify --html DIR/none/x.html", USAGE, ("'--html'", "there is no directory"), "make it, or write elsewhere"),
    Line("verify --json DIR/none/x.json", USAGE, ("'--json'", "there is no directory"), "make it, or write elsewhere"),
    Line("verify --history DIR/none/x", USAGE, ("'--history'", "there is no directory"), "make it, or write elsewhere"),
    Line("verify --sim --story nothing", USAGE, ("'nothing'",), "there are bursts"),
    Line(f"verify --seconds 1 --against {DEAD}", FAILED, (DEAD,), "start one with 'semel broker'"),
    Line("verify --against HERE --fault kill", FAILED, ("kill",), "choose other faults"),
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    for name, text in _FILES.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    (directory / "empty" / "keep").unlink()
    return directory


@pytest.fixture(autouse=True)
def no_log_of_an_earlier_command() -> Iterator[None]:
    """A command logs to the standard error of its process, which here is a row's."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("line", LINES, ids=lambda one: one.words.replace(" -b HERE", ""))
def test_a_mistake_at_the_command_line(
    line: Line,
    files: Path,
    patient_broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = line.words.replace("HERE", patient_broker.bootstrap).replace("DIR", str(files)).split()
    monkeypatch.setattr("sys.argv", ["semel", *words])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    began = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        main()
    took = time.monotonic() - began
    said = capsys.readouterr().err
    assert ended.value.code == line.code, said
    for word in (*line.wrong, line.do):
        assert word in said, f"{word!r} is missing in: {said}"
    assert "Traceback" not in said
    assert took < _GENEROUS * SOON_SECONDS
