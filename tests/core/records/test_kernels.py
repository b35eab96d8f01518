"""Compiled and plain parsers agree on any bytes, and kernels are kept where they may be kept.

Method: random bytes and damaged batches judged by both parsers; tiny functions compiled with and without a place for
the cache. Damage beside guard pages is in test_fuzz.py.
"""

import random
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config, types
from numba.core import caching
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

from semel.core.records import compact_kernels, kernels, memory, varint, write_kernels
from semel.core.records.batch import read_header
from semel.core.records.build import RecordFacts, build_batch, records_section, survey_in_python
from semel.core.records.memory import (
    BYTES,
    LONG,
    as_long,
    compiled,
    load_byte,
    put,
    read_int,
    read_long,
    take,
    width,
)
from semel.errors import CorruptBatchError
from support.records.records_kit import damaged, header_of, random_inputs

HERE: list[ModuleType] = [memory]


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


def _read_both(data: "kernels.Bytes", size: int) -> tuple[int, int, int, int, int, int, int]:
    start = as_long(data.ctypes.data)
    as_int, after_int = read_int(start, start + size)
    as_long_, after_long = read_long(start, start + size)
    taken, after_taken = take(start) if after_long > 0 else (0, 0)
    return (
        as_int,
        after_int - start if after_int > 0 else after_int,
        as_long_,
        after_long - start if after_long > 0 else after_long,
        taken,
        after_taken - start if after_taken > 0 else after_long,
        width(as_long_),
    )


@pytest.fixture(scope="module")
def numbers() -> memory.Kernel:
    return compiled(_read_both, types.UniTuple(LONG, 7)(BYTES, LONG), HERE)


@given(
    data=st.binary(min_size=1, max_size=12)
    | st.binary(min_size=1, max_size=11).map(lambda b: bytes(c | 0x80 for c in b) + b"\x01")
)
def test_numbers_are_read_alike(numbers: memory.Kernel, data: bytes) -> None:
    short = varint.read_varint(data, 0, len(data), varint.INT_BITS)
    long = varint.read_varint(data, 0, len(data), varint.LONG_BITS)
    answer = numbers(kernels.as_array(data), len(data))
    assert answer[:6] == (*short, *long, *long)


def _write_number(data: "kernels.Bytes", value: int) -> int:
    start = as_long(data.ctypes.data)
    written = put(start, value) - start
    return written if written == width(value) and load_byte(start) >= 0 else -1


@pytest.fixture(scope="module")
def writer() -> memory.Kernel:
    return compiled(_write_number, LONG(BYTES, LONG), HERE)


@given(value=st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300))
def test_numbers_are_written_alike(writer: memory.Kernel, value: int) -> None:
    plain = bytearray()
    varint.append_varint(plain, value)
    out = bytearray(12)
    assert writer(kernels.as_array(out), value) == len(plain)
    assert out[: len(plain)] == plain
    assert not any(out[len(plain) :])


def _unsigned_address(data: "kernels.Bytes") -> int:
    return load_byte(data.ctypes.data)


def test_an_unsigned_address_is_refused_by_the_compiler() -> None:
    """Signed plus unsigned is a float to numba: an address computed so would lose its low bits."""
    with pytest.raises(TypingError, match="signed integers"):
        compiled(_unsigned_address, LONG(BYTES), HERE)


def _double(value: int) -> int:
    return value * 2


def test_kernels_are_kept_where_the_shell_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = config.CACHE_DIR
    monkeypatch.setattr(memory, "_cache_directory", None)
    memory.use_kernel_cache(str(tmp_path))
    assert compiled(_double, LONG(LONG), HERE)(21) == 42
    assert len(list(tmp_path.glob("semel-*/**/*.nbi"))) == 1
    assert compiled(_double, LONG(LONG), HERE)(4) == 8  # From the cache.
    compiled(_double, LONG(LONG), [memory, varint])(1)  # Other sources, another place.
    assert len(list(tmp_path.glob("semel-*"))) == 2
    assert before == config.CACHE_DIR  # Other users of numba in this process are not affected.


def test_nowhere_to_keep_kernels_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled(_double, LONG(LONG), HERE)(21) == 42


def _modules_of(function: FunctionType) -> set[str]:
    """The modules of a function and of every helper that is compiled into it."""
    functions, to_see = {function}, [function]
    while to_see:
        seen = to_see.pop()
        known = [seen.__globals__[name] for name in seen.__code__.co_names if name in seen.__globals__]
        inside = [vars(module) for module in known if isinstance(module, ModuleType)]
        known += [names[name] for names in inside for name in seen.__code__.co_names if name in names]
        helpers = {helper.py_func for helper in known if isinstance(helper, Dispatcher)} - functions
        functions |= helpers
        to_see += helpers
    return {found.__module__ for found in functions}


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (kernels, "_scan"),
        (kernels, "_survey"),
        (kernels, "_fill"),
        (write_kernels, "_plan"),
        (write_kernels, "_write"),
        (compact_kernels, "_note"),
        (compact_kernels, "_sieve"),
        (compact_kernels, "_entries"),
    ],
)
def test_a_cached_kernel_is_known_by_all_that_it_is_made_of(module: Any, function: str) -> None:
    """A helper that changed in a module nobody listed would go on being served from the cache as it was."""
    listed = {source.__name__ for source in module._sources()}
    assert _modules_of(getattr(module, function)) <= listed
