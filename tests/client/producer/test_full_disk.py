"""A broker whose disk is full: the record that expires says so in the broker's words, and the log did so long before.

Method: a real broker process on a disk that refuses every write once it is told to (`semel.cli.harmed_broker`).
"""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import semel
from semel.verify.faults.harm import Harm


class HarmedBroker:
    """A broker, and a word to its disk."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.bootstrap = self._line("ready on").rpartition(" ")[2]

    def harm(self, harm: Harm) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(harm.to_line() + "\n")
        self._process.stdin.flush()
        self._line("harmed")

    def _line(self, words: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if words in line:
                return line.strip()
        raise AssertionError(f"the broker ended without {words!r}")


@contextmanager
def harmed_broker(data_dir: Path) -> Iterator[HarmedBroker]:
    arguments = ["--harm", Harm().to_line(), "--listen", "127.0.0.1:0", "--data-dir", str(data_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "semel.cli.harmed_broker", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield HarmedBroker(process)
    finally:
        process.kill()
        process.communicate()


def test_an_expired_record_names_the_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with harmed_broker(tmp_path) as broker:
        settings: dict[str, str | int] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
        settings |= {"delivery.timeout.ms": 4000, "request.timeout.ms": 2000}
        with semel.Producer(settings) as producer, caplog.at_level(logging.WARNING, "semel"):
            assert producer.send("orders", b"fits").result(60).offset == 0
            broker.harm(Harm(full=True))
            with pytest.raises(semel.TimeoutException) as expired:
                producer.send("orders", b"does not").result(60)
            text = str(expired.value)
            assert "the last error: KAFKA_STORAGE_ERROR: " in text
            assert "No space left on device" in text
            assert "does not store records for orders-0: KAFKA_STORAGE_ERROR" in caplog.text
            with pytest.raises(
                semel.TimeoutException, match=r"no answer about orders-0 .*KAFKA_STORAGE_ERROR"
            ):
                producer.send("orders", b"neither does this").result(1.5)
            broker.harm(Harm())
            producer.flush()
