"""Shared by the tests of record batches: records by property, ways to damage bytes, and guarded memory.

`guarded` places bytes right before a page nobody may touch, so that a kernel that reads or writes one byte too far
kills the process; tests that use it run in a process of their own.
"""

import ctypes
import mmap
import random
from collections.abc import Sequence

from hypothesis import strategies as st

from semel.core.records.batch import HEADER_SIZE, BatchHeader, read_header, set_crc, write_header
from semel.core.records.build import Record, RecordInput

SEQUENCE_MAX = 0x7FFFFFFF
CODECS = (0, 1, 2, 3, 4)

payloads = (
    st.none() | st.binary(max_size=12) | st.sampled_from([b"", b"x" * 63, b"x" * 64, b"y" * 300, bytes(9000)])
)
header_pairs = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9))
timestamps = st.integers(-1, 1 << 42) | st.sampled_from([-1, 0, 1_700_000_000_000])


@st.composite
def inputs(draw: st.DrawFn) -> RecordInput:
    """A record with any mix of null, empty and filled parts; headers may repeat."""
    headers = draw(st.lists(header_pairs, max_size=3)) if draw(st.booleans()) else []
    return RecordInput(draw(payloads), draw(payloads), draw(timestamps), tuple(headers))


record_lists = st.lists(inputs(), min_size=1, max_size=30)
sequences = st.integers(0, SEQUENCE_MAX) | st.sampled_from([0, SEQUENCE_MAX - 3, SEQUENCE_MAX])


def expected(
    records: Sequence[RecordInput], *, base_offset: int = 0, base_sequence: int = -1, stamp: int | None = None
) -> list[Record]:
    """What reading a batch of these records must give."""
    return [
        Record(
            offset=base_offset + index,
            timestamp_ms=record.timestamp_ms if stamp is None else stamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
            sequence=-1 if base_sequence < 0 else (base_sequence + index) % (SEQUENCE_MAX + 1),
        )
        for index, record in enumerate(records)
    ]


def random_inputs(random_: random.Random, count: int) -> list[RecordInput]:
    """Seeded records, for the runs that do not go through hypothesis."""

    def payload() -> bytes | None:
        size = random_.choice([None, 0, 1, 5, 62, 63, 64, 65, 200])
        return None if size is None else random_.randbytes(size)

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        return tuple(
            (random_.choice("aéz") * random_.randrange(4), payload())
            for _ in range(random_.choice([0, 0, 1, 3]))
        )

    return [
        RecordInput(payload(), payload(), random_.choice([-1, 0, 5, 1 << 40]), headers())
        for _ in range(count)
    ]


def damaged(random_: random.Random, batch: bytes | bytearray) -> bytearray:
    """A batch with some bytes changed and a checksum that fits, so that the damage reaches the records."""
    out = bytearray(batch)
    for _ in range(random_.choice([1, 1, 1, 2, 5])):
        match random_.randrange(5):
            case 0:  # Any byte of the records.
                out[random_.randrange(HEADER_SIZE, len(out))] = random_.randrange(256)
            case 1:  # A bit.
                out[random_.randrange(HEADER_SIZE, len(out))] ^= 1 << random_.randrange(8)
            case 2:  # Numbers that run on and on.
                start = random_.randrange(HEADER_SIZE, len(out))
                length = min(random_.randrange(1, 12), len(out) - start)
                out[start : start + length] = bytes([random_.choice([0x80, 0xFF])]) * length
            case 3:  # Cut off, or longer than it says.
                if random_.random() < 0.5 and len(out) > HEADER_SIZE + 1:
                    del out[random_.randrange(HEADER_SIZE + 1, len(out)) :]
                else:
                    out += random_.randbytes(random_.randrange(1, 9))
            case 4:  # A header that says something else.
                header = read_header(out)
                name, values = random_.choice(
                    [
                        (
                            "records_count",
                            [header.records_count - 1, header.records_count + 1, SEQUENCE_MAX, -1],
                        ),
                        ("last_offset_delta", [header.last_offset_delta + 1, 0, SEQUENCE_MAX]),
                        ("base_timestamp", [-(1 << 63), (1 << 63) - 1, -1]),
                    ]
                )
                value = (
                    min(random_.choice(values), SEQUENCE_MAX)
                    if name != "base_timestamp"
                    else random_.choice(values)
                )
                write_header(out, 0, header._replace(**{name: value}))
    return resealed(out)


def resealed(batch: bytearray) -> bytearray:
    """The batch with length and checksum that fit its bytes."""
    write_header(batch, 0, read_header(batch)._replace(batch_length=len(batch) - 12))
    set_crc(batch, 0, len(batch))
    return batch


def header_of(data: bytes | bytearray, records_count: int, **changes: int) -> BatchHeader:
    """A header for bytes that are meant to be plain records."""
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE - 12 + len(data),
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=records_count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=records_count,
    )
    return header._replace(**changes)


_PAGE = mmap.PAGESIZE
_GUARDED: list[mmap.mmap] = []  # Never freed: an address must not come back while a test runs.


def guarded(size: int) -> memoryview:
    """`size` writable bytes that end right before a page that kills whoever touches it."""
    pages = (size + _PAGE - 1) // _PAGE
    memory = mmap.mmap(-1, (pages + 1) * _PAGE)
    _GUARDED.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + pages * _PAGE), ctypes.c_size_t(_PAGE), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    start = pages * _PAGE - size
    return memoryview(memory)[start : start + size]


def guarded_copy(data: bytes | bytearray | memoryview) -> memoryview:
    """The bytes, right before a guard page."""
    out = guarded(len(data))
    out[:] = data
    return out


def release_guarded() -> None:
    """Forget the guarded memory of what is over."""
    _GUARDED.clear()
