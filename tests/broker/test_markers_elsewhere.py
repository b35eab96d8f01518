"""Markers for partitions that another broker leads are never taken for written, and are written as soon as they are led here.

Method: a producer's open transaction on two partitions; leadership moves as a controller elsewhere would have it.
"""

from collections.abc import Callable

import pytest

from semel.core.records.build import RecordInput, build_batch
from semel.core.transactions.coordinator.decision import SendMarkers
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition
from support.broker.admin_kit import Client, told
from support.broker.host_kit import ELSEWHERE, HERE, another_broker, led_by

PRODUCER = 77
SECONDS = 5


async def open_on(client: Client, *indexes: int) -> None:
    await client.create("orders", partitions=2)
    await another_broker(client)
    for index in indexes:
        partition = client.partition("orders", index)
        partition.log.producers.verification_required = False  # No coordinator knows of it.
        partition.append(
            build_batch(
                [RecordInput(b"k", b"v", 1)],
                producer_id=PRODUCER,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        )


def is_open(client: Client, index: int) -> bool:
    return client.partition("orders", index).log.producers.producers[PRODUCER].has_open_transaction


def send(client: Client, is_wanted: Callable[[], bool], written: list[str]) -> None:
    places = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    client.broker.parts.transactions.markers.send(
        SendMarkers("tx", PRODUCER, 0, True, places, 0),
        coordinator_epoch=0,
        is_wanted=is_wanted,
        on_written=lambda: written.append("tx"),
    )


def test_a_partition_led_elsewhere_keeps_the_transaction_open_until_it_has_its_marker() -> None:
    async def story(client: Client) -> None:
        await open_on(client, 0, 1)
        await led_by(client, ELSEWHERE, 1, topic="orders", index=1)
        written: list[str] = []
        send(client, lambda: True, written)
        await client.broker.runtime.tasks.sleep(SECONDS)
        assert not is_open(client, 0)
        assert written == [], "one marker is missing"
        await led_by(client, HERE, 2, topic="orders", index=1)
        assert is_open(client, 1)
        await client.broker.runtime.tasks.sleep(SECONDS)
        assert not is_open(client, 1)
        assert written == ["tx"]

    told(story)


def test_a_coordinator_that_went_leaves_the_markers_to_the_next() -> None:
    async def story(client: Client) -> None:
        await open_on(client, 0, 1)
        await led_by(client, ELSEWHERE, 1, topic="orders", index=1)
        written: list[str] = []
        wanted = [True]
        send(client, lambda: wanted[0], written)
        wanted[0] = False
        await led_by(client, HERE, 2, topic="orders", index=1)
        await client.broker.runtime.tasks.sleep(SECONDS)
        assert is_open(client, 1)
        assert written == []

    told(story)


@pytest.mark.parametrize("index", [0, 1])
def test_who_sends_a_marker_to_the_wrong_broker_is_told(index: int) -> None:
    async def story(client: Client) -> None:
        await open_on(client, 0, 1)
        await led_by(client, ELSEWHERE, 1, topic="orders", index=1)
        topic = WritableTxnMarkerTopic(name="orders", partition_indexes=[index])
        marker = WritableTxnMarker(
            producer_id=PRODUCER, producer_epoch=0, transaction_result=True, topics=[topic]
        )
        answer = await client.ask(WriteTxnMarkersRequest(markers=[marker]))
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if index else ErrorCode.NONE)

    told(story)
