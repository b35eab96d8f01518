"""Every refusal of a sink is one exported error, with reason and way out, and survives the way between Spark's processes."""

import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

import semel.spark
from semel.exceptions import (
    ConfigException,
    IllegalArgumentException,
    IllegalStateException,
    KafkaException,
    UnsupportedVersionException,
)
from semel.spark.sink.common.errors import (
    AllocationRefusedError,
    CallRefusedError,
    ColumnsRefusedError,
    ConnectRefusedError,
    LedgerError,
    ModeRefusedError,
    SinkRefusedError,
    SinkStaysError,
)

EARLIER: dict[type[SinkRefusedError], type[Exception]] = {
    SinkRefusedError: KafkaException,
    ColumnsRefusedError: IllegalArgumentException,
    ModeRefusedError: IllegalArgumentException,
    AllocationRefusedError: ConfigException,
    CallRefusedError: IllegalStateException,
    SinkStaysError: pickle.PickleError,
    ConnectRefusedError: UnsupportedVersionException,
    LedgerError: KafkaException,
}
"""Refusal -> the class by which programs caught it before there was one tree."""


def subclasses(kind: type[SinkRefusedError]) -> Iterator[type[SinkRefusedError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from subclasses(one)


def test_the_exported_error_is_the_root_of_all() -> None:
    assert semel.spark.SinkRefusedError is SinkRefusedError
    assert set(subclasses(SinkRefusedError)) == set(EARLIER)


@pytest.mark.parametrize("kind", EARLIER)
def test_a_refusal_has_a_reason_and_a_way_out_and_crosses_processes(kind: type[SinkRefusedError]) -> None:
    refusal = kind("sink orders, query q, batch 7, topic t: the reason", "the way out")
    assert isinstance(refusal, EARLIER[kind])
    assert str(refusal) == "sink orders, query q, batch 7, topic t: the reason: the way out"
    refusal.add_note("a note")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(refusal, protocol))
        assert type(again) is kind
        assert (again.reason, again.way_out, str(again)) == (refusal.reason, refusal.way_out, str(refusal))
        assert again.code is refusal.code
        assert again.__notes__ == ["a note"]


_WORKER = """
import sys
import semel.spark.data_source, semel.spark.sink.atomic.task_writer, semel.spark.sink.dropin.writers
found = [name for name in sys.modules if name.startswith(("semel.broker", "semel.cluster", "semel.log", "semel.embedded"))]
assert not found, found
"""


def test_a_worker_that_loads_sinks_and_source_loads_no_broker() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WORKER], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
