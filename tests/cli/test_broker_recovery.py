"""A signal ends a broker that is still recovering its logs, soon and in order; the start after it serves everything.

Method: real processes. A partition's log is replaced by one of many transactions, as a kill would leave it. In the first process the
walk over that log stands still in the middle, says so on standard error, and goes on when it is asked to leave off: however fast the
machine is, that is when the signal comes. Until then /health is answered and /ready says why not; it never says that it serves. Then the broker is started again, and everything is read.
"""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

from semel import Consumer, Producer
from semel.bench.transaction_logs import OPEN_TOGETHER, TransactionLog
from semel.log.names import LOG, file_name
from support.broker.broker_process import PATIENCE_SECONDS, command, running_broker

TRANSACTIONS = 3_000
TOPIC = "orders"
STANDING_STILL = "in the middle of orders-0"
SLOW_ENTRY = f"""
import sys, time
from semel.cli.main import main
from semel.log import recovery

check_batch, batches = recovery._check_batch, 0

def slowly(segment, *arguments):
    global batches
    check_batch(segment, *arguments)
    batches += {TOPIC + "-0"!r} in segment.file.path
    if batches == {TRANSACTIONS}:
        print({STANDING_STILL!r}, file=sys.stderr, flush=True)
        deadline = time.monotonic() + {PATIENCE_SECONDS}
        while not any(halt.is_asked for halt in halts) and time.monotonic() < deadline:
            time.sleep(0.01)

halts = []
opening = recovery.Opening.__init__

def kept(self, *arguments, **named):
    opening(self, *arguments, **named)
    halts.append(self.halt)

recovery._check_batch, recovery.Opening.__init__ = slowly, kept
main()
"""


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
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            SLOW_ENTRY,
            *command(
                "broker", "--listen", "127.0.0.1:0", "--data-dir", str(data), "--metrics", "127.0.0.1:0"
            )[3:],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        said = list[str]()
        for line in process.stderr:
            said.append(line)
            if STANDING_STILL in line:
                break
        (metrics,) = re.findall(r"metrics are on (http://\S+)/metrics,", "".join(said))
        assert urllib.request.urlopen(f"{metrics}/health", timeout=PATIENCE_SECONDS).status == 200
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"{metrics}/ready", timeout=PATIENCE_SECONDS)
        with refused.value:
            (reason,) = json.loads(refused.value.read())["reasons"]
        assert reason.startswith("the logs are being opened, and recovered after a kill: 0 of "), reason
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    assert said[-1:] == [STANDING_STILL + "\n"], said
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
