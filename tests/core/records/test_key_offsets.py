"""Compaction's kernels agree with plain Python on any bytes, and never touch one they must not.

Method: compaction_fuzz.py runs pieces of a log with damage in them through both, beside guard pages, in a process of its
own. The hash is held against one written from its definition, which gives the values its authors published.
"""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semel.core.records.build import RecordInput, build_batch
from semel.core.records.compact_kernels import CompiledKeyOffsets
from semel.core.records.key_offsets import Sieving, Stop
from semel.core.records.siphash import hash_128

FUZZ = Path(__file__).parents[2] / "support" / "records" / "compaction_fuzz.py"
CASES = 1500
MASK = (1 << 64) - 1


def test_damage_beside_guard_pages_is_told_and_kills_nobody() -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZ), "default", str(CASES)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    sound, broken = (int(word) for word in done.stdout.split() if word.isdigit())
    assert sound + broken == CASES
    assert min(sound, broken) > CASES // 10


def test_every_key_is_found_again_in_a_table_that_is_nearly_full() -> None:
    keys = CompiledKeyOffsets(bytes_max=24 * 1000, load_factor=0.95, keys_expected=10**6, secret=bytes(16))
    rows = [RecordInput(b"%d" % n, b"v", 1) for n in range(1000)]
    first, second = build_batch(rows), build_batch(rows[:900], base_offset=1000)
    assert keys.note(first, 0, len(first), 0).stop is Stop.FULL
    assert (keys.keys, keys.latest_offset) == (950, 949)
    keys.begin_sieving(Sieving(now_ms=0, horizon_ms=0, kept_when_empty=()))
    out = bytearray(100_000)
    assert keys.sieve(first, 0, len(first), out).records_kept == 1000
    again = CompiledKeyOffsets(bytes_max=24 * 1000, load_factor=0.95, keys_expected=10**6, secret=bytes(16))
    assert again.note(second, 0, len(second), 0).stop is Stop.END
    again.begin_sieving(Sieving(now_ms=0, horizon_ms=0, kept_when_empty=()))
    assert again.sieve(first, 0, len(first), out).records_kept == 100
    assert again.sieve(second, 0, len(second), out).records_kept == 900


def siphash128(data: bytes, key: bytes, rounds: int, last_rounds: int) -> bytes:
    """SipHash with 128 bits, from its definition."""
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def turn(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & MASK

    def mix(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix(rounds)
        v[0] ^= word
    v[2] ^= 0xEE
    mix(last_rounds)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(last_rounds)
    return first.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def test_the_definition_gives_the_published_values() -> None:
    key = bytes(range(16))
    assert siphash128(b"", key, 2, 4).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash128(b"\x00", key, 2, 4).hex() == "da87c1d86b99af44347659119b22fc45"


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 1000])
def test_the_kernel_hashes_by_the_definition(length: int) -> None:
    dice = random.Random(length)
    key, data = dice.randbytes(16), dice.randbytes(length)
    memory = np.frombuffer(data or b"\x00", np.uint8)
    k0, k1 = (int.from_bytes(key[at : at + 8], "little", signed=True) for at in (0, 8))
    found = hash_128(memory.ctypes.data, length, k0, k1)
    assert b"".join((half & MASK).to_bytes(8, "little") for half in found) == siphash128(data, key, 1, 3)
