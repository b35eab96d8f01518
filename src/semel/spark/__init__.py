"""Semel in PySpark: the public names, nothing else.

They load lazily: a driver that only reads never imports the sink, and `import semel.spark` works without PySpark. No module
of this package has the name of a function in it, because importing a module takes its name.
"""

import importlib
from typing import TYPE_CHECKING, Final

from semel.spark.pyspark_extra import need_pyspark

if TYPE_CHECKING:
    from semel.spark.java import JavaMissingError
    from semel.spark.pipelines.changes import ChangeCapture
    from semel.spark.pipelines.database import DatabaseSink
    from semel.spark.pipelines.dead_letters import bad_rows, good_rows
    from semel.spark.pipelines.errors import PipelineError, TableError
    from semel.spark.pipelines.joins import join_within
    from semel.spark.pipelines.local_fold import LocalFold
    from semel.spark.pipelines.local_table import LocalTable
    from semel.spark.pipelines.rebuilding import TableQuery
    from semel.spark.pipelines.records import read, stream, to_records
    from semel.spark.pipelines.stateful import deduplicated, sessions, use_state_store, windows
    from semel.spark.pipelines.stateless import branch
    from semel.spark.pipelines.table import (
        count,
        create_changelog,
        largest,
        smallest,
        table,
        to_changelog,
        to_table,
        total,
    )
    from semel.spark.registration import register
    from semel.spark.schemas import from_registry, to_registry
    from semel.spark.sink.atomic.topic_sink import TopicSink
    from semel.spark.sink.common.errors import SinkRefusedError
    from semel.spark.source.progress import Lag, lag
    from semel.spark.spark_session import session

_HOMES: Final = {
    "ChangeCapture": "semel.spark.pipelines.changes",
    "DatabaseSink": "semel.spark.pipelines.database",
    "JavaMissingError": "semel.spark.java",
    "Lag": "semel.spark.source.progress",
    "LocalFold": "semel.spark.pipelines.local_fold",
    "LocalTable": "semel.spark.pipelines.local_table",
    "PipelineError": "semel.spark.pipelines.errors",
    "SinkRefusedError": "semel.spark.sink.common.errors",
    "TableError": "semel.spark.pipelines.errors",
    "TableQuery": "semel.spark.pipelines.rebuilding",
    "TopicSink": "semel.spark.sink.atomic.topic_sink",
    "bad_rows": "semel.spark.pipelines.dead_letters",
    "branch": "semel.spark.pipelines.stateless",
    "count": "semel.spark.pipelines.table",
    "create_changelog": "semel.spark.pipelines.table",
    "deduplicated": "semel.spark.pipelines.stateful",
    "from_registry": "semel.spark.schemas",
    "good_rows": "semel.spark.pipelines.dead_letters",
    "join_within": "semel.spark.pipelines.joins",
    "lag": "semel.spark.source.progress",
    "largest": "semel.spark.pipelines.table",
    "read": "semel.spark.pipelines.records",
    "register": "semel.spark.registration",
    "session": "semel.spark.spark_session",
    "sessions": "semel.spark.pipelines.stateful",
    "smallest": "semel.spark.pipelines.table",
    "stream": "semel.spark.pipelines.records",
    "table": "semel.spark.pipelines.table",
    "to_changelog": "semel.spark.pipelines.table",
    "to_records": "semel.spark.pipelines.records",
    "to_registry": "semel.spark.schemas",
    "to_table": "semel.spark.pipelines.table",
    "total": "semel.spark.pipelines.table",
    "use_state_store": "semel.spark.pipelines.stateful",
    "windows": "semel.spark.pipelines.stateful",
}

__all__ = [
    "ChangeCapture",
    "DatabaseSink",
    "JavaMissingError",
    "Lag",
    "LocalFold",
    "LocalTable",
    "PipelineError",
    "SinkRefusedError",
    "TableError",
    "TableQuery",
    "TopicSink",
    "bad_rows",
    "branch",
    "count",
    "create_changelog",
    "deduplicated",
    "from_registry",
    "good_rows",
    "join_within",
    "lag",
    "largest",
    "read",
    "register",
    "session",
    "sessions",
    "smallest",
    "stream",
    "table",
    "to_changelog",
    "to_records",
    "to_registry",
    "to_table",
    "total",
    "use_state_store",
    "windows",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'semel.spark' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError:
        need_pyspark()
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
