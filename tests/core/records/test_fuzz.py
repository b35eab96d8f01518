"""A damaged batch is an error, never a crash: kernels beside guard pages, in a process of their own.

Method: records_fuzz.py builds batches, damages them, makes the checksum fit, and reads and rewrites them with input and
output placed right before pages that kill the process when touched. Python's parser is the reference for every
answer. A control run proves that one byte too far does kill.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from semel.core.records import native
from support.records.kernel_ways import WAYS

FUZZ = Path(__file__).parents[2] / "support" / "records" / "records_fuzz.py"
CASES = 2500


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(FUZZ), *arguments], capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("way", WAYS)
def test_damage_beside_guard_pages_never_kills(way: str) -> None:
    if way == "native" and native.library() is None:
        pytest.skip("no library of kernels was made here: tools/native_kernels.py says why")
    cases = CASES // 5 if way == "python" else CASES
    done = run("default", str(cases), way)
    assert done.returncode == 0, done.stderr[-3000:]
    valid, refused = (int(word) for word in done.stdout.split() if word.isdigit())
    assert valid + refused == cases
    assert min(valid, refused) > cases // 5  # Both ways are taken often.


def test_the_guard_bites() -> None:
    assert run("crash").returncode == -signal.SIGSEGV
