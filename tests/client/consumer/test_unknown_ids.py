"""Partitions come by topic id: a member of KIP-848 whose client does not know the topic yet looks for it, patiently.

Method: a coordinator that assigns a topic whose name nobody tells for a while, in a simulation; what the client asks meanwhile is
counted, and in the end it has its partition.
"""

import uuid
from typing import Any, Final

from semel.client.consumer.consumer import AsyncConsumer
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.broker.fake_broker import FakeBroker, metadata
from support.net.net_worlds import in_simulation

ID: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "t").bytes
BACKOFF_MS: Final = 100
PATIENCE_SECONDS: Final = 3


class Coordinator(FakeBroker):
    """Assigns a topic; tells its name once `tells` is set, and before that nothing of it, or nothing at all."""

    def __init__(self, *, mute: bool = False) -> None:
        super().__init__(self.said)
        self.tells = False
        self.mute = mute
        self.assigned = 0
        self.looks = 0

    def said(self, request: Request[Any]) -> Response | None:
        match request:
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=9092)
            case ConsumerGroupHeartbeatRequest():
                self.assigned += 1
                given = [TopicPartitions(topic_id=ID, partitions=[0])]
                return ConsumerGroupHeartbeatResponse(
                    member_id=request.member_id,
                    member_epoch=1,
                    heartbeat_interval_ms=1000,
                    assignment=Assignment(topic_partitions=given),
                )
            case MetadataRequest() if request.topics == []:
                return metadata()
            case MetadataRequest():
                self.looks += any(one.name is None for one in request.topics or ())
                return None if self.mute and not self.tells else metadata(self._topic())
        return None

    def _topic(self) -> MetadataResponseTopic:
        if not self.tells:
            return MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [MetadataResponsePartition(leader_id=1)]
        return MetadataResponseTopic(name="t", topic_id=ID, partitions=partitions)


def _consumer(runtime: Runtime) -> AsyncConsumer:
    consumer = AsyncConsumer(
        bootstrap_servers="127.0.0.1:9092",
        group_id="g",
        group_protocol="consumer",
        retry_backoff_ms=BACKOFF_MS,
        enable_auto_commit=False,
        runtime=runtime,
    )
    consumer.subscribe(["t"])
    return consumer


async def _poll_until_assigned(consumer: AsyncConsumer) -> None:
    for _ in range(PATIENCE_SECONDS * 10):
        await consumer.poll(100)
        if consumer.assignment():
            break
    assert consumer.assignment() == {TopicPartition("t", 0)}


def test_an_id_nobody_knows_is_not_asked_for_without_a_pause() -> None:
    async def story(runtime: Runtime) -> None:
        broker = Coordinator()
        listener = await broker.listen(runtime)
        consumer = _consumer(runtime)
        for _ in range(PATIENCE_SECONDS):
            await consumer.poll(1000)
        assert broker.assigned
        assert 2 <= broker.looks <= PATIENCE_SECONDS * 1000 / BACKOFF_MS
        broker.tells = True
        await _poll_until_assigned(consumer)
        await consumer.close(timeout_ms=0)
        await listener.close()

    in_simulation(story)


def test_a_broker_that_goes_away_before_it_told_the_name_ends_nothing() -> None:
    async def story(runtime: Runtime) -> None:
        broker = Coordinator(mute=True)
        listener = await broker.listen(runtime)
        consumer = _consumer(runtime)
        while not broker.assigned:
            await consumer.poll(1)
        await listener.close()
        for _ in range(PATIENCE_SECONDS):
            await consumer.poll(1000)  # Would raise what had ended the membership.
        broker.tells = True
        listener = await broker.listen(runtime)
        await _poll_until_assigned(consumer)
        await consumer.close(timeout_ms=0)
        await listener.close()

    in_simulation(story)
