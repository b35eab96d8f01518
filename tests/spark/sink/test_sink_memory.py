"""The Python worker of a sink needs no more memory for many rows than for few.

Method: the task writers of both sinks, each in a process of its own, on a broker. A first write fills every buffer
there is; the second is five times as long, 70 times what the producer holds. The peak of the process may grow by a little, and no more:
how many pieces of rows are alive at once depends on who is quicker, and the first write may have had one or two fewer.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from support.spark.spark_kit import PATIENCE_SECONDS, new_topic, unique

BUFFER_BYTES = 4 << 20
PIECE_BYTES = 16 << 20
"""What rows are put together to before they are encoded (`client.producer.arrow`)."""
CALL_BYTES = 2_000_000
CALLS_FIRST = 30
"""Enough for several of the largest pieces that small batches are put together to."""
CALLS = 150

PROGRAM = """
import sys
from pathlib import Path

import pyarrow as pa

kind, bootstrap, topic, name, buffer_bytes, call_bytes, first, calls = sys.argv[1:]
settings = {"bootstrap.servers": bootstrap, "buffer.memory": buffer_bytes, "linger.ms": "5"}


def peak_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def rows(count):
    for number in range(count):
        texts = pa.array([b"%07d" % number * 100] * (int(call_bytes) // 700))
        yield pa.RecordBatch.from_pydict({"value": texts})


def atomic(count):
    from semel.client.settings import ProducerConfig
    from semel.spark.sink.common.batch_ledger import Entry
    from semel.spark.sink.common.names import ATOMIC_LEDGER_TOPIC
    from semel.spark.sink.atomic.shared_transaction import SharedTransactions
    from semel.spark.sink.atomic.task_writer import Assignment, write_rows

    own = {**settings, "transactional.id": name}
    driver = SharedTransactions(ProducerConfig.of(own), transactional_id=name, ledger_topic=ATOMIC_LEDGER_TOPIC)
    driver.make_ledger()
    reports = list(write_rows(Assignment(own, *driver.identify(), topic), rows(count)))
    driver.commit(Entry("query", count), lambda step: None)
    driver.close()
    return sum(sum(report.column("records").to_pylist()) for report in reports)


def dropin(count):
    from semel.spark.sink.dropin.batch_ledger import Place
    from semel.spark.sink.dropin.settling import BrokerTransactions
    from semel.spark.sink.dropin.sink_options import SinkOptions
    from semel.spark.sink.dropin.task import Attempt, write_rows

    options = SinkOptions.of({"topic": topic, **{f"kafka.{key}": value for key, value in settings.items()}})
    left = write_rows(options, Attempt(name, Place("query", "run", 0), 0, 0, count), rows(count), may_be_two_phase=False)
    with BrokerTransactions(options.producer_config("any")) as transactions:
        transactions.commit([left])
    return left.rows


write = {"atomic": atomic, "dropin": dropin}[kind]
write(int(first))
before = peak_bytes()
print(write(int(calls)), peak_bytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("kind", ["atomic", "dropin"])
def test_memory_does_not_grow_with_what_is_written(spark_bootstrap: str, kind: str) -> None:
    topic = new_topic(spark_bootstrap, kind, partitions=2)
    arguments = [
        kind,
        spark_bootstrap,
        topic,
        unique(kind),
        *map(str, (BUFFER_BYTES, CALL_BYTES, CALLS_FIRST, CALLS)),
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows, growth = map(int, done.stdout.split())
    assert rows == CALLS * (CALL_BYTES // 700)
    print(f"{kind}: {CALLS * CALL_BYTES} bytes written, the peak grew by {growth}")
    assert growth < 2 * PIECE_BYTES + 5 * BUFFER_BYTES
