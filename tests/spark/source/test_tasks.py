"""An error of a task begins with the query and the batch it reads for."""

from typing import NoReturn

import pytest
from pyspark import TaskContext

from semel.errors import ErrorCode, RefusedError, SemelError
from semel.spark.source import reading
from semel.spark.source.options import SourceOptions
from semel.spark.source.ranges import lost
from semel.spark.source.tasks import RangePartition, read_task

OPTIONS = SourceOptions.of({"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"})
PROPERTIES = {"sql.streaming.queryId": "q-1", "streaming.sql.batchId": "7"}


class Context:
    """A task's, with the properties of its job."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.getLocalProperty = properties.get


@pytest.mark.parametrize(
    ("properties", "begins"),
    [(PROPERTIES, "query q-1, batch 7: orders-0"), ({}, "orders-0"), (None, "orders-0")],
)
@pytest.mark.parametrize(
    "error",
    [
        lost("orders-0 cannot be read"),
        RefusedError(ErrorCode.OFFSET_OUT_OF_RANGE, "orders-0 has no offset 3"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_names_query_and_batch(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str] | None, begins: str, error: SemelError
) -> None:
    def fails(*_given: object) -> NoReturn:
        raise error

    before = error.args
    monkeypatch.setattr(reading, "read_ranges", fails)
    monkeypatch.setattr(TaskContext, "get", lambda: None if properties is None else Context(properties))
    try:
        with pytest.raises(type(error)) as caught:
            list(read_task(RangePartition(()), OPTIONS))
        assert str(caught.value).startswith(begins)
        assert caught.value.code is error.code
    finally:
        error.args = before
