"""A signal ends a broker that is still recovering its logs, soon and in order; the start after it serves everything.

Method: real processes. A partition's log is replaced by one of many transactions, as a kill would leave it; the broker is told to
stop once it has begun to go through it, and never says that it serves. Then it is started again, and everything is read.
"""

import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa

from broker_process import PATIENCE_SECONDS, command, running_broker
from compat_kit import eventually
from semel import Consumer, Producer
from semel.bench.transaction_logs import OPEN_TOGETHER, TransactionLog
from semel.log.names import LOG, OFFSET_INDEX, file_name
from semel.log.offset_index import ENTRY

TRANSACTIONS = 150_000  # Seconds of work: a signal is there long before its end.
TOPIC = "orders"


def aborts(number: int) -> bool:
    return number % 3 == 0


def offset_of(number: int) -> int:
    """Where a transaction's record stands: `OPEN_TOGETHER` records, then their markers."""
    turn, place = divmod(number, OPEN_TOGETHER)
    return turn * 2 * OPEN_TOGETHER + place


def left_by_a_kill(data: Path) -> TransactionLog:
    """A data directory of a broker that was killed, with many transactions in the active segment of one partition."""
    with running_broker(data) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(TOPIC, b"makes the topic").result()
        broker.stop(signal.SIGKILL)
    log = TransactionLog.of_records(TRANSACTIONS, aborts=aborts, now_ms=int(time.time() * 1000))
    log.write(data / f"{TOPIC}-0" / file_name(0, LOG))
    return log


def read_committed(bootstrap: str, end_offset: int) -> list[int]:
    """The offsets of every record there is for a reader of committed ones, up to the end of the log."""
    offsets: list[int] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while consumer.position((TOPIC, 0)) < end_offset:
            assert time.monotonic() < deadline, f"{consumer.position((TOPIC, 0))} of {end_offset}"
            batch: pa.RecordBatch = consumer.poll_arrow(timeout_ms=1000)
            offsets += batch.column("offset").to_pylist()
    return offsets


def test_a_signal_is_obeyed_during_recovery_and_nothing_is_lost(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log = left_by_a_kill(data)
    # An index that is rebuilt is emptied first: that is when the log begins to be read.
    index = data / f"{TOPIC}-0" / file_name(0, OFFSET_INDEX)
    index.write_bytes(bytes(ENTRY.size))
    process = subprocess.Popen(
        command("broker", "--listen", "127.0.0.1:0", "--data-dir", str(data)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: index.stat().st_size == 0, "the log is being recovered", PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert out == "", "it never served"
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "is recovered by the next start" in err
    assert not (data / ".kafka_cleanshutdown").exists(), "nothing may be trusted that was not gone through"
    with running_broker(data) as broker:
        committed = [offset_of(number) for number in range(TRANSACTIONS) if not aborts(number)]
        assert read_committed(broker.bootstrap, log.end_offset) == committed
        assert broker.stop()[0] == 0
    verified = subprocess.run(
        command("log", "verify", str(data)),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
