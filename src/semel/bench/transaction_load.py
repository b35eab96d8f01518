"""Transactional producers as load on a broker that is not bound by its client.

Role.   `transact` runs many small transactions on plain sockets, under either protocol version; `fill_with_aborted` writes a log
        some of whose transactions are aborted and `scan` reads it; `introduce` gives transactional ids their producers.
Rules.  * Frames are encoded before the clock starts. Under v2 every end bumps the epoch by one, so that all epochs are known
          beforehand; the answers are compared with them.
        * Under v1 a transaction is AddPartitionsToTxn 3, Produce 11, EndTxn 4; under v2 Produce 12, EndTxn 5. One request of a
          producer is in flight, as its protocol asks.
        * A broker that is not done with the transaction before answers CONCURRENT_TRANSACTIONS: asked again a millisecond later.
          Clients wait longer (librdkafka 20 ms), which would be all there is to see.
        * Every answer is checked.
"""

import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from semel.bench.broker_load import (
    FETCH_VERSION,
    Load,
    LoadError,
    SmallRequests,
    Stopwatch,
    Wire,
    check,
    exchange,
    frame,
)
from semel.core.records.build import RecordInput, build_batch
from semel.core.records.control import build_marker
from semel.core.wire import framing
from semel.core.wire.message import Response
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.core.wire.registry import ApiKey, api
from semel.errors import ErrorCode

V1, V2 = 1, 2
"""The two protocols of transactions."""
_ADD_VERSION: Final = 3
_PRODUCE_VERSIONS: Final = {V1: 11, V2: 12}
_END_VERSIONS: Final = {V1: 4, V2: 5}
_INIT_VERSION: Final = 4
_FIND_VERSION: Final = 2
_TRANSACTION_KEY: Final = 1
_TIMEOUT_MS: Final = 60_000
_READY_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.001
_EPOCH_LAST: Final = 32_766
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_IDENTITY: Final = Struct(">qh")
_CODE_MARK: Final = 0x5EAD
_IN_FLIGHT: Final = 50
_FIRST_STEPS: Final = 3
_NOT_LED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Kafka's answers, for a moment, about partitions whose leaders it has told already."""
_COMING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_COMMITTED: Final = 1
"""isolation_level of a Fetch."""


class Step(NamedTuple):
    """One request, and where its answer says whether it went well."""

    request: bytes
    code_position: int
    ends: bool = False
    identity: bytes = b""
    """Of an EndTxn 5: the identity that its answer must carry."""


@dataclass(slots=True)
class _Running:
    """One producer at work."""

    wire: Wire
    steps: Sequence[Step]
    done: int = 0
    began: float = 0.0
    answer: bytearray = field(default_factory=bytearray)
    ask_again_at: float = 0.0

    def send(self) -> None:
        self.began = self.began or time.perf_counter()
        self.wire.socket.sendall(self.steps[self.done].request)


def await_transactions(wire: Wire, transactional_id: str) -> None:
    """Until the broker coordinates this id: the first one has its topic made."""
    deadline = time.monotonic() + _READY_SECONDS
    request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION_KEY)
    while True:
        code = wire.ask(ApiKey.FIND_COORDINATOR, request, _FIND_VERSION).error_code
        code = code or _init(wire, transactional_id).error_code
        if not code:
            return
        if time.monotonic() > deadline:
            raise LoadError(f"no coordinator for {transactional_id}: {ErrorCode(code).name}")
        time.sleep(0.02)


def _init(wire: Wire, transactional_id: str) -> InitProducerIdResponse:
    return wire.ask(ApiKey.INIT_PRODUCER_ID, _init_request(transactional_id), _INIT_VERSION)


def _init_request(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_TIMEOUT_MS)


def transact(
    bootstrap: str,
    topic: str,
    names: Sequence[str],
    *,
    count: int,
    protocol: int,
    size_bytes: int = 100,
) -> Load:
    """`count` transactions of one record by each of the named producers, producer i on partition i. Latencies are EndTxn's."""
    running: list[_Running] = []
    try:
        for partition, name in enumerate(names):
            wire = Wire(bootstrap)
            running.append(_Running(wire, ()))
            await_transactions(wire, name)
            running[-1].steps = steps_of(wire, name, topic, partition, count, protocol, size_bytes)
        watch = Stopwatch()
        latencies = _run(running)
        seconds, cpu = watch.seconds()
    finally:
        for one in running:
            one.wire.socket.close()
    transactions = count * len(names)
    return Load(seconds, cpu, transactions, transactions * size_bytes, latencies)


def steps_of(
    wire: Wire, name: str, topic: str, partition: int, count: int, protocol: int, size_bytes: int
) -> list[Step]:
    """Everything one producer will send."""
    owner = _init(wire, name)
    check(f"introducing {name}", owner.error_code)
    producer_id, first_epoch = owner.producer_id, owner.producer_epoch
    if protocol == V2 and first_epoch + count > _EPOCH_LAST:
        raise LoadError(f"{count} transactions from epoch {first_epoch} on would use up the producer id")
    add_position, produce_position, end_position = _code_positions(topic, protocol)
    now_ms = int(time.time() * 1000)
    record = RecordInput(key=None, value=bytes(size_bytes), timestamp_ms=now_ms)
    add = b""
    if protocol == V1:
        joining = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=first_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        add = frame(ApiKey.ADD_PARTITIONS_TO_TXN, joining, _ADD_VERSION, 1)
    steps: list[Step] = []
    for number in range(count):
        epoch = first_epoch + (number if protocol == V2 else 0)
        batch = build_batch(
            [record],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=number if protocol == V1 else 0,
            transactional=True,
        )
        if add:
            steps.append(Step(add, add_position))
        steps.append(Step(_produce_frame(name, topic, partition, bytes(batch), protocol), produce_position))
        end = _end_frame(name, producer_id, epoch, protocol=protocol, commit=True)
        identity = _IDENTITY.pack(producer_id, epoch + 1) if protocol == V2 else b""
        steps.append(Step(end, end_position, ends=True, identity=identity))
    return steps


def _produce_frame(name: str, topic: str, partition: int, records: bytes, protocol: int) -> bytes:
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    return frame(ApiKey.PRODUCE, request, _PRODUCE_VERSIONS[protocol], 1)


def _end_frame(name: str, producer_id: int, epoch: int, *, protocol: int, commit: bool) -> bytes:
    request = EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    return frame(ApiKey.END_TXN, request, _END_VERSIONS[protocol], 1)


def _code_positions(topic: str, protocol: int) -> tuple[int, int, int]:
    """Where the error code stands in answers about one partition: found by encoding one."""
    added = AddPartitionsToTxnPartitionResult(partition_error_code=_CODE_MARK)
    produced = PartitionProduceResponse(error_code=_CODE_MARK)
    return (
        _code_position(
            AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=[
                    AddPartitionsToTxnTopicResult(name=topic, results_by_partition=[added])
                ]
            ),
            _ADD_VERSION,
        ),
        _code_position(
            ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[produced])]),
            _PRODUCE_VERSIONS[protocol],
        ),
        _code_position(EndTxnResponse(error_code=_CODE_MARK), _END_VERSIONS[protocol]),
    )


def _code_position(response: Response, version: int) -> int:
    return framing.response_frame(1, response, version).index(_INT16.pack(_CODE_MARK))


def _run(running: Sequence[_Running]) -> list[float]:
    """Every step of every producer; how long each end took."""
    latencies: list[float] = []
    waiting: list[_Running] = []
    with selectors.DefaultSelector() as selector:
        left = len(running)
        for one in running:
            selector.register(one.wire.socket, selectors.EVENT_READ, one)
            one.send()
        while left:
            for key, _events in selector.select(_AGAIN_SECONDS if waiting else None):
                one = key.data
                if not _received(one):
                    continue
                step = one.steps[one.done]
                code = _INT16.unpack_from(one.answer, step.code_position)[0]
                if code == ErrorCode.CONCURRENT_TRANSACTIONS or (
                    one.done < _FIRST_STEPS and code in _NOT_LED
                ):
                    one.ask_again_at = time.perf_counter() + _AGAIN_SECONDS
                    waiting.append(one)
                else:
                    _settle(one, step, code, latencies)
                    if one.done < len(one.steps):
                        one.send()
                    else:
                        left -= 1
                one.answer.clear()
            if waiting:
                now = time.perf_counter()
                for one in [one for one in waiting if one.ask_again_at <= now]:
                    waiting.remove(one)
                    one.send()
    return latencies


def _received(one: _Running) -> bool:
    """Take what has come; whether the answer is whole."""
    piece = one.wire.socket.recv(65536)
    if not piece:
        raise LoadError("the broker closed the connection")
    one.answer += piece
    size = len(one.answer)
    return size >= _INT32.size and size == _INT32.unpack_from(one.answer)[0] + _INT32.size


def _settle(one: _Running, step: Step, code: int, latencies: list[float]) -> None:
    if code:
        raise LoadError(f"request {one.done} of a producer: the broker answered {ErrorCode(code).name}")
    if step.ends:
        latencies.append(time.perf_counter() - one.began)
        if step.identity and step.identity not in one.answer:
            raise LoadError("an EndTxn was answered with another identity than the next epoch's")
    one.began = 0.0
    one.done += 1


# A log of which some transactions are aborted


@dataclass(frozen=True, slots=True)
class Mixed:
    """The transactions written by `fill_with_aborted`: equal, with one batch each."""

    transactions: int
    records: int
    """In each."""
    transaction_bytes: int
    """Batch and marker."""
    aborted: int


def fill_with_aborted(
    wire: Wire, topic: str, name: str, *, transactions: int, records: int, size_bytes: int, abort_every: int
) -> Mixed:
    """Transactions one after the other on partition 0; every `abort_every`th is aborted."""
    await_transactions(wire, name)
    owner = _init(wire, name)
    check(f"introducing {name}", owner.error_code)
    producer_id, first_epoch = owner.producer_id, owner.producer_epoch
    now_ms = int(time.time() * 1000)
    many = [RecordInput(key=None, value=bytes(size_bytes), timestamp_ms=now_ms)] * records
    _add, produce_position, end_position = _code_positions(topic, V2)
    steps: list[Step] = []
    size = 0
    for number in range(transactions):
        epoch = first_epoch + number
        batch = build_batch(
            many, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        size = len(batch)
        steps.append(Step(_produce_frame(name, topic, 0, bytes(batch), V2), produce_position))
        commit = number % abort_every != abort_every - 1
        steps.append(
            Step(_end_frame(name, producer_id, epoch, protocol=V2, commit=commit), end_position, ends=True)
        )
    _run([_Running(wire, steps)])
    marker = build_marker(
        producer_id=producer_id,
        producer_epoch=first_epoch,
        coordinator_epoch=0,
        commit=True,
        timestamp_ms=now_ms,
        base_offset=0,
        partition_leader_epoch=0,
    )
    return Mixed(transactions, records, size + len(marker), transactions // abort_every)


def scan(wire: Wire, topic: str, mixed: Mixed, *, committed: bool, per_fetch: int) -> Load:
    """Read the whole log, `per_fetch` transactions at a time; what is aborted is counted, not taken out."""
    wanted = per_fetch * mixed.transaction_bytes
    frames = [
        _scan_frame(topic, first * (mixed.records + 1), wanted, committed=committed)
        for first in range(0, mixed.transactions, per_fetch)
    ]
    answers: list[bytes] = []
    sent = 0
    watch = Stopwatch()
    while len(answers) < len(frames):
        while sent < len(frames) and sent - len(answers) < 2:
            wire.socket.sendall(frames[sent])
            sent += 1
        answers.append(wire.receive())
    seconds, cpu = watch.seconds()
    aborted = got = 0
    for answer in answers:
        _id, position = framing.read_response_header(answer, api(ApiKey.FETCH).response_header(FETCH_VERSION))
        found = FetchResponse.decode(answer, FETCH_VERSION, position).responses[0].partitions[0]
        check(f"fetching from {topic}", found.error_code)
        aborted += len(found.aborted_transactions or ())
        got += len(found.records or b"")
    # A broker may name more than a range holds: it looks up where the range ends in a sparse index.
    told = aborted >= mixed.aborted if committed else not aborted
    if got != mixed.transactions * mixed.transaction_bytes or not told:
        raise LoadError(
            f"{topic}: {got} bytes and {aborted} aborted transactions came of "
            f"{mixed.transactions * mixed.transaction_bytes} and {mixed.aborted}"
        )
    return Load(seconds, cpu, mixed.transactions * mixed.records, got)


def _scan_frame(topic: str, offset: int, max_bytes: int, *, committed: bool) -> bytes:
    one = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=_COMMITTED if committed else 0,
        topics=[FetchTopic(topic=topic, partitions=[one])],
    )
    return frame(ApiKey.FETCH, request, FETCH_VERSION, 1)


# Many transactional ids


def introduce(wire: Wire, names: Sequence[str], *, in_flight: int = _IN_FLIGHT) -> Load:
    """InitProducerId for each of these ids, all of one length. A coordinator that is not ready is asked again."""
    left = list(names)
    seconds = cpu = 0.0
    latencies: list[float] = []
    deadline = time.monotonic() + 10 * _READY_SECONDS
    while left:
        frames = [frame(ApiKey.INIT_PRODUCER_ID, _init_request(name), _INIT_VERSION, 1) for name in left]
        requests = SmallRequests(b"".join(frames), len(frames[0]), 0, len(frames))
        load, answers = exchange(wire, requests, in_flight=in_flight)
        seconds, cpu = seconds + load.seconds, cpu + load.client_cpu
        latencies += load.latencies
        again: list[str] = []
        for name, answer in zip(left, answers, strict=True):
            code = InitProducerIdResponse.decode(answer, _INIT_VERSION, _INT32.size + 1).error_code
            if code in _COMING:
                again.append(name)
            else:
                check(f"introducing {name}", code)
        left = again
        if left and time.monotonic() > deadline:
            raise LoadError(f"{len(left)} transactional ids have no producer")
    return Load(seconds, cpu, len(names), 0, latencies)
