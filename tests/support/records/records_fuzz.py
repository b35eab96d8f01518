"""Damaged batches through every kernel, beside guard pages; run by test_fuzz.py in a process of its own.

Usage: records_fuzz.py SEED CASES [WAY]   or   records_fuzz.py crash (proves that the guard bites)
"""

import random
import sys
from collections.abc import Callable
from ctypes import addressof, c_int64
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

import numpy as np
import pyarrow as pa

from semel.core.records import arrow, arrow_encode, kernels, native
from semel.core.records.batch import read_header
from semel.core.records.build import build_batch, iter_records, records_section, survey_in_python
from semel.core.records.memory import SCRATCH_LONGS
from semel.errors import CorruptBatchError, UnsupportedCompressionError
from support.records.kernel_ways import running
from support.records.records_kit import CODECS, damaged, guarded, guarded_copy, random_inputs, release_guarded


def answer(question: Callable[[], object]) -> object:
    """What came back, or the words of the refusal."""
    try:
        return question()
    except CorruptBatchError as error:
        return str(error)


def foreign(size: int) -> pa.Buffer:
    """An Arrow buffer that ends before a guard page, filled with garbage."""
    memory = guarded(size)
    memory[:] = b"\xa5" * size
    address = np.frombuffer(memory, np.uint8).ctypes.data if size else 1
    return pa.foreign_buffer(address, size, base=memory)


def one_case(random_: random.Random) -> str:
    """Build, damage, read by kernel and by Python, write again; "valid" or "refused"."""
    inputs = random_inputs(random_, random_.randrange(1, 12))
    batch = build_batch(
        inputs, compression=random_.choice(CODECS), base_offset=random_.choice([0, 7, 1 << 40])
    )
    if random_.random() < 0.95:
        batch = damaged(random_, batch)
    header = read_header(batch)
    try:
        section = guarded_copy(records_section(batch, 0, header, size_max=1 << 20))
    except (CorruptBatchError, UnsupportedCompressionError):
        return "refused"
    gaps = random_.random() < 0.5
    by_python = answer(lambda: survey_in_python(section, header, gaps))
    by_kernel = answer(lambda: kernels.survey(section, header, gaps))
    if by_python != by_kernel:
        raise AssertionError(f"Python says {by_python}, the kernel says {by_kernel}: {batch.hex()}")

    whole = guarded_copy(batch)
    fetch_offset = header.base_offset + random_.choice([0, 0, 1, 5])
    decoded = answer(lambda: arrow.decode_batches(whole, fetch_offset=fetch_offset))
    if isinstance(decoded, str):
        return "refused"
    assert isinstance(decoded, arrow.Decoded)
    decoded.records.validate(full=True)
    if header.last_offset < fetch_offset:  # Passed over unread.
        assert decoded.records.num_rows == 0
        return "valid"
    read = [record for record in iter_records(batch, 0, header) if record.offset >= fetch_offset]
    rows = decoded.records.drop_columns("timestamp").to_pydict()
    assert rows["offset"] == [record.offset for record in read], batch.hex()
    assert rows["key"] == [record.key for record in read], batch.hex()
    assert rows["value"] == [record.value for record in read], batch.hex()
    assert rows["headers"] == [
        [{"key": key, "value": value} for key, value in record.headers] or None for record in read
    ], batch.hex()
    stamps = decoded.records.column("timestamp").cast(pa.int64()).to_pylist()
    assert stamps == [record.timestamp_ms for record in read], batch.hex()
    if read and min(stamps) >= -1:
        again = arrow_encode.encode_batch(decoded.records)
        assert arrow.decode_batches(bytes(again)).records.drop_columns(
            "offset"
        ) == decoded.records.drop_columns("offset")
    return "valid"


def main() -> int:
    if sys.argv[1] == "crash":
        one_record = guarded_copy(bytes.fromhex("0c000000010100"))
        found = (c_int64 * SCRATCH_LONGS)()
        # Told there are 5000 bytes.
        kernels.SCAN.run(native.address(one_record), 5000, 600, 599, 0, 0, 0, addressof(found))
        print("still alive")
        return 0
    pa.allocate_buffer = foreign
    arrow_encode.allocated = lambda size_bytes: memoryview(guarded(size_bytes))
    seen = {"valid": 0, "refused": 0}
    way = sys.argv[3] if len(sys.argv) > 3 else "native" if native.library() else "numba"
    with running(way):
        for case in range(int(sys.argv[2])):
            seed = f"{sys.argv[1]}/{case}"
            try:
                seen[one_case(random.Random(seed))] += 1
            except BaseException:
                print(f"seed {seed}", file=sys.stderr)
                raise
            if case % 100 == 0:
                release_guarded()
    print(f"{seen['valid']} valid, {seen['refused']} refused")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
