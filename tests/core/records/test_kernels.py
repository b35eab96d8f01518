"""Compiled and plain parsers agree on any bytes, and kernels are kept where they may be kept.

Method: random bytes and damaged batches judged by both parsers, kernels run every way; tiny functions compiled with and
without a place for the cache. Damage beside guard pages is in test_fuzz.py.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from ctypes import addressof, c_int64
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config
from numba.core import caching
from numba.core.errors import TypingError

from semel.core.records import jit, kernels, memory, native, varint
from semel.core.records.batch import read_header
from semel.core.records.build import RecordFacts, build_batch, records_section, survey_in_python
from semel.core.records.memory import load_byte, put, read_int, read_long, store_long, take, width
from semel.errors import CorruptBatchError
from semel.runtime.kernel_cache import kernels_of
from support.records.records_kit import damaged, header_of, random_inputs

pytestmark = pytest.mark.usefixtures("every_way")


def judged(survey: Callable[..., RecordFacts], *question: object) -> RecordFacts | str:
    try:
        return survey(*question)
    except CorruptBatchError as error:
        return str(error)


@given(
    data=st.binary(max_size=60)
    | st.lists(st.sampled_from([0, 1, 2, 6, 12, 14, 128, 255]), max_size=40).map(bytes),
    count=st.integers(-2, 8),
    last_offset_delta=st.integers(0, 9),
    base_timestamp=st.sampled_from([0, -1, (1 << 63) - 1, -(1 << 63)]),
    gaps=st.booleans(),
)
def test_any_bytes_are_judged_alike(
    data: bytes, count: int, last_offset_delta: int, base_timestamp: int, gaps: bool
) -> None:
    header = header_of(data, count, last_offset_delta=last_offset_delta, base_timestamp=base_timestamp)
    assert judged(survey_in_python, data, header, gaps) == judged(kernels.survey, data, header, gaps)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_batches_are_judged_alike(seed: int) -> None:
    random_ = random.Random(seed)
    verdicts = {RecordFacts: 0, str: 0}
    for _ in range(400):
        batch = build_batch(random_inputs(random_, random_.randrange(1, 20)))
        if random_.random() < 0.9:
            batch = damaged(random_, batch)
        header = read_header(batch)
        section = records_section(batch, 0, header._replace(attributes=0))
        for gaps in (False, True):
            verdict = judged(kernels.survey, section, header, gaps)
            assert verdict == judged(survey_in_python, section, header, gaps), batch.hex()
            verdicts[type(verdict)] += 1
    assert min(verdicts.values()) > 50  # Both kinds of answer were compared.


def _read_both(start: int, size: int, answer: int) -> int:
    as_int, after_int = read_int(start, start + size)
    as_long, after_long = read_long(start, start + size)
    taken, after_taken = 0, 0
    if after_long > 0:
        taken, after_taken = take(start)
    store_long(answer, as_int)
    store_long(answer + 8, after_int - start if after_int > 0 else after_int)
    store_long(answer + 16, as_long)
    store_long(answer + 24, after_long - start if after_long > 0 else after_long)
    store_long(answer + 32, taken)
    store_long(answer + 40, after_taken - start if after_long > 0 else after_long)
    return width(as_long)


def _write_number(start: int, value: int) -> int:
    written = put(start, value) - start
    return written if written == width(value) and load_byte(start) >= 0 else -1


@pytest.fixture(scope="module", params=["numba", "python"])
def numbers(request: pytest.FixtureRequest) -> Callable[..., int]:
    return jit.compiled(_read_both) if request.param == "numba" else _read_both


@pytest.fixture(scope="module", params=["numba", "python"])
def writer(request: pytest.FixtureRequest) -> Callable[..., int]:
    return jit.compiled(_write_number) if request.param == "numba" else _write_number


@given(
    data=st.binary(min_size=1, max_size=12)
    | st.binary(min_size=1, max_size=11).map(lambda b: bytes(c | 0x80 for c in b) + b"\x01")
)
def test_numbers_are_read_alike(numbers: Callable[..., int], data: bytes) -> None:
    short = varint.read_varint(data, 0, len(data), varint.INT_BITS)
    long = varint.read_varint(data, 0, len(data), varint.LONG_BITS)
    answer = (c_int64 * 6)()
    size = numbers(native.address(data), len(data), addressof(answer))
    plain = bytearray()
    varint.append_varint(plain, long[0])
    assert size == len(plain)
    assert answer[:4] == [*short, *long]
    assert long[1] < 0 or answer[4:] == list(long)


@given(value=st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300))
def test_numbers_are_written_alike(writer: Callable[..., int], value: int) -> None:
    plain = bytearray()
    varint.append_varint(plain, value)
    out = bytearray(12)
    assert writer(native.address(out), value) == len(plain)
    assert out[: len(plain)] == plain
    assert not any(out[len(plain) :])


def _unsigned_address(start: int) -> int:
    return load_byte(np.uint64(start))  # type: ignore[arg-type]


def test_an_unsigned_address_is_refused_by_the_compiler() -> None:
    """Signed plus unsigned is a float to numba: an address computed so would lose its low bits."""
    with pytest.raises(TypingError, match="signed integers"):
        jit.compiled(_unsigned_address)


def _double(value: int) -> int:
    return value * 2


@pytest.fixture
def _same_cache_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_cache_directory", jit._cache_directory)
    monkeypatch.setattr(jit, "_is_cached", jit._is_cached)


@pytest.mark.usefixtures("_same_cache_afterwards")
def test_kernels_are_kept_where_the_shell_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = config.CACHE_DIR
    jit.use_kernel_cache(str(tmp_path))
    assert jit.compiled(_double)(21) == 42
    assert len(list(tmp_path.glob("semel-*/**/*.nbi"))) == 1
    assert jit.compiled(_double)(4) == 8  # From the cache.
    monkeypatch.setattr(native, "fingerprint", lambda: "0badf00d")
    jit.compiled(_double)(1)  # Other sources, another place.
    assert len(list(tmp_path.glob("semel-*"))) == 2
    assert before == config.CACHE_DIR  # Other users of numba in this process are not affected.


def test_nowhere_to_keep_kernels_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert jit.compiled(_double)(21) == 42


def _modules_of(function: Callable[..., int]) -> set[str]:
    """The modules of a function and of all it calls or names."""
    functions, to_see = {function}, [function]
    while to_see:
        seen = to_see.pop()
        assert isinstance(seen, FunctionType)
        known = [seen.__globals__[name] for name in seen.__code__.co_names if name in seen.__globals__]
        inside = [vars(module) for module in known if isinstance(module, ModuleType)]
        known += [names[name] for names in inside for name in seen.__code__.co_names if name in names]
        called = {one for one in known if isinstance(one, FunctionType)} - functions
        functions |= called
        to_see += called
    return {found.__module__ for found in functions}


@pytest.mark.parametrize("kernel", kernels_of(), ids=repr)
def test_a_library_is_known_by_all_that_its_kernels_are_made_of(kernel: memory.Kernel) -> None:
    """A helper that changed in a module nobody listed would go on running as it was."""
    listed = {f"semel.{name.removesuffix('.py').replace('/', '.')}" for name in native.SOURCES}
    assert _modules_of(kernel.function) <= listed


def test_every_source_of_kernels_is_there() -> None:
    package = Path(native.__file__).parents[2]
    assert [name for name in native.SOURCES if not (package / name).is_file()] == []


def test_kernels_call_helpers_only() -> None:
    """A function that is no helper would be an error of the compiler, where there is one."""
    modules = {f"semel.{name.removesuffix('.py').replace('/', '.')}" for name in native.SOURCES}
    assert {helper.__module__ for helper in memory.HELPERS} <= modules


def test_a_library_of_other_sources_is_not_used(tmp_path: Path) -> None:
    """Kernels that are out of step with their callers would corrupt records."""
    if native.library() is None:
        pytest.skip("no library of kernels was made here: tools/native_kernels.py says why")
    package = tmp_path / "semel"
    shutil.copytree(Path(native.__file__).parents[2], package, ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "from semel.core.records import native, kernels; print(native.library() is not None, kernels.SCAN)"
    )

    def answer() -> str:
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert answer() == "True <Kernel kernels_scan, compiled>\n"
    with (package / "core" / "records" / "flaws.py").open("a") as source:
        source.write("# Changed.\n")
    assert answer() == "False <Kernel kernels_scan, in Python>\n"
