"""A process that was started here ends: by SIGTERM, or by SIGKILL if it does not answer.

Method: small Python processes, one of which ignores SIGTERM; a line of theirs says when they are ready.
"""

import signal
import subprocess
import sys

import pytest

from semel.peers import children

WAITING = "print(flush=True); input()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITING}"


def started(program: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize(("program", "code"), [(WAITING, -signal.SIGTERM), (DEAF, -signal.SIGKILL)])
def test_it_ends_or_is_killed(program: str, code: int) -> None:
    with started(program) as process:
        children.end(process, seconds=60 if program is WAITING else 0.2)
        assert process.returncode == code
        children.end(process)  # It has ended already.
    children.end(None)


def test_it_is_killed_at_once() -> None:
    with started(WAITING) as process:
        children.kill(process)
        assert process.returncode == -signal.SIGKILL
    children.kill(None)
