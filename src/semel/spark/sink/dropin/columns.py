"""The columns the drop-in sink takes: those of Spark's own Kafka sink, and timestamp."""

from typing import Final

from semel.spark.sink.common.rows import HEADERS, VOID, ColumnRules

RULES: Final = ColumnRules(
    types={
        "key": ("string", "binary", VOID),
        "value": ("string", "binary"),
        "topic": ("string",),
        "partition": ("int", VOID),
        "headers": (HEADERS, VOID),
        "timestamp": ("timestamp", "timestamp_ntz", VOID),
    },
    one_topic="option('topic', 'name')",
    whole_rows="to_json(struct('*')).alias('value')",
)
