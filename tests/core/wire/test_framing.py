"""Frames come out whole however the stream is cut, and a peer cannot make us keep what it has not sent.

Method: streams cut at random, compared with the list of frames that went in; lengths that lie; headers of every kind.
"""

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.wire.framing import (
    RECEIVE_BUFFER_BYTES,
    SOCKET_REQUEST_MAX_BYTES,
    TRUSTED_BYTES_MAX,
    TRUSTED_FRAME_BYTES,
    FrameReader,
    ReceiveBuffer,
    RequestHeader,
    RequestHeaders,
    read_request_header,
    read_response_header,
    request_frame,
    request_frame_parts,
    response_frame,
    response_frame_parts,
)
from semel.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.core.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.registry import ApiKey
from semel.errors import FrameTooLargeError, SemelError, UnsupportedVersionError, WireError

SIZES = st.one_of(
    st.integers(0, 40),
    st.sampled_from(
        [RECEIVE_BUFFER_BYTES - 4, RECEIVE_BUFFER_BYTES - 3, RECEIVE_BUFFER_BYTES, 3 * RECEIVE_BUFFER_BYTES]
    ),
)


def _framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(sizes=st.lists(SIZES, max_size=8), cuts=st.lists(st.integers(1, 40_000), min_size=1, max_size=20))
def test_frames_come_out_whole_and_in_order_however_the_stream_is_cut(
    sizes: list[int], cuts: list[int]
) -> None:
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = _framed(frames)
    reader, received, position, turn = FrameReader(), list[bytearray](), 0, 0
    while position < len(stream):
        count = cuts[turn % len(cuts)]
        received += reader.feed(stream[position : position + count])
        position += count
        turn += 1
    assert received == frames
    assert reader.pending_bytes == 0


@given(sizes=st.lists(SIZES, max_size=8), reads=st.lists(st.integers(1, 20_000), min_size=1, max_size=20))
def test_a_buffered_protocol_reads_the_same_frames(sizes: list[int], reads: list[int]) -> None:
    """As asyncio does it: into the buffer it was given, as much as there is."""
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream, reader, received, position, turn = _framed(frames), FrameReader(), list[bytearray](), 0, 0
    while position < len(stream):
        buffer = reader.get_buffer(65536)
        assert len(buffer) > 0
        count = min(len(buffer), reads[turn % len(reads)], len(stream) - position)
        buffer[:count] = stream[position : position + count]
        received += reader.buffer_updated(count)
        position += count
        turn += 1
    assert received == frames


@given(
    streams=st.lists(st.lists(SIZES, max_size=4), min_size=2, max_size=4),
    reads=st.lists(st.tuples(st.integers(0, 3), st.integers(500, 70_000)), min_size=1, max_size=30),
)
def test_readers_that_share_a_buffer_do_not_hear_each_other(
    streams: list[list[int]], reads: list[tuple[int, int]]
) -> None:
    frames = [
        [bytes([17 * who + number + 1]) * size for number, size in enumerate(sizes)]
        for who, sizes in enumerate(streams)
    ]
    shared = ReceiveBuffer()
    readers = [FrameReader(buffer=shared) for _ in streams]
    left = [_framed(own) for own in frames]
    received: list[list[bytearray]] = [[] for _ in streams]
    turn = 0
    while any(left):
        who, count = reads[turn % len(reads)]
        who = (who + turn // len(reads)) % len(streams)
        buffer = readers[who].get_buffer(-1)
        count = min(len(buffer), count, len(left[who]))
        buffer[:count], left[who] = left[who][:count], left[who][count:]
        received[who] += readers[who].buffer_updated(count)
        turn += 1
    assert received == frames


def test_one_byte_at_a_time() -> None:
    reader = FrameReader()
    received = [frame for byte in _framed([b"abc", b"", b"de"]) for frame in reader.feed(bytes([byte]))]
    assert received == [b"abc", b"", b"de"]


def test_a_frame_stays_good_while_later_ones_arrive() -> None:
    reader = FrameReader()
    (first,) = reader.feed(_framed([b"first"]))
    view = memoryview(first)
    (second,) = reader.feed(_framed([b"other"]))
    first[0:1] = b"F"  # Batches are patched in their frame.
    assert bytes(view) == b"First"
    assert second == b"other"


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_length_is_refused(size: int) -> None:
    with pytest.raises(WireError, match=f"a peer announced a frame of {size} bytes"):
        FrameReader().feed(size.to_bytes(4, "big", signed=True))


def test_a_frame_above_the_limit_is_refused_before_anything_of_it_is_kept() -> None:
    reader = FrameReader(1000, peer="10.0.0.7:5000")
    assert reader.feed(_framed([bytes(1000)])) == [bytes(1000)]
    with pytest.raises(
        FrameTooLargeError, match=r"10.0.0.7:5000 announced a frame of 1001 bytes, .* allows 1000"
    ):
        reader.feed((1001).to_bytes(4, "big"))


def test_the_limit_is_kafkas_default() -> None:
    with pytest.raises(FrameTooLargeError, match="allows 104857600"):
        FrameReader().feed((SOCKET_REQUEST_MAX_BYTES + 1).to_bytes(4, "big"))


def test_http_on_the_port_is_refused_at_once() -> None:
    with pytest.raises(FrameTooLargeError):
        FrameReader().feed(b"GET / HTTP/1.1\r\n")


def test_an_announced_length_alone_takes_no_memory() -> None:
    """A hundred megabytes announced, a few bytes sent: about a megabyte kept."""
    reader = FrameReader()
    tracemalloc.start()
    reader.feed(SOCKET_REQUEST_MAX_BYTES.to_bytes(4, "big") + b"few")
    reader.get_buffer()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * TRUSTED_FRAME_BYTES


def test_what_many_announce_together_takes_little_and_every_frame_comes_whole() -> None:
    """Beyond what is trusted to all of them a frame begins small; and trust comes back when a frame is complete or lost."""
    size = 2 * TRUSTED_FRAME_BYTES
    content = bytes(range(256)) * (size // 256)
    buffer = ReceiveBuffer()
    count = 4 * TRUSTED_BYTES_MAX // TRUSTED_FRAME_BYTES
    readers = [FrameReader(buffer=buffer) for _ in range(count)]
    tracemalloc.start()
    for reader in readers:
        reader.feed(size.to_bytes(4, "big") + content[:10])
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < TRUSTED_BYTES_MAX + 2 * TRUSTED_FRAME_BYTES
    late = readers[-1]
    assert late.feed(content[10:-1]) == []
    (frame,) = late.feed(content[-1:])
    assert frame == content
    for reader in readers[1:]:
        reader.forget()
    (frame,) = readers[0].feed(content[10:])
    assert frame == content
    assert buffer.trusted_bytes == 0


def test_a_large_frame_grows_with_what_arrives() -> None:
    size = 5 * TRUSTED_FRAME_BYTES
    reader = FrameReader()
    content = bytes(range(256)) * (size // 256)
    assert reader.feed(size.to_bytes(4, "big") + content[: size // 2]) == []
    assert reader.pending_bytes == 4 + size // 2
    (frame,) = reader.feed(content[size // 2 :])
    assert frame == content


@pytest.mark.parametrize("client_id", [None, "", "client-1", "über"])
@pytest.mark.parametrize(("version", "header_version"), [(3, 1), (4, 2)])
def test_a_request_frame_reads_back(client_id: str | None, version: int, header_version: int) -> None:
    header = RequestHeader(ApiKey.HEARTBEAT, version, 77, client_id)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    (frame,) = FrameReader().feed(request_frame(header, request))
    read, position = read_request_header(frame)
    assert read == header
    assert HeartbeatRequest.decode(frame, version, position) == request
    text = b"" if client_id is None else client_id.encode()
    assert position == 10 + len(text) + (header_version - 1)


def test_tagged_fields_in_a_request_header_are_passed_over() -> None:
    frame = b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01c" + b"\x01\x05\x03abc" + b"body"
    assert read_request_header(frame) == (RequestHeader(12, 4, 7, "c"), len(frame) - 4)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "request header: 0 bytes, at least 10 are needed"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00", "9 bytes, at least 10"),
        (
            b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x05abc",
            "client_id at byte 10: string of 5 bytes, 3 are left",
        ),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xfe", "string of length -2"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01\xff\x00", "not UTF-8"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01c", "unsigned varint is cut off"),
        (b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x01c\x01\x05\x09abc", "tagged field of 9 bytes, 3 are left"),
    ],
)
def test_a_broken_request_header_is_refused_with_its_place(frame: bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        read_request_header(frame)


def test_a_request_of_an_unknown_api_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="API key 999 is unknown"):
        read_request_header((999).to_bytes(2, "big") + bytes(20))


def test_an_api_versions_request_from_the_future_has_a_readable_header() -> None:
    """Else it could not be answered with error 35 (PROTOCOL trap 30)."""
    frame = b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01c\x00" + b"whatever the future brings"
    assert read_request_header(frame) == (RequestHeader(18, 99, 7, "c"), 12)


def _read(frame: bytearray) -> tuple[object, ...]:
    header, position = read_request_header(frame)
    return (*header, position)


def _outcome(read: Callable[[bytearray], tuple[object, ...]], frame: bytearray) -> tuple[object, ...]:
    try:
        return read(frame)
    except SemelError as error:
        return type(error), str(error)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 12, 18, 999]),
            st.integers(-1, 13),
            st.integers(-3, 6),
            st.sampled_from(
                [
                    b"",
                    b"\x00",
                    b"a\x00",
                    b"ab\x00",
                    b"ab\x00c",
                    b"abc\x00\x00",
                    b"\xff\x00b",
                    b"a\x01\x05\x00x",
                ]
            ),
        ),
        max_size=30,
    )
)
def test_headers_that_were_looked_up_are_those_that_were_read(
    starts: list[tuple[int, int, int, bytes]],
) -> None:
    """Also for lengths that lie, frames that end early, and headers that are none."""
    headers = RequestHeaders()
    for number, (key, version, size, rest) in enumerate(starts):
        frame = bytearray(struct.pack(">hhih", key, version, number, size) + rest)
        assert _outcome(headers.read, frame) == _outcome(_read, frame)


@pytest.mark.parametrize(("version", "start"), [(3, "0000000a00000007"), (4, "0000000c0000000700")])
def test_a_response_frame_reads_back(version: int, start: str) -> None:
    response = HeartbeatResponse(error_code=27)
    whole = response_frame(7, response, version)
    assert whole.hex().startswith(start)
    (frame,) = FrameReader().feed(whole)
    correlation_id, position = read_response_header(frame, 0 if version < 4 else 1)
    assert correlation_id == 7
    assert HeartbeatResponse.decode(frame, version, position) == response


def test_the_answer_to_api_versions_has_no_tagged_header() -> None:
    """PROTOCOL trap 30: the body follows the correlation id at once, in flexible versions too."""
    response = ApiVersionsResponse()
    assert response_frame(7, response, 4)[8:] == response.encode(4)
    request = request_frame(RequestHeader(ApiKey.API_VERSIONS, 4, 7, "c"), ApiVersionsRequest())
    assert request[4:16] == b"\x00\x12\x00\x04\x00\x00\x00\x07\x00\x01c\x00"


@pytest.mark.parametrize("version", [11, 12])
def test_a_response_frame_in_parts_is_the_same_frame(version: int) -> None:
    partition = PartitionData(partition_index=1, records=memoryview(b"records"))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[partition])])
    parts = response_frame_parts(7, response, version)
    assert b"".join(parts) == response_frame(7, response, version)
    assert any(part is partition.records for part in parts)


@pytest.mark.parametrize("frame", [b"", b"\x00\x00", b"\x00\x00\x00\x07", b"\x00\x00\x00\x07\x01\x05"])
def test_a_broken_response_header_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError, match="response header"):
        read_response_header(frame, 1)
    if len(frame) < 4:
        with pytest.raises(WireError, match="response header"):
            read_response_header(frame, 0)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_request_in_pieces_is_the_same_request_and_its_records_are_not_copied(version: int) -> None:
    records = bytearray(b"r" * 5000)
    data = [PartitionProduceData(index=1, records=records), PartitionProduceData(index=2, records=b"few")]
    request = ProduceRequest(
        acks=-1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    header = RequestHeader(0, version, 77, "client")
    parts = request_frame_parts(header, request)
    assert b"".join(parts) == request_frame(header, request)
    assert any(part is records for part in parts)
