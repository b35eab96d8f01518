"""The lines of a process's log: text for people, JSON for programs.

Role.   `write_log` sends every logger's records to one stream, in one of two formats.
Flow.   A command calls it once, before its work begins. Levels can change later: `broker.loggers` does so for Kafka's clients.
Rules.  * Every time has milliseconds and its offset from UTC.
        * A message is one line: control characters in it are escaped, because names come from clients. In JSON a traceback is
          part of its line as well.
        * Fields of a JSON line are the record's `extra`, and `topic` and `partition` of a partition among its arguments. A field
          never replaces `time`, `level`, `logger`, `message` or `exception`.
"""

import json
import logging
import sys
import threading
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, TextIO, TypeAlias

from semel.types import TopicPartition

LogFormat: TypeAlias = Literal["text", "json"]

_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName"}
"""Attributes that every record has; all others came as `extra`."""
_RESERVED: Final = frozenset({"time", "level", "logger", "message", "exception"})
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
_logger = logging.getLogger(__name__)


def write_log(
    form: LogFormat, levels: Mapping[str, int], stream: TextIO, *, level: int = logging.INFO
) -> None:
    """Log to `stream` from now on; `levels` are those of single loggers, `level` is everybody else's."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, own in levels.items():
        logging.getLogger(name).setLevel(own)
    if form == "json":
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_on_thread


class TextLines(logging.Formatter):
    """2026-03-01T12:00:00.000+01:00 WARNING semel.log.recovery: the message, and a traceback on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        """As `logging` calls it."""
        return _time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """As `logging` calls it."""
        record.message = record.message.translate(_CONTROL)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """One object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging` calls it."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in _fields(record).items() if name not in _RESERVED}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # ASCII: it is the same bytes in every locale.


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for argument in record.args if isinstance(record.args, tuple) else ():
        if isinstance(argument, TopicPartition):
            fields |= {"topic": argument.topic, "partition": argument.partition}
            break
    return fields | {name: value for name, value in vars(record).items() if name not in _RECORD}


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _logger.critical("the process ends by an error nobody expected: %s", error, exc_info=(kind, error, trace))


def _log_uncaught_on_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None and not issubclass(arguments.exc_type, SystemExit):
        trace = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
        name = "an unknown one" if arguments.thread is None else arguments.thread.name
        _logger.error("thread %s ends by an error: %s", name, arguments.exc_value, exc_info=trace)
