"""Kernels compiled while nobody waits: a broker or client works at once, and gets faster when they are there.

Role.   `load_beside` has a client's kernels compiled, `load_kernels_beside` a broker's. Where the package brings machine code
        (a platform's wheel) there is nothing to compile, and no thread is started for it.
Flow.   `send_arrow` and a consumer's first records call `load_beside`. `semel broker` starts the loading with the first
        batch, the embedded broker after it has run for a while.
Rules.  * Nothing waits for a compiler. Until kernels are compiled, the same loops run in plain Python.
        * numba takes many seconds, so a process of its own, with low priority, fills the cache; it is said in one line.
          A program that ends before leaves that process to finish: the next program finds the kernels. One that ends
          before the compiler is even loaded starts nothing, and says nothing.
        * Without numba everything stays in plain Python, which is said in one line too.
"""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from semel.core.records.build import load_kernels
from semel.core.records.memory import Kernel, load
from semel.runtime.kernel_cache import is_filled, use_kernel_cache

_logger = logging.getLogger(__name__)
_CHILD_SECONDS_MAX: Final = 600
_LOOK_SECONDS: Final = 0.1

_lock = threading.Lock()
_compiling = threading.Lock()
_asked: set[Kernel] = set()
_said: set[str] = set()


def load_beside(*kernels: Kernel) -> None:
    """Have these kernels compiled on a thread, if they are not. Returns at once."""
    with _lock:
        missing = [one for one in kernels if not one.is_compiled and one not in _asked]
        _asked.update(missing)
    if missing:
        thread = threading.Thread(target=_compile, args=(lambda: load(*missing),), name="semel-kernels")
        thread.start()


def load_kernels_beside(*, daemon: bool, then: Callable[[], object] | None = None) -> threading.Thread:
    """Use the broker's compiled kernels, loaded on a thread; `then` is called on it once they are in use.

    The process waits for a non-daemon thread at its end, because the compiler may crash without its interpreter.
    """

    def use() -> None:
        from semel.core.records import kernels, search_kernels

        needed = (kernels.SCAN, search_kernels.FIRST, search_kernels.OUTLAWS)
        if all(one.is_compiled for one in needed):
            load_kernels()
        elif not _compile(load_kernels):
            return
        _logger.info("compiled kernels are in use")
        if then is not None:
            then()

    thread = threading.Thread(target=use, name="semel-kernels", daemon=daemon)
    thread.start()
    return thread


def _compile(compile_them: Callable[[], None]) -> bool:
    """Fill the cache without being in anybody's way, then load from it; whether kernels are compiled now."""
    if find_spec("numba") is None:
        _say_once(
            "semel works in plain Python, more slowly: this installation has no compiled kernels for this platform, nor "
            "numba to compile them. Install it: pip install 'semel[kernels]'"
        )
        return False
    try:
        directory = use_kernel_cache()
        with _compiling:  # One at a time: the first has everything compiled, for all of them.
            if directory is not None and not is_filled(directory) and not _filled_by_child(directory):
                return False
            compile_them()
    except Exception:  # Any compiler error: plain Python still works.
        _logger.exception("kernels could not be compiled: records are handled in plain Python, more slowly")
        return False
    return True


def _filled_by_child(directory: Path) -> bool:
    """Have a process of low priority fill the cache; False if this process ends before."""
    if not threading.main_thread().is_alive():
        return False
    if not sys.executable:
        return True
    _say_once(
        f"semel compiles its kernels, once, in the background, into {directory}; until then it works in plain Python, more slowly"
    )
    program = "import sys; from semel.runtime.kernel_cache import beside; beside(sys.argv[1])"
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(int(_CHILD_SECONDS_MAX / _LOOK_SECONDS)):
        try:
            code = child.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if not threading.main_thread().is_alive():
                return False
            continue
        if code:
            _logger.warning("the process that compiles kernels ended with %d: this one compiles them", code)
        return True
    _logger.warning("the process that compiles kernels is not done after %d s", _CHILD_SECONDS_MAX)
    return True


def _say_once(sentence: str) -> None:
    with _lock:
        is_new = sentence not in _said
        _said.add(sentence)
    if is_new:
        _logger.warning("%s", sentence)
