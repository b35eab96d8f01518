"""Kafka's hash of a group's topics, so that a group loaded from its log does not look changed.

Role.   `topic_hash` and `group_hash` compute the hash that Kafka 4.1 and later keep in a group's row. A different hash
        means that a topic was created, deleted, extended or recreated: the group gets a new epoch.
Rules.  * XXH3, 64 bits, over the topic's id, name and partitions; the group's hash over its topics' hashes, by name.
        * A topic that does not exist is skipped, and a group without topics has hash 0.
        * Racks enter the hash if brokers have them: sorted per partition, each with a length prefix.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

_TOPIC_HASH_VERSION: Final = b"\x00"
_INT64: Final = struct.Struct("<q")


def topic_hash(name: str, topic_id: bytes, partitions: int, racks: Iterable[Iterable[str]] = ()) -> int:
    """The hash of one topic; `racks` of its partitions, in order, where brokers have racks."""
    parts = [_TOPIC_HASH_VERSION, topic_id[7::-1], topic_id[15:7:-1], _text(name), _int(partitions)]
    of_partition = iter(racks)
    for partition in range(partitions):
        parts.append(_int(partition))
        for rack in sorted(next(of_partition, ())):
            parts += [_int(len(rack)), _text(rack)]
    return _signed(xxh3_64(b"".join(parts)))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """The hash of all topics a group reads."""
    if not topic_hashes:
        return 0
    return _signed(xxh3_64(b"".join(_INT64.pack(topic_hashes[name]) for name in sorted(topic_hashes))))


def _int(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _int(len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


# XXH3 with its stock secret and seed 0 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743"
    "248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7"
    "c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16"
    "be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = (1 << 64) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_LANES: Final = struct.Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash of any bytes, as an unsigned number."""
    length = len(data)
    if length > 240:
        return _hash_long(data)
    if length > 128:
        return _hash_129_to_240(data)
    if length > 16:
        return _hash_17_to_128(data)
    if length > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + swapped + high + _fold(low, high))
    if length > 3:
        return _rrmxmx(
            length, _u32(data, length - 4) + (_u32(data, 0) << 32) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        )
    if length > 0:
        mixed = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _xxh64_avalanche(mixed ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _xxh64_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & _MASK


def _mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _avalanche(value: int) -> int:
    value &= _MASK
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & _MASK
    return value ^ value >> 32


def _xxh64_avalanche(value: int) -> int:
    value ^= value >> 33
    value = value * _P64_2 & _MASK
    value ^= value >> 29
    value = value * _P64_3 & _MASK
    return value ^ value >> 32


def _rrmxmx(length: int, value: int) -> int:
    value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
    value = value * 0x9FB21C651E98DF25 & _MASK
    value ^= (value >> 35) + length
    value = value * 0x9FB21C651E98DF25 & _MASK
    return value ^ value >> 28


def _hash_17_to_128(data: bytes) -> int:
    length = len(data)
    total = length * _P64_1
    for step in reversed(range((length - 1) // 32 + 1)):
        total += _mix(data, 16 * step, 32 * step) + _mix(data, length - 16 * (step + 1), 32 * step + 16)
    return _avalanche(total)


def _hash_129_to_240(data: bytes) -> int:
    length = len(data)
    total = length * _P64_1 + sum(_mix(data, 16 * step, 16 * step) for step in range(8))
    total = _avalanche(total)
    total += sum(_mix(data, 16 * step, 16 * (step - 8) + 3) for step in range(8, length // 16))
    return _avalanche(total + _mix(data, length - 16, 136 - 17))


def _hash_long(data: bytes) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    stripes = (len(data) - 1) // _STRIPE
    for stripe in range(stripes):
        in_block = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, 8 * in_block)
        if in_block == _STRIPES_PER_BLOCK - 1:
            for lane, secret in enumerate(_LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)):
                lanes[lane] = (lanes[lane] ^ lanes[lane] >> 47 ^ secret) * _P32_1 & _MASK
    _accumulate(lanes, data, len(data) - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = len(data) * _P64_1
    for lane in range(0, 8, 2):
        at = 11 + 8 * lane
        total += _fold(lanes[lane] ^ _u64(_SECRET, at), lanes[lane + 1] ^ _u64(_SECRET, at + 8))
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _LANES.unpack_from(data, at)
    for lane, (value, secret) in enumerate(zip(values, _LANES.unpack_from(_SECRET, secret_at), strict=True)):
        keyed = value ^ secret
        lanes[lane ^ 1] = lanes[lane ^ 1] + value & _MASK
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK
