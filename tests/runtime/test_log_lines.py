"""Every record of a log is one line that says when, how bad, from where; JSON lines are objects with the record's fields.

Method: records formatted by each format, with messages and fields from anywhere, because clients choose names; the process-wide
hooks in a process of its own.
"""

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.runtime.log_lines import JsonLines, TextLines
from semel.types import TopicPartition


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("semel.log").makeRecord(
        "semel.log", logging.WARNING, "file.py", 1, message, arguments, None, extra=extra
    )
    made.created = datetime(2026, 3, 1, 12, 30, 0, 123_456, UTC).timestamp()
    return made


def test_a_line_of_text_has_the_offset_from_utc() -> None:
    line = TextLines().format(record("%s is damaged", TopicPartition("orders", 3)))
    when, rest = line.split(" ", 1)
    assert rest == "WARNING semel.log: orders-3 is damaged"
    assert datetime.fromisoformat(when) == datetime(2026, 3, 1, 12, 30, 0, 123_000, UTC)
    assert datetime.fromisoformat(when).utcoffset() is not None


@pytest.mark.parametrize(("zone", "suffix"), [("UTC0", "+00:00"), ("XXX-5:30", "+05:30"), ("XXX3", "-03:00")])
def test_times_are_local_in_every_zone(zone: str, suffix: str) -> None:
    script = (
        "import logging, sys\n"
        "from semel.runtime.log_lines import write_log\n"
        "write_log('json', {}, sys.stderr)\n"
        "logging.getLogger('x').info('y')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"TZ": zone},
        timeout=60,
    )
    when = datetime.fromisoformat(json.loads(done.stderr)["time"])
    assert done.stderr.split('"')[3].endswith(suffix)
    assert abs(when.astimezone(timezone(timedelta(0))) - datetime.now(UTC)) < timedelta(minutes=5)


def test_json_names_partition_and_extra_fields() -> None:
    line = json.loads(
        JsonLines().format(record("%s: %d", TopicPartition("orders", 3), 7, producer_id=9, peer="10.0.0.1:4"))
    )
    assert datetime.fromisoformat(line.pop("time")) == datetime(2026, 3, 1, 12, 30, 0, 123_000, UTC)
    assert line == {
        "level": "WARNING",
        "logger": "semel.log",
        "message": "orders-3: 7",
        "topic": "orders",
        "partition": 3,
        "producer_id": 9,
        "peer": "10.0.0.1:4",
    }


def test_a_field_never_replaces_what_every_line_has() -> None:
    line = json.loads(JsonLines().format(record("right", time="wrong", level="wrong", exception="wrong")))
    assert (line["message"], line["level"]) == ("right", "WARNING")
    assert "wrong" not in line.values()


def test_an_error_is_part_of_its_line() -> None:
    try:
        raise ZeroDivisionError("the cause")
    except ZeroDivisionError as error:
        made = record("failed")
        made.exc_info = (ZeroDivisionError, error, error.__traceback__)
    text = JsonLines().format(made)
    assert "\n" not in text
    assert json.loads(text)["exception"].endswith("ZeroDivisionError: the cause")


@given(
    message=st.text(),
    fields=st.dictionaries(
        st.text("abcdefgh_", min_size=1), st.one_of(st.text(), st.integers(), st.binary(), st.none())
    ),
)
def test_every_record_is_one_line(message: str, fields: dict[str, object]) -> None:
    made = record("%s", message, **{f"x_{name}": value for name, value in fields.items()})
    assert len(TextLines().format(made).splitlines()) == 1
    line = JsonLines().format(made)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    read = json.loads(line)
    assert read["message"] == message
    assert read.keys() >= {f"x_{name}" for name in fields}


def test_levels_of_single_loggers_and_errors_nobody_caught() -> None:
    script = (
        "import logging, sys, threading, warnings\n"
        "from semel.runtime.log_lines import write_log\n"
        "write_log('json', {'semel.net': logging.DEBUG, 'semel.log': logging.ERROR}, sys.stderr, level=logging.WARNING)\n"
        "logging.getLogger('semel.net.listener').debug('shown')\n"
        "logging.getLogger('semel.log').warning('hidden')\n"
        "logging.getLogger('semel.broker').info('hidden')\n"
        "warnings.warn('odd')\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='t')\n"
        "thread.start()\n"
        "thread.join()\n"
        "raise ValueError('nobody\\ncaught it')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(one["level"], one["logger"]) for one in lines] == [
        ("DEBUG", "semel.net.listener"),
        ("WARNING", "py.warnings"),
        ("ERROR", "semel.runtime.log_lines"),
        ("CRITICAL", "semel.runtime.log_lines"),
    ]
    assert "UserWarning: odd" in lines[1]["message"]
    assert lines[2]["message"] == "thread t ends by an error: division by zero"
    assert "nobody\ncaught it" in lines[3]["message"]
    assert "Traceback" in lines[3]["exception"]
    assert done.returncode == 1
