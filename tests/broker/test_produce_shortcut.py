"""A request that is answered by the shortcut gets the bytes the long way would have given, and leaves the same log.

Method: a story of produce requests, good and bad, among topics that are deleted, made again and reconfigured, is told
twice to the same simulated broker: with the shortcut and without it. Every answer and the logs must be equal.
"""

import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from semel.broker.dispatch import Dispatch
from semel.broker.produce.shortcut import ProduceShortcut
from semel.core.records.build import RecordInput, build_batch
from semel.core.security.identity import ANONYMOUS, PLAINTEXT, USER, Identities, Principal
from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.message import Request
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told

TOPICS = ("orders", "payments")
STEPS = 500
_TOPIC_RESOURCE = 2
_ANSWER_START = 9  # Behind length, correlation id and tags.


class Peer:
    """A connection as far as handlers look at it."""

    peer = "a tester"

    def __init__(self, user: str = "") -> None:
        self.ended = 0
        principal = Principal(USER, user) if user else ANONYMOUS
        self.identity = Identities(PLAINTEXT).of(principal, self.peer)

    def end(self) -> None:
        self.ended += 1


def frame_of(request: Request[Any], version: int, number: int) -> bytearray:
    header = RequestHeader(request.schema.api_key, version, number, "tester")
    return bytearray(framing.request_frame(header, request)[4:])


class Teller:
    """Makes up the next request. The same seed tells the same story."""

    def __init__(self, seed: int, client: Client) -> None:
        self._rng = random.Random(seed)
        self._client = client
        self._sequences: dict[tuple[str, int, int], int] = {}

    def produce(self) -> tuple[ProduceRequest, int]:
        rng = self._rng
        topic, partition = rng.choice(TOPICS), rng.choice((0, 0, 0, 0, 1, 7))
        producer_id = rng.choice((-1, 5, 5, 6))
        key = (topic, partition, producer_id)
        sequence = self._sequences.get(key, 0)
        back = rng.choice((0, 0, 0, 0, 1, 2, 9, -1)) if producer_id >= 0 else 0
        data = build_batch(
            [RecordInput(b"k", b"v" * rng.choice((1, 100)), 1_000)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=max(0, sequence - back) if producer_id >= 0 else -1,
            transactional=rng.random() < 0.03,
        )
        if back == 0:
            self._sequences[key] = sequence + 1
        if rng.random() < 0.05:
            data[-1] ^= 1
        if rng.random() < 0.03:
            del data[40:]
        row = self._client.broker.parts.store.image.topic(topic)
        wanted = TopicProduceData(
            name=topic,
            topic_id=row.topic_id.bytes if row else bytes(16),
            partition_data=[PartitionProduceData(index=partition, records=data)],
        )
        acks = rng.choice((-1, -1, -1, -1, 1, 0, 5))
        return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[wanted]), rng.choice(
            (8, 9, 11, 12, 13)
        )

    def next(self) -> tuple[Request[Any], int]:
        rng = self._rng
        topic = rng.choice(TOPICS)
        match rng.randrange(100):
            case 0:
                return DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1_000), 6
            case 1 | 2 | 3 | 4:
                made = CreatableTopic(name=topic, num_partitions=2, replication_factor=1)
                return CreateTopicsRequest(topics=[made], timeout_ms=1_000), 7
            case 5 | 6:
                name, value = rng.choice(
                    (
                        ("flush.messages", "1"),
                        ("flush.messages", str(2**63 - 1)),
                        ("flush.messages", str(2**63 - 1)),
                        ("message.timestamp.type", "LogAppendTime"),
                        ("message.timestamp.type", "CreateTime"),
                        ("max.message.bytes", "150"),
                        ("max.message.bytes", "100000"),
                    )
                )
                change = AlterableConfig(name=name, config_operation=0, value=value)
                resource = AlterConfigsResource(
                    resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=[change]
                )
                return IncrementalAlterConfigsRequest(resources=[resource]), 1
            case _:
                return self.produce()


def story_of(seed: int) -> tuple[list[object], int]:
    """Every answer and what the logs hold at the end; and how many requests took the shortcut."""
    heard: list[object] = []
    taken = 0
    by_shortcut = ProduceShortcut.answer

    def counted(shortcut: ProduceShortcut, *arguments: Any) -> bytes | None:
        nonlocal taken
        answer = by_shortcut(shortcut, *arguments)
        taken += answer is not None
        return answer

    async def tell(client: Client) -> None:
        dispatch, peer, teller = Dispatch(client.broker.parts), Peer(), Teller(seed, client)
        await client.create(*TOPICS, partitions=2)
        for number in range(STEPS):
            request, version = teller.next()
            answer = dispatch(frame_of(request, version, number), peer)  # type: ignore[arg-type]  # all they look at
            if isinstance(answer, Awaitable):
                answer = await answer
            heard.append((BY_KEY[ApiKey(request.schema.api_key)].name, version, answer, peer.ended))
        parts = client.broker.parts
        for partition in parts.partitions:
            log = partition.log
            heard.append(
                (log.topic_partition, log.log_end_offset, log.high_watermark, log.duplicates_dropped)
            )
            for segment in log.segments:
                heard.extend(bytes(data) for _position, _header, data in segment.scan())
        heard.append(sorted(parts.metrics.errors.items()))
        heard.append(sorted(parts.metrics.requests.items()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProduceShortcut, "answer", counted)
        told(tell)
    return heard, taken


@pytest.mark.parametrize("seed", range(8))
def test_the_shortcut_changes_no_answer_and_no_log(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_it, taken = story_of(seed)
    monkeypatch.setattr(ProduceShortcut, "answer", lambda *_arguments: None)
    without, _ = story_of(seed)
    assert taken > 10
    assert with_it == without


def producing(client: Client) -> Callable[[], tuple[ErrorCode, str | None]]:
    """Sends one record to `orders`, again and again; what the broker says to it."""
    dispatch, peer, numbers = Dispatch(client.broker.parts), Peer(), count()

    def produce() -> tuple[ErrorCode, str | None]:
        data = PartitionProduceData(index=0, records=build_batch([RecordInput(b"k", b"v", 1)]))
        wanted = TopicProduceData(name="orders", partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[wanted])
        answer = dispatch(frame_of(request, 11, next(numbers)), peer)  # type: ignore[arg-type]
        assert isinstance(answer, bytes)
        (found,) = ProduceResponse.decode(answer, 11, _ANSWER_START).responses[0].partition_responses
        return ErrorCode(found.error_code), found.error_message

    return produce


def test_a_full_disk_is_called_one_and_what_was_refused_may_be_sent_again() -> None:
    """The long way meets the batch the shortcut could not store, and must not take it for one that is numbered."""

    async def tell(client: Client) -> None:
        await client.create("orders")
        produce = producing(client)
        assert [produce() for _ in range(3)] == [(ErrorCode.NONE, None)] * 3
        client.disk.fill_after(10)
        for _ in range(3):
            code, reason = produce()
            assert code is ErrorCode.KAFKA_STORAGE_ERROR
            assert "orders-0: the disk refused the append" in (reason or "")
        client.disk.clear_faults()
        assert [produce() for _ in range(3)] == [(ErrorCode.NONE, None)] * 3
        assert client.partition("orders").log.log_end_offset == 6

    told(tell)


def test_what_was_learned_is_forgotten_when_its_topic_goes() -> None:
    async def tell(client: Client) -> None:
        await client.create("orders")
        produce = producing(client)
        assert [produce() for _ in range(3)] == [(ErrorCode.NONE, None)] * 3
        assert client.partition("orders").log.log_end_offset == 3
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1_000), 6)
        assert produce()[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await client.create("orders")
        assert [produce() for _ in range(2)] == [(ErrorCode.NONE, None)] * 2
        assert client.partition("orders").log.log_end_offset == 2

    told(tell)


def test_another_client_id_does_not_inherit_what_an_admin_client_may() -> None:
    """Internal topics take batches of Kafka's own tools, known by their client id; nobody else's, whatever came before."""

    async def tell(client: Client) -> None:
        dispatch, peer = Dispatch(client.broker.parts), Peer()
        await client.create("__transaction_state")
        data = build_batch([RecordInput(b"k", b"v", 1)])
        wanted = TopicProduceData(
            name="__transaction_state", partition_data=[PartitionProduceData(index=0, records=data)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[wanted])
        codes = []
        for number, client_id in enumerate(["__admin_client", "__admin_client", "tester", None, ""]):
            header = RequestHeader(ApiKey.PRODUCE, 11, number, client_id)
            frame = bytearray(framing.request_frame(header, request)[4:])
            answer = dispatch(frame, peer)  # type: ignore[arg-type]
            assert isinstance(answer, bytes)
            (found,) = ProduceResponse.decode(answer, 11, _ANSWER_START).responses[0].partition_responses
            codes.append(ErrorCode(found.error_code))
        assert codes == [ErrorCode.NONE] * 2 + [ErrorCode.INVALID_TOPIC_EXCEPTION] * 3

    told(tell)


def test_nobody_inherits_what_another_principal_taught() -> None:
    """The bytes of a request do not say who sends it: each identity goes the long way once."""
    by_shortcut = ProduceShortcut.answer
    taken: list[bool] = []

    def counted(shortcut: ProduceShortcut, *arguments: Any) -> bytes | None:
        answer = by_shortcut(shortcut, *arguments)
        taken.append(answer is not None)
        return answer

    async def tell(client: Client) -> None:
        await client.create("orders")
        dispatch, numbers = Dispatch(client.broker.parts), count()
        for peer in (alice := Peer("alice"), alice, bob := Peer("bob"), bob, alice):
            data = PartitionProduceData(index=0, records=build_batch([RecordInput(b"k", b"v", 1)]))
            wanted = TopicProduceData(name="orders", partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[wanted])
            dispatch(frame_of(request, 11, next(numbers)), peer)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProduceShortcut, "answer", counted)
        told(tell)
    assert taken == [False, True, False, True, True]
