"""Every message of every version survives the wire, and compiled code does what the table says.

Method: seeded random messages of all APIs and versions, written and read by the compiled codecs and by the plain walk
over the same table; then the rules of the language one by one.
"""

import random
import subprocess
import sys

import pytest

from semel.core.wire import plain
from semel.core.wire.compile_read import reader_source
from semel.core.wire.message import Message
from semel.core.wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from semel.core.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from semel.errors import UnsupportedVersionError, WireError
from semel.types import BytesLike
from support.wire.wire_values import all_messages, every_version, random_message, versions_of


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_every_version_reads_back_and_compiled_agrees_with_the_table(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in versions_of(cls):
        flexible = version in cls.schema.flexible
        for unknown_tags in (False, False, True, True):
            message = random_message(rng, cls, version, unknown_tags=unknown_tags)
            raw = message.encode(version)
            assert raw == b"".join(plain.write(message, version=version, flexible=flexible))
            assert cls.decode(raw, version) == message
            assert plain.read(cls, raw, 0, version=version, flexible=flexible) == message
            assert b"".join(message.encode_parts(version)) == raw


def test_a_default_message_can_be_written_in_every_version() -> None:
    for cls, version in every_version():
        assert cls.decode(cls().encode(version), version) == cls()


def test_any_buffer_and_any_position_can_be_read() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    raw = message.encode(4)
    for buffer in (raw, bytearray(raw), memoryview(raw)):
        assert HeartbeatRequest.decode(buffer, 4) == message
    assert HeartbeatRequest.decode(b"header" + raw, 4, position=6) == message


@pytest.mark.parametrize("version", [3, 9, 13])
def test_records_are_slices_of_the_frame_that_can_be_patched_in_place(version: int) -> None:
    partition = PartitionProduceData(index=1, records=b"batch bytes")
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="orders" if version < 13 else "", partition_data=[partition])]
    )
    frame = bytearray(request.encode(version))
    for buffer in (frame, memoryview(frame)):
        read = ProduceRequest.decode(buffer, version).topic_data[0].partition_data[0].records
        assert isinstance(read, memoryview)
        assert bytes(read) == b"batch bytes"
        assert not read.readonly
        read[0:5] = b"BATCH"
        assert b"BATCH bytes" in frame
        read[0:5] = b"batch"


class FileRange:
    """Stands for bytes that will be sent from a file."""

    def __len__(self) -> int:
        return 1000


def test_a_response_in_parts_leaves_records_to_whoever_sends_them() -> None:
    """The parts `sendfile` needs: the bytes before, the file range, the bytes after."""
    place: BytesLike = FileRange()  # type: ignore[assignment]  # not bytes: that is the test
    first, second = (PartitionData(partition_index=i, records=place) for i in (0, 1))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[first, second])])
    parts = response.encode_parts(12)
    assert [part is place for part in parts] == [False, True, False, True, False]
    whole = b"".join(bytes(1000) if part is place else part for part in parts)
    read = FetchResponse.decode(whole, 12)
    assert [len(one.records or b"") for one in read.responses[0].partitions] == [1000, 1000]
    with pytest.raises(WireError, match="use encode_parts"):
        response.encode(12)
    response.unknown_tags = ((9, b"new"),)  # Written the slow way, in parts all the same.
    assert [part is place for part in response.encode_parts(12)] == [False, True, False, True, False]


def test_large_record_bytes_are_not_copied_into_parts() -> None:
    records = bytes(100_000)
    partition = PartitionData(partition_index=0, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[partition])])
    assert any(part is records for part in response.encode_parts(11))


def test_fields_of_other_versions_have_their_defaults() -> None:
    read = FetchRequest.decode(FetchRequest(max_wait_ms=5).encode(4), 4)
    assert (read.max_wait_ms, read.session_epoch, read.rack_id, read.forgotten_topics_data) == (5, -1, "", [])


def test_a_tagged_struct_is_none_until_somebody_sets_it() -> None:
    """Absent on the wire; written only where it differs from its default, as Kafka does."""
    assert FetchRequest.decode(FetchRequest().encode(15), 15).replica_state is None
    follower = FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=9))
    assert FetchRequest.decode(follower.encode(15), 15) == follower
    assert FetchRequest(replica_state=ReplicaState()).encode(15) == FetchRequest().encode(15)


def test_a_nullable_struct_is_null_or_there() -> None:
    for assignment in (None, Assignment()):
        message = ConsumerGroupHeartbeatResponse(member_id="m", assignment=assignment)
        assert ConsumerGroupHeartbeatResponse.decode(message.encode(0), 0).assignment == assignment


def test_unknown_tagged_fields_are_kept_and_written_back() -> None:
    raw = HeartbeatRequest(group_id="g", member_id="m").encode(4)
    assert raw[-1] == 0
    newer = raw[:-1] + b"\x02" + b"\x05\x03abc" + b"\x90\x01\x00"
    read = HeartbeatRequest.decode(newer, 4)
    assert read.unknown_tags == ((5, b"abc"), (144, b""))
    assert read.encode(4) == newer


def test_unknown_tags_stand_in_order_with_known_ones() -> None:
    """A tag between known ones, as a newer peer could send it."""
    leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    partition = PartitionProduceResponse(current_leader=leader, unknown_tags=((7, b"x"),))
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    raw = response.encode(10)
    assert ProduceResponse.decode(raw, 10) == response
    clash = PartitionProduceResponse(current_leader=leader, unknown_tags=((0, b"x"),))
    with pytest.raises(WireError, match="tag 0 is current_leader and among the unknown tags too"):
        ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[clash])]).encode(10)


def test_what_a_version_cannot_carry_is_refused_not_dropped() -> None:
    """KIP-447: a member that must be fenced may not lose its generation on the way."""
    request = TxnOffsetCommitRequest(group_id="g", generation_id=4)
    assert TxnOffsetCommitRequest.decode(request.encode(3), 3).generation_id == 4
    with pytest.raises(
        UnsupportedVersionError,
        match=r"v2: generation_id exists in versions 3\+ only and is 4, not its default -1",
    ):
        request.encode(2)


def test_what_may_be_ignored_is_dropped() -> None:
    assert FetchRequest(rack_id="here").encode(4) == FetchRequest().encode(4)


@pytest.mark.parametrize(
    ("message", "version", "text"),
    [
        (HeartbeatRequest(generation_id=2**31), 4, "generation_id cannot be written: 2147483648 is no int32"),
        (HeartbeatRequest(group_id=None), 4, "group_id cannot be written: it may not be null"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="x" * 40_000), 4, "40000 bytes is longer than 32767"),
        (HeartbeatRequest(group_id="x" * 40_000), 0, "40000 bytes is longer than 32767"),
        (HeartbeatRequest(group_id=b"g"), 0, "b'g' is not a string"),  # type: ignore[arg-type]
        (MetadataRequest(topics=None), 0, "topics cannot be written: it may not be null in this version"),
        (ProduceRequest(acks="all"), 9, "'all' is no int16"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=[TopicProduceData(topic_id=b"short")]), 13, r"topic_data\[0\].topic_id cannot"),
        (ProduceRequest(topic_data=[None]), 13, r"topic_data\[0\] cannot be written: None is no TopicProduceData"),  # type: ignore[list-item]
        (ProduceRequest(topic_data=7), 13, "7 is not a list"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named(message: Message, version: int, text: str) -> None:
    with pytest.raises(WireError, match=text):
        message.encode(version)


def test_a_version_without_a_table_is_refused() -> None:
    with pytest.raises(
        UnsupportedVersionError, match="HeartbeatRequest has versions 0-4, version 5 was asked for"
    ):
        HeartbeatRequest().encode(5)
    with pytest.raises(
        UnsupportedVersionError, match="ProduceRequest has versions 3-13, version 2 was asked for"
    ):
        ProduceRequest.decode(b"", 2)


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="grup_id"):
        HeartbeatRequest(grup_id="g")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        HeartbeatRequest().grup_id = "g"  # type: ignore[attr-defined]


def test_arrays_are_not_shared_between_messages() -> None:
    one, other = ProduceRequest(), ProduceRequest()
    one.topic_data.append(TopicProduceData())
    assert other.topic_data == []


def test_messages_show_and_compare_by_value() -> None:
    text = "HeartbeatRequest(group_id='g', generation_id=0, member_id='', group_instance_id=None)"
    assert repr(HeartbeatRequest(group_id="g")) == text
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert repr(HeartbeatRequest(unknown_tags=((1, b""),))).endswith("unknown_tags=((1, b''),))")
    assert HeartbeatRequest() != "heartbeat"


def test_fixed_runs_are_read_by_one_call() -> None:
    """The codec stays fast: the five fixed fields of a classic Fetch are one `struct` call, not five."""
    source, _ = reader_source(FetchRequest, version=11, flexible=False)
    calls = [line for line in source.splitlines() if "o0.max_wait_ms" in line]
    assert len(calls) == 1
    assert "o0.replica_id, o0.max_wait_ms, o0.min_bytes, o0.max_bytes, o0.isolation_level" in calls[0]


def test_importing_the_codec_imports_no_message() -> None:
    """A client that only produces never pays for the other APIs."""
    code = (
        "import sys, semel.core.wire.registry as r; r.api(0).request;"
        "print(sorted(m.rsplit('.', 1)[1] for m in sys.modules if m.startswith('semel.core.wire.messages.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['produce']"
