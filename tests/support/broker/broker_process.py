"""`semel broker` as a process of its own: started, waited for by its ready line, and always ended."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ENTRY = "from semel.cli.main import main; main()"
PATIENCE_SECONDS = 60.0


@dataclass
class BrokerProcess:
    """A broker that said it is ready."""

    process: subprocess.Popen[str]
    ready_line: str

    @property
    def bootstrap(self) -> str:
        return self.ready_line.rpartition(" ")[2]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; the exit code and what else it wrote to standard output and error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", ENTRY, *arguments]


@contextmanager
def running_broker(data_dir: Path, *arguments: str, listen: str = "127.0.0.1:0") -> Iterator[BrokerProcess]:
    """A broker on a free port; killed at the end if it still runs."""
    process = subprocess.Popen(
        command("broker", "--listen", listen, "--data-dir", str(data_dir), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        yield BrokerProcess(process, _first_line(process))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + PATIENCE_SECONDS
    readable, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
    assert readable, "no ready line"
    line = process.stdout.readline().rstrip("\n")
    assert re.fullmatch(r"semel broker \d+ ready on \S+:\d+", line), (line, process.communicate())
    return line
