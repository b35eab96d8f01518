"""The kernel cache: kept where it can be written, done without where it cannot.

Method: folders that are given, missing or read-only, and the environment that names them.
"""

import logging
from pathlib import Path

import pytest

from semel.core.records import memory
from semel.runtime.config import kernel_cache_directory
from semel.runtime.kernel_cache import use_kernel_cache


@pytest.fixture(autouse=True)
def _same_cache_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_cache_directory", memory._cache_directory)


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
    assert use_kernel_cache(tmp_path / "deep" / "kernels")
    assert memory._cache_directory == str(tmp_path / "deep" / "kernels")
    assert list((tmp_path / "deep" / "kernels").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    before = memory._cache_directory
    with caplog.at_level(logging.WARNING):
        assert not use_kernel_cache(tmp_path / "file" / "kernels")
    assert "kernels are compiled anew" in caplog.text
    assert memory._cache_directory == before
