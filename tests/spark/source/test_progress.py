"""How far a query is behind, read from the progress Spark reports."""

from typing import Any

from semel.spark.source.progress import lag
from semel.types import TopicPartition


def progress(*sources: tuple[Any, Any]) -> dict[str, Any]:
    return {"sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources]}


def test_a_query_is_behind_by_the_offsets_it_has_not_read() -> None:
    behind = lag(progress(('{"a": {"0": 5, "1": 9}}', '{"a": {"0": 8, "1": 9}}')))
    assert behind.by_partition == {TopicPartition("a", 0): 3, TopicPartition("a", 1): 0}
    assert behind.total == 3
    assert behind.metrics() == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "3",
        "avgOffsetsBehindLatest": "1.5",
    }


def test_where_a_first_batch_began_is_no_topic() -> None:
    end = '{"a": {"0": 5}, "first batch began at": {"a": {"0": 2}}}'
    assert lag(progress((end, '{"a": {"0": 5}}'))).by_partition == {TopicPartition("a", 0): 0}


def test_other_sources_and_empty_progress_have_no_lag() -> None:
    assert (
        lag(progress(("7", "9"), (None, None), ("x", "y"), ('{"rows": 3}', '{"rows": 3}'))).by_partition == {}
    )
    assert lag({"sources": []}).metrics() == {}


def test_a_partition_that_has_just_come_up_is_wholly_behind() -> None:
    assert lag(progress((None, '{"a": {"0": 4}}'))).total == 4


def test_a_query_is_asked_for_its_last_progress() -> None:
    class Query:
        lastProgress = None  # noqa: N815 - Spark's name.

    assert lag(Query()).total == 0  # type: ignore[arg-type]  # a query that has no progress yet
