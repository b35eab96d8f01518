"""Batches go to whoever leads their partition, and to nobody else.

Method: two scripted brokers in one simulation, on virtual time; leaders move, brokers are away, metadata gets old.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import semel
from semel.client.producer.producer import AsyncProducer
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from semel.errors import ErrorCode
from semel.net.listener import Listener
from semel.runtime.bundle import Runtime
from support.broker.fake_broker import FakeBroker
from support.net.net_worlds import in_simulation

PARTITIONS = 4
PORTS = {1: 9092, 2: 9093}


class Cluster:
    """Two brokers; who leads what is `leaders`, and what they tell about it `known`."""

    def __init__(self) -> None:
        self.leaders = {index: 1 + index % 2 for index in range(PARTITIONS)}
        self.tells_leader = False
        self.metadata_asked = 0
        self.sent: list[tuple[int, int]] = []
        """(broker, partition) of every batch."""
        self.refused = 0
        self.forbidden: set[str] = set()
        self.brokers = {node_id: FakeBroker(self._answers(node_id)) for node_id in PORTS}
        self.listeners: dict[int, Listener] = {}

    def _answers(self, node_id: int) -> Callable[[Request[Any]], Response | None]:
        return lambda request: self.answer(node_id, request)

    async def open(self, runtime: Runtime, node_id: int) -> None:
        self.listeners[node_id] = await self.brokers[node_id].listen(runtime, PORTS[node_id])

    def answer(self, node_id: int, request: Request[Any]) -> Response | None:
        match request:
            case MetadataRequest():
                self.metadata_asked += 1
                return self._metadata([one.name or "" for one in request.topics or []])
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=7, producer_epoch=0)
            case ProduceRequest():
                return ProduceResponse(
                    responses=[
                        TopicProduceResponse(
                            name=topic.name,
                            topic_id=topic.topic_id,
                            partition_responses=[
                                self._stored(node_id, one.index) for one in topic.partition_data
                            ],
                        )
                        for topic in request.topic_data
                    ]
                )
            case _:
                raise AssertionError(request)

    def _metadata(self, names: list[str]) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port)
                for node_id, port in PORTS.items()
            ],
            topics=[
                MetadataResponseTopic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if name in self.forbidden
                else MetadataResponseTopic(
                    name=name,
                    topic_id=b"%016d" % 1,
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=leader)
                        for index, leader in self.leaders.items()
                    ],
                )
                for name in names
            ],
        )

    def _stored(self, node_id: int, partition: int) -> PartitionProduceResponse:
        leader = self.leaders[partition]
        if leader == node_id:
            self.sent.append((node_id, partition))
            return PartitionProduceResponse(index=partition)
        self.refused += 1
        current = LeaderIdAndEpoch(leader_id=leader, leader_epoch=2) if self.tells_leader else None
        return PartitionProduceResponse(
            index=partition,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            base_offset=-1,
            current_leader=current,
        )


def tell(
    cluster: Cluster, story: Callable[[AsyncProducer, Runtime], Coroutine[Any, Any, None]], **settings: Any
) -> None:
    async def run(runtime: Runtime) -> None:
        for node_id in PORTS:
            await cluster.open(runtime, node_id)
        given = {
            "bootstrap_servers": "127.0.0.1:1,127.0.0.1:9092",
            "client_id": "c",
            "linger_ms": 0,
            **settings,
        }
        producer = AsyncProducer(runtime=runtime, **given)
        await story(producer, runtime)
        await producer.close()
        for listener in cluster.listeners.values():
            await listener.close()

    in_simulation(run)


async def send_to_all(producer: AsyncProducer) -> None:
    for future in [await producer.send("t", b"v", partition=index) for index in range(PARTITIONS)]:
        await future


@pytest.mark.mission("PROD-06", "CFG-11")
def test_batches_go_to_leaders_only() -> None:
    """The first server of the list is dead: the other one tells about all."""
    cluster = Cluster()

    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        for _ in range(3):
            await send_to_all(producer)

    tell(cluster, story)
    assert cluster.refused == 0
    assert {(1 + index % 2, index) for index in range(PARTITIONS)} == set(cluster.sent)
    assert cluster.metadata_asked <= 2, "leaders are remembered"


@pytest.mark.parametrize("tells_leader", [False, True])
@pytest.mark.mission("PROD-05")
def test_a_leader_that_moved_is_asked_for_or_told_by_the_answer(tells_leader: bool) -> None:
    cluster = Cluster()
    cluster.tells_leader = tells_leader

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        await send_to_all(producer)
        cluster.leaders = dict.fromkeys(range(PARTITIONS), 2)
        await send_to_all(producer)
        asked = cluster.metadata_asked
        await send_to_all(producer)
        assert cluster.metadata_asked == asked
        await runtime.tasks.sleep(31)
        assert cluster.metadata_asked > asked, "metadata.max.age.ms"

    tell(cluster, story, metadata_max_age_ms=30_000)
    assert 0 < cluster.refused <= 4
    assert [one for one in cluster.sent[PARTITIONS:] if one[0] != 2] == []


def test_a_broker_that_is_away_keeps_only_its_own_partitions_waiting() -> None:
    cluster = Cluster()

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        await send_to_all(producer)
        await cluster.listeners[2].close()
        futures = [await producer.send("t", b"v", partition=index) for index in range(PARTITIONS)]
        await futures[0]
        await futures[2]
        assert not futures[1].done()
        await runtime.tasks.sleep(2)
        await cluster.open(runtime, 2)
        await futures[1]
        await futures[3]

    tell(cluster, story)


def test_a_partition_without_a_leader_waits_and_keyless_records_avoid_it() -> None:
    cluster = Cluster()
    cluster.leaders[0] = -1

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        waiting = await producer.send("t", b"v", partition=0)
        for _ in range(20):
            assert (await (await producer.send("t", b"x" * 1000))).partition != 0
        assert not waiting.done()
        cluster.leaders[0] = 1
        await waiting
        assert cluster.sent[-1] == (1, 0)
        await runtime.tasks.sleep(0)

    tell(cluster, story, batch_size=500)


def test_a_topic_whose_batches_outlast_its_idle_time_is_not_forgotten() -> None:
    """Both brokers are away for longer than `metadata.max.idle.ms`, and come back with other leaders."""
    cluster = Cluster()

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        await send_to_all(producer)
        for listener in cluster.listeners.values():
            await listener.close()
        waiting = await producer.send("t", b"v", partition=0)
        await runtime.tasks.sleep(60)
        cluster.leaders = dict.fromkeys(range(PARTITIONS), 2)
        for node_id in PORTS:
            await cluster.open(runtime, node_id)
        await waiting
        assert cluster.sent[-1] == (2, 0)
        await runtime.tasks.sleep(60)
        assert producer._engine.topics.get("t") is None, "now it is idle"

    tell(cluster, story, metadata_max_idle_ms=5_000, metadata_max_age_ms=10_000, delivery_timeout_ms=600_000)


@pytest.mark.parametrize("forbidden", ["a", "z"])
def test_a_topic_that_is_refused_keeps_nobody_from_the_others(forbidden: str) -> None:
    cluster = Cluster()

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        await (await producer.send(forbidden, b"v", partition=0))
        await send_to_all(producer)
        cluster.forbidden.add(forbidden)
        cluster.leaders = dict.fromkeys(range(PARTITIONS), 2)
        await send_to_all(producer)
        asked = cluster.metadata_asked
        await runtime.tasks.sleep(60)
        assert cluster.metadata_asked <= asked + 2, "it is asked for again and again"
        cluster.forbidden.add("other")
        with pytest.raises(semel.TopicAuthorizationException, match="'other' may not be used"):
            await producer.send("other", b"v")

    tell(cluster, story, metadata_max_age_ms=30_000)


def test_who_hears_nothing_asks_less_and_less() -> None:
    cluster = Cluster()

    async def story(producer: AsyncProducer, runtime: Runtime) -> None:
        await send_to_all(producer)
        for listener in cluster.listeners.values():
            await listener.close()
        pauses = list[int]()
        producer._engine.topics.is_stale = True
        producer._engine.outbox.wake()
        for _ in range(20):
            await runtime.tasks.sleep(1)
            pauses.append(producer._engine.topics.pause_ms())
        assert pauses[-1] == 1_000, "retry.backoff.max.ms"
        for node_id in PORTS:
            await cluster.open(runtime, node_id)
        await runtime.tasks.sleep(3)
        await send_to_all(producer)
        assert producer._engine.topics.pause_ms() == 100, "retry.backoff.ms"

    tell(cluster, story)


def test_the_partitions_of_a_topic_can_be_asked_for() -> None:
    async def story(producer: AsyncProducer, _runtime: Runtime) -> None:
        assert [(one.partition, one.leader) for one in await producer.partitions_for("t")] == [
            (0, 1),
            (1, 2),
            (2, 1),
            (3, 2),
        ]
        with pytest.raises(semel.IllegalArgumentException):
            await producer.send("t", b"v", partition=-3)

    tell(Cluster(), story)
