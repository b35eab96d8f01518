"""The kernel cache: kept where it can be written, done without where it cannot.

Method: folders that are given, missing or read-only, and the environment that names them.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from semel.core.records import jit
from semel.runtime import kernel_cache
from semel.runtime.config import kernel_cache_directory
from semel.runtime.kernel_cache import use_kernel_cache


@pytest.fixture(autouse=True)
def _same_cache_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_cache_directory", jit._cache_directory)
    monkeypatch.setattr(jit, "_is_cached", jit._is_cached)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SEMEL_KERNEL_CACHE": "/a", "NUMBA_CACHE_DIR": "/b"}, "/a"),
        ({"NUMBA_CACHE_DIR": "/b", "XDG_CACHE_HOME": "/c"}, "/b"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/home/me"}, "/c/semel/kernels"),
        ({"HOME": "/home/me"}, "/home/me/.cache/semel/kernels"),
    ],
)
def test_where_kernels_are_kept(environment: dict[str, str], expected: str) -> None:
    assert kernel_cache_directory(environment) == Path(expected)


def test_a_folder_that_can_be_written_is_used(tmp_path: Path) -> None:
    assert use_kernel_cache(tmp_path / "deep" / "kernels") == tmp_path / "deep" / "kernels"
    assert jit._cache_directory == str(tmp_path / "deep" / "kernels")
    assert list((tmp_path / "deep" / "kernels").iterdir()) == []


def test_a_folder_that_cannot_be_written_has_one_beside_the_package_in_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    beside = tmp_path / "package" / "kernels"
    monkeypatch.setattr(kernel_cache, "OWN_KERNEL_CACHE", beside)
    with caplog.at_level(logging.INFO):
        for _asked in ("by the broker", "by a producer", "by a consumer"):
            assert use_kernel_cache(tmp_path / "file" / "kernels") == beside
    assert jit._cache_directory == str(beside)
    (said,) = caplog.records
    assert said.levelno == logging.INFO, "nothing is lost by it"
    assert said.getMessage() == (
        f"compiled kernels are kept in {beside}: {tmp_path}/file/kernels is not writable (Not a directory)"
    )


_PROGRAM = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.WARNING, format="%(message)s")
from semel.runtime import kernel_cache
kernel_cache.OWN_KERNEL_CACHE = Path(sys.argv[1])
for asked in ("by the broker", "by a producer", "by a consumer"):
    assert kernel_cache.use_kernel_cache() is None
from semel.core.client.partition_kernels import PARTITIONS
from semel.core.records.jit import compiled
print(compiled(PARTITIONS.function).stats.cache_path)
"""


def test_nowhere_to_write_is_said_once_and_is_true(tmp_path: Path) -> None:
    """Broker, producer and consumer in one process: one warning, and no kernel is kept anywhere."""
    (tmp_path / "file").write_text("not a folder")
    beside = tmp_path / "file" / "beside"
    environment = {**os.environ, "SEMEL_KERNEL_CACHE": str(tmp_path / "file" / "kernels")}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(beside)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        f"compiled kernels are not cached, so every process compiles them again: {tmp_path}/file/kernels is not writable "
        f"(Not a directory), nor is {beside} (Not a directory); set SEMEL_KERNEL_CACHE to a writable folder\n"
    )
    assert done.stdout == "None\n"
