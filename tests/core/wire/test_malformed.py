"""Bytes that are no message are refused with a reason: never a crash, a hang, a wrong message or a memory blow-up.

Method: truncations, mutations and random bytes against every API and version. Bytes that compiled code accepts must
give the same message in the plain codec. A refusal by either must be a `WireError` that names the place.
"""

import random
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semel.core.wire import plain
from semel.core.wire.message import Message
from semel.core.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from semel.core.wire.messages.fetch import FetchRequest, FetchTopic
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.messages.produce import ProduceRequest
from semel.errors import WireError
from support.wire.wire_values import all_messages, every_version, random_message, versions_of

EVERYTHING = list(every_version())


def _read_or_refuse(cls: type[Message], raw: bytes, version: int) -> Message | None:
    """Both readers must say the same, in the same words."""
    flexible = version in cls.schema.flexible
    try:
        expected = plain.read(cls, raw, 0, version=version, flexible=flexible, open_end=cls.schema.open_end)
    except WireError as refused:
        reason = str(refused)
    else:
        read = cls.decode(raw, version)
        assert read == expected or read.encode(version) == expected.encode(version)  # A float may be NaN.
        return read
    assert reason.startswith(f"{cls.__name__} v{version}: ")
    assert " at byte " in reason
    with pytest.raises(WireError) as also:
        cls.decode(raw, version)
    assert str(also.value) == reason
    return None


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_message_cut_anywhere_is_refused(cls: type[Message]) -> None:
    rng = random.Random(f"cut {cls.__name__}")
    for version in versions_of(cls):
        raw = random_message(rng, cls, version).encode(version)
        cuts = range(len(raw)) if len(raw) <= 40 else sorted(rng.sample(range(len(raw)), 40))
        for cut in cuts:
            assert _read_or_refuse(cls, raw[:cut], version) is None
        assert (_read_or_refuse(cls, raw + b"\x00", version) is not None) == cls.schema.open_end


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_a_changed_message_is_another_message_or_refused(cls: type[Message]) -> None:
    rng = random.Random(f"change {cls.__name__}")
    for version in versions_of(cls):
        raw = random_message(rng, cls, version, unknown_tags=True).encode(version)
        for _ in range(25):
            changed = bytearray(raw)
            for _ in range(rng.choice((1, 1, 1, 4))):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.choice(
                        (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256))
                    )
            message = _read_or_refuse(cls, bytes(changed), version)
            if message is not None:
                again = message.encode(version)
                assert cls.decode(again, version).encode(version) == again


@given(
    which=st.integers(0, len(EVERYTHING) - 1),
    seed=st.integers(0, 2**32),
    changes=st.lists(
        st.tuples(
            st.sampled_from(["set", "insert", "delete"]),
            st.integers(0, 4095),
            st.binary(min_size=1, max_size=5),
        ),
        max_size=6,
    ),
)
@example(which=0, seed=0, changes=[("insert", 0, b"\xff\xff\xff\xff\x0f")])
def test_mutations_of_valid_messages(which: int, seed: int, changes: list[tuple[str, int, bytes]]) -> None:
    cls, version = EVERYTHING[which]
    raw = bytearray(random_message(random.Random(seed), cls, version, unknown_tags=True).encode(version))
    for how, position, new in changes:
        at = position % (len(raw) + 1)
        raw[at : at + (0 if how == "insert" else len(new))] = b"" if how == "delete" else new
    _read_or_refuse(cls, bytes(raw), version)


@given(which=st.integers(0, len(EVERYTHING) - 1), raw=st.binary(max_size=200))
def test_random_bytes(which: int, raw: bytes) -> None:
    cls, version = EVERYTHING[which]
    _read_or_refuse(cls, raw, version)


def test_no_count_or_length_makes_memory_of_what_is_not_there() -> None:
    """The largest counts of both kinds are put over every byte of every version."""
    rng = random.Random("memory")
    huge = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x40")
    tracemalloc.start()
    for cls, version in EVERYTHING:
        raw = random_message(rng, cls, version).encode(version)[:200]
        for position in range(0, len(raw), 1 + len(raw) // 25):
            for count in huge:
                try:
                    cls.decode(raw[:position] + count + raw[position + len(count) :], version)
                except WireError:
                    continue
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20  # Mostly the compiled codecs themselves.


def test_an_array_that_lies_is_refused_before_its_elements_are_read() -> None:
    raw = b"\xff\xff\xff\xff" + bytes(4 + 4 + 4 + 1) + (10**9).to_bytes(4, "big") + bytes(100)
    with pytest.raises(
        WireError,
        match=r"FetchRequest v4: topics at byte 17: array of 1000000000 elements needs at least 6000000000 bytes, 100 are left",
    ):
        FetchRequest.decode(raw, 4)


@pytest.mark.parametrize(
    ("cls", "version", "raw", "text"),
    [
        (HeartbeatRequest, 0, b"", "group_id at byte 0: int16 needs 2 bytes, 0 are left"),
        (HeartbeatRequest, 0, b"\x00\x01g\x00\x00\x00\x01\x00\x09m", "member_id at byte 9: string of 9 bytes, 1 are left"),
        (HeartbeatRequest, 0, b"\xff\xff", r"group_id at byte 0: string of length -1 \(null\) is not allowed"),
        (HeartbeatRequest, 0, b"\xff\x80", "group_id at byte 0: string of length -128 is not allowed"),
        (HeartbeatRequest, 4, b"\x00", r"group_id at byte 0: string of length -1 \(null\) is not allowed"),
        (HeartbeatRequest, 4, b"\x80\x80\x80\x80\x80\x00", "group_id at byte 0: unsigned varint is longer than 5 bytes"),
        (HeartbeatRequest, 4, b"\xff\xff\xff\xff\x0f", "group_id at byte 0: unsigned varint 4294967295 is above"),
        (HeartbeatRequest, 4, b"\x02\xff\x00\x00\x00\x01\x01\x00\x00", "group_id at byte 0: string of 1 bytes is not UTF-8"),
        (HeartbeatResponse, 4, b"\x00\x00\x00\x00\x00\x00\x00more", "message at byte 7: 4 bytes are left over"),
        (HeartbeatRequest, 4, b"\x02g\x00\x00\x00\x01\x01\x00\x02\x05\x00\x05\x00", "tags at byte 12: tag 5 follows tag 5, tags must rise"),
        (HeartbeatRequest, 4, b"\x02g\x00\x00\x00\x01\x01\x00\x01\x05\x09a", "tag 5 at byte 11: tagged field of 9 bytes, 1 are left"),
        (MetadataRequest, 4, b"\x00\x00\x00\x00\x02", "allow_auto_topic_creation at byte 4: a boolean is 0 or 1, not 2"),
        (DescribeTopicPartitionsRequest, 0, b"\x01\x00\x00\x00\x05\x02\x00", "cursor at byte 5: a nullable struct starts with 1 or -1, not 2"),
        (ProduceRequest, 3, b"\xff\xff\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff", r"topic_data\[0\].partition_data\[0\].records at byte 27: records of 2147483647 bytes, 0 are left"),
    ],
)  # fmt: skip
def test_the_refusal_names_message_field_byte_and_values(
    cls: type[Message], version: int, raw: bytes, text: str
) -> None:
    with pytest.raises(WireError, match=f"^{cls.__name__} v{version}: {text}"):
        cls.decode(raw, version)


def test_bytes_after_a_request_are_not_looked_at() -> None:
    """librdkafka's Metadata request for all topics has three of them; Kafka answers it."""
    raw = bytes.fromhex("00 00 00 00 01 00 00")
    for data in (raw, bytearray(raw), memoryview(raw)):
        read = MetadataRequest.decode(data, 13)
        assert read.topics is None
        assert not read.allow_auto_topic_creation
    data_after_records = memoryview(ProduceRequest(topic_data=[]).encode(9) + b"more")
    assert ProduceRequest.decode(data_after_records, 9).topic_data == []


def test_a_tagged_field_must_fill_its_size() -> None:
    raw = bytearray(FetchRequest(cluster_id="c").encode(12))
    at = raw.rindex(b"\x01\x00\x02\x02c")
    raw[at + 2] = 3
    raw.append(0)
    with pytest.raises(WireError, match=r"cluster_id at byte .* tagged field takes 2 bytes, its size says 3"):
        FetchRequest.decode(raw, 12)


def test_many_small_elements_cost_memory_in_proportion_to_their_bytes() -> None:
    """The densest honest request: what a byte on the wire may become in memory has a bound."""
    request = FetchRequest(topics=[FetchTopic() for _ in range(20_000)])
    raw = request.encode(4)
    tracemalloc.start()
    read = FetchRequest.decode(raw, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(read.topics) == 20_000
    assert peak < 60 * len(raw)
