"""Load on a broker that is not bound by its client: requests built beforehand, sent over plain sockets.

Role.   `Wire` is a connection that speaks a few requests; `produce_large`, `produce_small` and `fetch` are the loads.
Flow.   `broker` makes a topic, builds what will be sent, and times these functions.
Rules.  * Building is not timed. Numbering a large batch is, because keeping many of them would take gigabytes: its
          sequence changes and so its checksum.
        * Every answer is checked: those that are small after the clock has stopped, the records of a fetch only by
          their length, because the kernel throws them away unread.
        * Requests are in flight as in a client: the next one leaves when an answer makes room, not when all have come.
"""

import math
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, Self, TypeVar

from semel.core.records import batch
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.core.wire.registry import ApiKey, api
from semel.errors import ErrorCode, SemelError

PRODUCE_VERSION: Final = 11
FETCH_VERSION: Final = 12
_METADATA_VERSION: Final = 9
_LIST_OFFSETS_VERSION: Final = 5
_CREATE_VERSION: Final = 5
_DELETE_VERSION: Final = 4
_INIT_VERSION: Final = 4
_CLIENT: Final = "semel-bench"
_LENGTH: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_PRODUCER: Final = Struct(">qhi")  # Producer id, epoch and base sequence, as they stand in a batch header.
_PRODUCER_POSITION: Final = 43
_SEQUENCE: Final = Struct(">i")
_SEQUENCE_POSITION: Final = 53
_OFFSET_MARK: Final = 0x5E4E15E4E15E4E1
_TIMEOUT_SECONDS: Final = 60.0
_LEADER_TIMEOUT_SECONDS: Final = 30.0
_RECEIVE_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 96  # Of a fetch's answer: enough for its error codes.
_DISCARD: Final = getattr(socket, "MSG_TRUNC", 0)  # TCP on Linux: take the bytes without copying them.

R = TypeVar("R", bound=Response)


class LoadError(SemelError):
    """The broker answered with an error, or with something else than the load relies on."""


@dataclass(frozen=True, slots=True)
class Load:
    """The work of a load, its duration, and the client's CPU time."""

    seconds: float
    client_cpu: float
    units: int
    bytes: int
    latencies: Sequence[float] = field(default=(), repr=False)

    def latency(self, fraction: float) -> float:
        """The latency that this fraction of the requests did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


class Stopwatch:
    """Wall and CPU seconds of this process since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def seconds(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


class Wire:
    """One connection. Blocking; not for more than one thread."""

    def __init__(self, bootstrap: str) -> None:
        host, _colon, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self.bytes_moved = 0
        """By `ask`, both ways."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.socket.close()

    def ask(self, key: ApiKey, request: Request[R], version: int) -> R:
        """Send one request and wait for its answer."""
        self._correlation_id += 1
        sent = frame(key, request, version, self._correlation_id)
        self.socket.sendall(sent)
        answer = self.receive()
        self.bytes_moved += len(sent) + _LENGTH.size + len(answer)
        _correlation_id, position = framing.read_response_header(answer, api(key).response_header(version))
        response: R = api(key).response.decode(answer, version, position)  # type: ignore[assignment]  # R is the request's
        return response

    def receive(self) -> bytes:
        """One whole answer, without its length."""
        return self.exactly(_LENGTH.unpack(self.exactly(_LENGTH.size))[0])

    def exactly(self, count: int) -> bytes:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            got = self.socket.recv_into(view)
            if got == 0:
                raise LoadError("the broker closed the connection")
            view = view[got:]
        return bytes(buffer)

    # A little administration

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Make a topic and wait until every partition has a leader."""
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        answer = self.ask(ApiKey.CREATE_TOPICS, request, _CREATE_VERSION)
        check(f"creating {topic}", answer.topics[0].error_code)
        self.await_leaders(topic)

    def await_leaders(self, topic: str) -> None:
        """Ask for the topic, which makes it where the broker makes topics, until all its partitions are led."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        deadline = time.monotonic() + _LEADER_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            (described,) = self.ask(ApiKey.METADATA, request, _METADATA_VERSION).topics
            codes = [described.error_code, *(partition.error_code for partition in described.partitions)]
            if not any(codes) and described.partitions and self._is_led(topic, len(described.partitions)):
                return
            time.sleep(0.005)
        raise LoadError(f"{topic} has no leader after {_LEADER_TIMEOUT_SECONDS:.0f} s")

    def _is_led(self, topic: str, partitions: int) -> bool:
        """Whether every leader knows that it is one: Kafka tells who leads a moment before that."""
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        (answered,) = self.ask(ApiKey.LIST_OFFSETS, request, _LIST_OFFSETS_VERSION).topics
        return not any(partition.error_code for partition in answered.partitions)

    def delete_topic(self, topic: str) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        answer = self.ask(ApiKey.DELETE_TOPICS, request, _DELETE_VERSION)
        check(f"deleting {topic}", answer.responses[0].error_code)

    def producer_id(self) -> int:
        """A new producer id."""
        deadline = time.monotonic() + _LEADER_TIMEOUT_SECONDS
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            answer = self.ask(ApiKey.INIT_PRODUCER_ID, request, _INIT_VERSION)
            if not answer.error_code or time.monotonic() > deadline:
                break
            time.sleep(0.02)  # Kafka has no block of ids yet.
        check("asking for a producer id", answer.error_code)
        return answer.producer_id


@dataclass(slots=True)
class ProduceFrame:
    """A Produce request of one batch, to be numbered and sent again and again."""

    data: bytearray
    batch_position: int
    records: int

    @classmethod
    def of(cls, topic: str, records: bytes, partition: int = 0) -> "ProduceFrame":
        """acks=all. The batch is copied."""
        one = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[one])]
        )
        data = bytearray(frame(ApiKey.PRODUCE, request, PRODUCE_VERSION, 1))
        return cls(data, data.rindex(records), batch.read_header(records).records_count)

    @property
    def batch_bytes(self) -> int:
        return batch.read_header(self.data, self.batch_position).size_bytes

    def identify(self, producer_id: int) -> None:
        """Make it the first batch of a producer; of none, if the id is -1."""
        rest = 0 if producer_id >= 0 else -1
        _PRODUCER.pack_into(self.data, self.batch_position + _PRODUCER_POSITION, producer_id, rest, rest)
        batch.set_crc(self.data, self.batch_position, self.batch_bytes)

    def number(self, index: int) -> None:
        """Make it the producer's batch `index`, counted from 0."""
        _SEQUENCE.pack_into(self.data, self.batch_position + _SEQUENCE_POSITION, index * self.records)
        batch.set_crc(self.data, self.batch_position, self.batch_bytes)


def records_of(size_bytes: int, *, count: int = 0, batch_bytes: int = 0) -> bytes:
    """A batch of `count` records with values of `size_bytes`, or of as many as stay below `batch_bytes`."""
    now_ms = int(time.time() * 1000)
    record = RecordInput(key=None, value=bytes(i * 31 % 251 for i in range(size_bytes)), timestamp_ms=now_ms)
    if not count:
        few, many = (len(build_batch([record] * number)) for number in (100, 200))
        # Deltas of offsets take a byte more from record 64 and from record 8192 on: stay clear of the limit.
        count = int(batch_bytes / ((many - few) / 100 + 1))
    return bytes(build_batch([record] * count))


def produce_large(
    wire: Wire, request: ProduceFrame, count: int, *, in_flight: int, idempotent: bool = True
) -> Load:
    """`count` batches, numbered one after the other."""
    request.identify(wire.producer_id() if idempotent else -1)
    answers: list[bytes] = []
    sent = 0
    watch = Stopwatch()
    while len(answers) < count:
        while sent < count and sent - len(answers) < in_flight:
            if idempotent:
                request.number(sent)
            wire.socket.sendall(request.data)
            sent += 1
        answers.append(wire.receive())
    seconds, cpu = watch.seconds()
    _check_produced(answers, request.records)
    return Load(seconds, cpu, count, count * request.batch_bytes)


@dataclass(frozen=True, slots=True)
class SmallRequests:
    """Many requests of one size in one buffer, numbered beforehand."""

    data: bytes
    frame_bytes: int
    batch_bytes: int
    count: int


def small_requests(request: ProduceFrame, count: int, producer_id: int) -> SmallRequests:
    """`count` requests of one producer; with producer id -1 they carry no sequence."""
    request.identify(producer_id)
    made = bytearray()
    for index in range(count):
        if producer_id >= 0:
            request.number(index)
        made += request.data
    return SmallRequests(bytes(made), len(request.data), request.batch_bytes, count)


def produce_small(wire: Wire, requests: SmallRequests, *, in_flight: int) -> Load:
    """All requests, `in_flight` at a time. With one in flight each one's latency is kept."""
    load, answers = exchange(wire, requests, in_flight=in_flight)
    _check_produced(answers, 1)
    return load


def exchange(wire: Wire, requests: SmallRequests, *, in_flight: int) -> tuple[Load, list[bytes]]:
    """Send requests whose answers are all of one size, `in_flight` at a time; the answers are the caller's to check."""
    run = _one_by_one if in_flight == 1 else _many_in_flight
    watch = Stopwatch()
    answers, latencies = run(wire, requests, in_flight)
    seconds, cpu = watch.seconds()
    load = Load(seconds, cpu, requests.count, requests.count * requests.batch_bytes, latencies)
    return load, _cut(answers)


def _one_by_one(wire: Wire, requests: SmallRequests, _in_flight: int) -> tuple[bytes, list[float]]:
    data, size = memoryview(requests.data), requests.frame_bytes
    send, receive, clock = wire.socket.sendall, wire.socket.recv, time.perf_counter
    answers: list[bytes] = []
    latencies: list[float] = []
    answer_bytes = 0
    for position in range(0, len(data), size):
        start = clock()
        send(data[position : position + size])
        answer = receive(4096)
        while answer_bytes and len(answer) < answer_bytes:
            answer += receive(4096) or _closed()
        latencies.append(clock() - start)
        answer_bytes = answer_bytes or _LENGTH.unpack_from(answer)[0] + _LENGTH.size
        answers.append(answer)
    return b"".join(answers), latencies


def _many_in_flight(wire: Wire, requests: SmallRequests, in_flight: int) -> tuple[bytes, list[float]]:
    data, size, count = memoryview(requests.data), requests.frame_bytes, requests.count
    send, receive = wire.socket.sendall, wire.socket.recv
    send(data[: size * in_flight])
    sent = min(in_flight, count)
    answers = [first := receive(65536)]
    answer_bytes = _LENGTH.unpack_from(first)[0] + _LENGTH.size  # All are of one size; `_cut` would notice.
    received = len(first)
    while received < count * answer_bytes:
        allowed = min(count, received // answer_bytes + in_flight)
        if allowed > sent:
            send(data[sent * size : allowed * size])
            sent = allowed
        answers.append(receive(65536) or _closed())
        received += len(answers[-1])
    return b"".join(answers), []


def fetch(
    wire: Wire, topic: str, *, batches: int, batch: ProduceFrame, batches_per_fetch: int, in_flight: int = 2
) -> Load:
    """Read `batches` equal batches of partition 0, as many per request as asked for, and throw them away."""
    wanted = batches_per_fetch * batch.batch_bytes
    request, position = _fetch_frame(topic, wanted)
    count = batches // batches_per_fetch
    step = batches_per_fetch * batch.records
    scratch = bytearray(_RECEIVE_BYTES)
    sent = received_bytes = 0
    watch = Stopwatch()
    for done in range(count):
        while sent < count and sent - done < in_flight:
            _OFFSET.pack_into(request, position, sent * step)
            wire.socket.sendall(request)
            sent += 1
        length = _LENGTH.unpack(wire.exactly(_LENGTH.size))[0]
        head = wire.exactly(min(length, _HEAD_BYTES))
        if not wanted <= length <= wanted + 2 * _HEAD_BYTES:
            raise LoadError(f"{topic}: a fetch of {wanted} bytes was answered with {length}: {head.hex()}")
        _discard(wire.socket, length - len(head), scratch)
        received_bytes += length
    seconds, cpu = watch.seconds()
    return Load(seconds, cpu, count, received_bytes)


def fetch_first(wire: Wire, topic: str, partition: int = 0) -> int:
    """How many bytes of records a first fetch of a partition brings; waits until it is led."""
    deadline = time.monotonic() + _LEADER_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        request = fetch_request(topic, 1 << 20, 0, partition)
        answer = wire.ask(ApiKey.FETCH, request, FETCH_VERSION)
        found = answer.responses[0].partitions[0] if answer.responses else None
        if found is not None and not found.error_code and found.records:
            return len(found.records)
        time.sleep(0.005)
    raise LoadError(f"{topic}-{partition} gave no records for {_LEADER_TIMEOUT_SECONDS:.0f} s")


def produce_first(wire: Wire, topic: str) -> None:
    """One record acknowledged, the topic made on the way if there is none."""
    wire.await_leaders(topic)
    request = ProduceFrame.of(topic, records_of(100, count=1))
    request.identify(-1)
    deadline = time.monotonic() + _LEADER_TIMEOUT_SECONDS
    while True:
        wire.socket.sendall(request.data)
        code = produced(wire.receive()).error_code
        if not code or time.monotonic() > deadline:
            break
        time.sleep(0.005)
    check(f"producing to {topic}", code)


# Bytes


def frame(key: ApiKey, request: Request[R], version: int, correlation_id: int) -> bytes:
    return framing.request_frame(RequestHeader(key, version, correlation_id, _CLIENT), request)


def fetch_request(
    topic: str, max_bytes: int, offset: int, partition: int = 0, *, max_wait_ms: int = 500
) -> FetchRequest:
    """A Fetch of one partition, without a session."""
    one = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[one])],
    )


def _fetch_frame(topic: str, max_bytes: int) -> tuple[bytearray, int]:
    """A Fetch request without session, and where its offset stands."""
    data = frame(ApiKey.FETCH, fetch_request(topic, max_bytes, _OFFSET_MARK), FETCH_VERSION, 1)
    return bytearray(data), data.index(_OFFSET.pack(_OFFSET_MARK))


def _discard(connection: socket.socket, count: int, scratch: bytearray) -> None:
    while count:
        got = connection.recv_into(scratch, min(count, len(scratch)), _DISCARD)
        if got == 0:
            _closed()
        count -= got


def _closed() -> bytes:
    raise LoadError("the broker closed the connection")


def _cut(answers: bytes) -> list[bytes]:
    """Single answers out of a stream of them."""
    cut: list[bytes] = []
    position = 0
    while position < len(answers):
        size = _LENGTH.unpack_from(answers, position)[0]
        position += _LENGTH.size
        cut.append(answers[position : position + size])
        position += size
    return cut


def produced(answer: bytes) -> PartitionProduceResponse:
    """The result of the only batch of a request."""
    _id, position = framing.read_response_header(answer, api(ApiKey.PRODUCE).response_header(PRODUCE_VERSION))
    return ProduceResponse.decode(answer, PRODUCE_VERSION, position).responses[0].partition_responses[0]


def _check_produced(answers: Sequence[bytes], records: int) -> None:
    """Every batch was taken, each behind the one before it."""
    previous = None
    for answer in answers:
        stored = produced(answer)
        check("producing", stored.error_code)
        if previous is not None and stored.base_offset != previous + records:
            raise LoadError(f"a batch of {records} at offset {previous} was followed by {stored.base_offset}")
        previous = stored.base_offset


def check(what: str, code: int) -> None:
    """Raise `LoadError` for an error code."""
    if code:
        raise LoadError(f"{what}: the broker answered {ErrorCode(code).name}")
