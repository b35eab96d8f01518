"""Nobody waits for a compiler: a first send is acknowledged, and read, while kernels are not there yet.

Method: the package without its library of kernels, in a folder of its own with an empty cache. The test holds the turn to
fill the cache, so that compiling cannot end, or begin, before it lets go. Programs run in processes of their own.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import semel
from semel.core.records import native

_BEGIN = """
import sys, threading, time
import pyarrow as pa
from semel import Broker, Consumer, Producer
from semel.core.records import kernels, write_kernels

broker = Broker().start()
names = {"bootstrap.servers": broker.bootstrap}
producer = Producer(names)
consumer = Consumer({**names, "auto.offset.reset": "earliest"})
consumer.assign([("t", 0)])

def work(*values):
    producer.send("t", values[0]).result(60)
    producer.send_arrow("t", pa.table({"value": values[1:]})).result(60)
    found = []
    while len(found) < len(values):
        found += consumer.poll_arrow(timeout_ms=500)["value"].to_pylist()
    print(found, write_kernels.PLAN, kernels.FILL, flush=True)

work(b"first", b"second", b"third")
"""
_END = """
producer.close(), consumer.close(), broker.stop()
print("numba" in sys.modules, flush=True)
"""
_GO_ON = """
sys.stdin.readline()
for _ in range(8000):
    if write_kernels.PLAN.is_compiled and kernels.FILL.is_compiled:
        break
    time.sleep(0.1)
work(b"fourth", b"fifth")
"""
_IN_PYTHON = "<Kernel write_kernels_plan, in Python> <Kernel kernels_fill, in Python>"
_COMPILED = "<Kernel write_kernels_plan, compiled> <Kernel kernels_fill, compiled>"


class Bare(NamedTuple):
    """The package without its library, and an empty cache."""

    folder: Path
    cache: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder), "SEMEL_KERNEL_CACHE": str(self.cache)}

    @contextmanager
    def started(self, program: str) -> "Iterator[subprocess.Popen[str]]":
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", program]
        with subprocess.Popen(
            command, env=self.environment, cwd=self.folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()  # Of no effect on one that has ended.

    def run(self, program: str) -> tuple[str, str]:
        """What it printed and what it logged; it must end by itself."""
        with self.started(program) as process:
            said, logged = process.communicate(timeout=200)
        assert process.returncode == 0, logged
        return said, logged

    @contextmanager
    def nobody_compiles(self) -> Iterator[None]:
        self.cache.mkdir(exist_ok=True)
        with (self.cache / "filling").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @property
    def said_of_compiling(self) -> str:
        return (
            f"semel compiles its kernels, once, in the background, into {self.cache}; until then it works in plain Python, "
            "more slowly\n"
        )


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    ignored = shutil.ignore_patterns("__pycache__", native.LIBRARY)
    shutil.copytree(Path(semel.__file__).parent, tmp_path / "semel", ignore=ignored)
    return Bare(tmp_path, tmp_path / "cache")


@pytest.mark.timeout(900)  # Compiling takes ten seconds of CPU, after everything else on the machine.
def test_a_first_send_waits_for_no_compiler(bare: Bare) -> None:
    with bare.started(_BEGIN + _GO_ON + _END) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with bare.nobody_compiles():
            assert process.stdout.readline() == f"[b'first', b'second', b'third'] {_IN_PYTHON}\n"
            assert list(bare.cache.glob("semel-*")) == []
        process.stdin.write("\n")
        said, logged = process.communicate(timeout=850)
    assert process.returncode == 0, logged
    assert said == f"[b'fourth', b'fifth'] {_COMPILED}\nTrue\n"
    assert logged == bare.said_of_compiling, "said in one line, once"
    (mark,) = bare.cache.glob("semel-*/filled-*")
    assert mark.is_file()


def test_a_program_that_ends_first_does_not_wait_either(bare: Bare) -> None:
    with bare.nobody_compiles():
        said, logged = bare.run(_BEGIN + _END)
    assert said.startswith(f"[b'first', b'second', b'third'] {_IN_PYTHON}\n")
    assert logged in ("", bare.said_of_compiling), "nothing is said if it ends before the compiler is loaded"


def test_without_a_compiler_everything_works_in_plain_python(bare: Bare) -> None:
    refuse = "import sys; sys.modules['numba'] = sys.modules['llvmlite'] = None\n"
    find = "import importlib.util as u; found = u.find_spec; u.find_spec = lambda n, *a: None if n == 'numba' else found(n, *a)\n"
    (bare.folder / "sitecustomize.py").write_text(refuse + find, encoding="utf-8")
    said, logged = bare.run(_BEGIN + _END)
    assert said.startswith(f"[b'first', b'second', b'third'] {_IN_PYTHON}\n")
    assert logged == (
        "semel works in plain Python, more slowly: this installation has no compiled kernels for this platform, nor numba to "
        "compile them. Install it: pip install 'semel[kernels]'\n"
    )


@pytest.mark.skipif(
    native.library() is None, reason="no library of kernels was made here: tools/native_kernels.py says why"
)
def test_with_kernels_of_its_own_the_package_compiles_nothing(bare: Bare) -> None:
    library = native.library()
    assert library is not None
    shutil.copy(library, bare.folder / "semel" / "core" / "records")
    said, logged = bare.run(_BEGIN + _END)
    assert said == f"[b'first', b'second', b'third'] {_COMPILED}\nFalse\n"
    assert logged == ""
    assert not bare.cache.exists()
