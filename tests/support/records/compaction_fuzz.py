"""Damaged batches through the kernels of compaction, beside guard pages; run by test_key_offsets.py in a process of its own.

Usage: compaction_fuzz.py SEED CASES
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel.core.records import batch
from semel.core.records.build import build_batch, survey_in_python
from semel.core.records.compact_kernels import CompiledKeyOffsets
from semel.core.records.key_offsets import PlainKeyOffsets, Sieving, Stop
from semel.errors import CorruptBatchError
from support.records.records_kit import damaged, guarded, guarded_copy, random_inputs, release_guarded

SECRET = bytes(range(16))
HARD = 0x37  # Compressed, of a transaction, or control.


def piece(dice: random.Random) -> tuple[bytearray, list[bytes]]:
    """Some batches behind each other, one of them perhaps damaged, the last perhaps cut off."""
    batches: list[bytes] = []
    offset = dice.choice([0, 7, 1 << 40])
    for _ in range(dice.randrange(1, 6)):
        inputs = random_inputs(dice, dice.randrange(1, 10))
        made = build_batch(
            inputs,
            base_offset=offset,
            compression=dice.choice([0, 0, 0, 0, 2]),
            transactional=dice.random() < 0.1,
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
        )
        if dice.random() < 0.3:
            made = damaged(dice, made)
        if dice.random() < 0.05:
            made[dice.randrange(len(made))] ^= 1 << dice.randrange(8)
        batches.append(bytes(made))
        offset += len(inputs)
    joined = bytearray(b"".join(batches))
    if dice.random() < 0.3:
        del joined[dice.randrange(len(joined)) :]
    return joined, batches


def stop_at(data: bytes | bytearray, position: int) -> tuple[Stop, int]:
    """What a run must say of the batch at a position: to go on behind it (END and its size), or why not."""
    left = len(data) - position
    if left < batch.HEADER_SIZE:
        return Stop.END, 0
    header = batch.read_header(data, position)
    if header.size_bytes < batch.HEADER_SIZE or header.magic != batch.MAGIC:
        return Stop.DAMAGED, 0
    if header.size_bytes > left:
        return Stop.END, 0
    if header.attributes & HARD:
        return Stop.HARD, 0
    try:
        batch.check_crc(data, position, header)
        batch.check_shape(header)
        section = data[position + batch.HEADER_SIZE : position + header.size_bytes]
        survey_in_python(section, header, True)
    except CorruptBatchError:
        return Stop.DAMAGED, 0
    return Stop.END, header.size_bytes


def one_case(dice: random.Random) -> str:
    data, _batches = piece(dice)
    memory = guarded_copy(data)
    start_offset = batch.read_header(data).base_offset + dice.randrange(4) if len(data) > 60 else 0
    keys_max = dice.choice([3, 1000])
    plain = PlainKeyOffsets(keys_max=keys_max, secret=SECRET)
    slots = 1200
    quick = CompiledKeyOffsets(
        bytes_max=slots * 24, load_factor=keys_max / slots + 1e-9, keys_expected=10**6, secret=SECRET
    )
    assert quick.keys_max == keys_max
    progress = quick.note(memory, 0, len(data), start_offset)
    position = 0
    while True:
        stop, size = stop_at(data, position)
        if stop is not Stop.END or size == 0:
            break
        if plain.note_one(data[position : position + size], start_offset).stop is Stop.FULL:
            stop = Stop.FULL
            break
        position += size
    assert (progress.stop, progress.position) == (stop, position), (progress, stop, position, data.hex())
    assert (quick.keys, quick.latest_offset) == (plain.keys, plain.latest_offset)

    kept = {batch.read_header(data).last_offset} if len(data) > 60 else set()
    sieving = Sieving(now_ms=10, horizon_ms=1_700_000_000_000, kept_when_empty=kept)
    quick.begin_sieving(sieving)
    plain.begin_sieving(sieving)
    out = guarded(dice.choice([2 * len(data) + 200, 2 * len(data) + 200, len(data)]))
    progress = quick.sieve(memory, 0, len(data), out)  # type: ignore[arg-type]  # A buffer that bites.
    expected, position = bytearray(), 0
    while position < progress.position:
        stop, size = stop_at(data, position)
        assert (stop, size > 0) == (Stop.END, True)
        one = bytearray(4 * size + 400)
        used = plain.sieve_one(data[position : position + size], one).used
        expected += one[:used]
        position += size
    assert position == progress.position
    assert bytes(out[: progress.used]) == bytes(expected), data.hex()
    if progress.stop is not Stop.ROOM:
        assert (progress.stop, 0) == (stop_at(data, position)[0], stop_at(data, position)[1])
    if expected:
        quick.begin_entries()
        plain.begin_entries()
        whole = guarded_copy(bytes(expected))
        interval = dice.choice([0, 100, 4096])
        assert quick.entries(whole, 7, interval) == plain.entries(bytes(expected), 7, interval)
        assert quick.largest_timestamp == plain.largest_timestamp
    return "damaged" if progress.stop is Stop.DAMAGED else "sound"


def main() -> None:
    dice = random.Random(sys.argv[1])
    counts = {"damaged": 0, "sound": 0}
    for _ in range(int(sys.argv[2])):
        counts[one_case(dice)] += 1
        release_guarded()
    print(f"sound {counts['sound']} damaged {counts['damaged']}")


if __name__ == "__main__":
    main()
