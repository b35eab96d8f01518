"""A member's markers reach whoever leads each partition, until every partition has its marker or needs none.

Method: leaders played by functions behind the real listener, in a simulation; a metadata image that a test changes. The requests are
compared with those of Kafka's coordinators byte for byte.
"""

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.broker.config import BrokerConfig
from semel.broker.markers.elsewhere import MarkersElsewhere, request_of
from semel.broker.markers.here import Marker
from semel.broker.markers.sending import Markers
from semel.broker.replicas.led_partition import LedPartition
from semel.cluster import peers
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import PartitionState
from semel.core.metadata.rows import TopicStatesRow
from semel.core.transactions.coordinator.decision import SendMarkers
from semel.core.wire.framing import RequestHeader, read_request_header, request_frame
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.cluster.scripted_controller import Said, ScriptedController, golden_frame, without_correlation
from support.net.net_worlds import in_simulation

HERE = 3
PORTS = {1: 9101, 2: 9102}
TOPIC_ID = uuid.UUID(int=7)
CONFIG = BrokerConfig.of({"node.id": HERE, "log.dirs": "data"})
Codes = Callable[[int, str, int], ErrorCode]


def orders(*indexes: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", index) for index in indexes)


def ended(*partitions: TopicPartition, producer_id: int = 77, name: str = "tx") -> SendMarkers:
    return SendMarkers(name, producer_id, 5, True, partitions or orders(0, 1), 0)


def answered(request: WriteTxnMarkersRequest, code_of: Codes) -> WriteTxnMarkersResponse:
    """Per producer, the last first: Kafka's order is that of a hash map."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=code_of(marker.producer_id, topic.name, index),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in reversed(request.markers)
        ]
    )


class World:
    """A member, and other brokers that lead."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.image = MetadataImage(is_told=True)
        self.leaders: dict[TopicPartition, int] = {}
        self.written: list[str] = []
        self.is_wanted = True
        self.code_of: dict[int, Codes] = defaultdict(lambda: lambda *_: ErrorCode.NONE)
        self.others = {number: ScriptedController(self._answer(number), served={}) for number in PORTS}
        self.elsewhere = MarkersElsewhere(CONFIG, runtime, self.image.brokers)
        store = cast("Any", SimpleNamespace(image=self.image))
        self.markers = Markers(store, self, cast("Any", None), runtime, self.elsewhere)

    def _answer(self, number: int) -> Callable[[Any], Said]:
        def answer(request: WriteTxnMarkersRequest) -> Said:
            return answered(request, self.code_of[number])

        return answer

    def where(self, topic_partition: TopicPartition) -> LedPartition | RegisteredBroker | ErrorCode:
        leader = self.image.brokers.get(self.leaders.get(topic_partition, -1))
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader is None else leader

    async def listen(self) -> None:
        for number, other in self.others.items():
            await other.listen(self.runtime, PORTS[number])
        self.live(*PORTS)

    def live(self, *numbers: int) -> None:
        self.image.brokers.clear()
        for number in numbers:
            self.image.brokers[number] = RegisteredBroker(
                number, {CONFIG.listener.name: Endpoint("127.0.0.1", PORTS[number])}
            )
        self.markers.brokers_changed()

    def lead(self, **leaders: int) -> None:
        """`p0=1`: broker 1 leads partition 0 of `orders`."""
        for name, leader in leaders.items():
            self.leaders[TopicPartition("orders", int(name[1:]))] = leader

    def send(self, markers: SendMarkers, coordinator_epoch: int = 4) -> None:
        self.markers.send(
            markers,
            coordinator_epoch=coordinator_epoch,
            is_wanted=lambda: self.is_wanted,
            on_written=lambda: self.written.append(markers.transactional_id),
        )

    async def until(self, so: Callable[[], object]) -> None:
        async with asyncio.timeout(600):
            while not so():
                await asyncio.sleep(0.01)

    async def until_written(self, *names: str) -> None:
        await self.until(lambda: sorted(self.written) == sorted(names or ("tx",)))

    def asked(self, number: int) -> list[list[tuple[int, int, bool, int, list[tuple[str, list[int]]]]]]:
        """Every request: its markers."""
        return [
            [
                (
                    one.producer_id,
                    one.producer_epoch,
                    one.transaction_result,
                    one.coordinator_epoch,
                    [(topic.name, topic.partition_indexes) for topic in one.topics],
                )
                for one in request.markers
            ]
            for request in self.others[number].asked
        ]

    def told(self, topic: str = "orders") -> None:
        """The metadata has the topic."""
        state = PartitionState((1,), (1,), 1)
        self.image.apply(TopicStatesRow(topic, TOPIC_ID, {0: state, 1: state}))

    def gone(self, topic: str = "orders") -> None:
        self.image.apply(TopicStatesRow(topic, TOPIC_ID, {0: None, 1: None}))


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def main(runtime: Runtime) -> None:
        world = World(runtime)
        await world.listen()
        await story(world)
        world.markers.close()

    in_simulation(main)


def test_each_leader_is_sent_its_partitions_once() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=2, p2=1)
        world.send(ended(*orders(0, 1, 2), TopicPartition("others", 0)))
        world.leaders[TopicPartition("others", 0)] = 1
        await world.until_written()
        assert world.asked(1)[0] == [(77, 5, True, 4, [("orders", [0, 2])])]
        assert world.asked(2) == [[(77, 5, True, 4, [("orders", [1])])]]
        assert world.asked(1)[1:] == [[(77, 5, True, 4, [("others", [0])])]], (
            "a leader that was not known at first"
        )
        assert world.others[1].versions == [(ApiKey.WRITE_TXN_MARKERS, 1)] * 2, "ApiVersions is not asked"

    play(story)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_the_request_is_kafkas(end: str) -> None:
    """What Kafka's coordinator sent is sent again: same fields, same bytes, same client id."""
    frame = golden_frame(f"WriteTxnMarkers v1 request: {end}")
    header, position = read_request_header(frame)
    request = WriteTxnMarkersRequest.decode(frame, 1, position)
    (marker,) = request.markers
    places = [
        TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
    ]
    ours = Marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result, 0
    )
    built = request_of([(ours, place) for place in places])
    assert request_frame(header, built)[4:] == frame

    async def story(world: World) -> None:
        world.leaders = dict.fromkeys(places, 1)
        markers = SendMarkers(
            "tx", marker.producer_id, marker.producer_epoch, end == "commit", tuple(places), 0
        )
        world.send(markers, marker.coordinator_epoch)
        await world.until_written()
        sent = world.others[1].frames[0]
        same_broker = RequestHeader(27, 1, 0, f"broker-{HERE}-txn-marker-sender")
        assert sent == without_correlation(request_frame(same_broker, request)[4:])
        assert header.client_id == "broker-1-txn-marker-sender"

    play(story)


def test_transactions_that_end_together_share_a_request_and_one_is_under_way() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=1)
        for number in range(30):
            world.send(ended(producer_id=number, name=f"tx{number:02}"))
            if number == 0:
                await world.until(lambda: world.others[1].asked)
        await world.until_written(*(f"tx{number:02}" for number in range(30)))
        assert [len(one) for one in world.asked(1)] == [1, 29]
        assert world.others[1].under_way_max == 1

    play(story)


RETRIED = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
]
NEEDS_NONE = [
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
]


@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
def test_a_partition_that_cannot_take_it_now_is_asked_until_it_does(code: ErrorCode) -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=1)
        world.code_of[1] = lambda _producer, _topic, index: code if index else ErrorCode.NONE
        world.send(ended())
        await asyncio.sleep(60)
        assert world.written == []
        assert world.asked(1)[0] == [(77, 5, True, 4, [("orders", [0, 1])])]
        assert all(one == [(77, 5, True, 4, [("orders", [1])])] for one in world.asked(1)[1:])
        assert 50 < len(world.asked(1)) < 80, "once a second in the end"
        world.code_of[1] = lambda *_: ErrorCode.NONE
        await world.until_written()

    play(story)


@pytest.mark.parametrize("code", NEEDS_NONE, ids=lambda code: code.name)
def test_a_partition_that_needs_none_is_not_asked_again(code: ErrorCode) -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=2)
        world.code_of[2] = lambda *_: code
        world.send(ended())
        await world.until_written()
        assert len(world.asked(2)) == 1

    play(story)


def test_the_next_leader_is_asked_where_the_former_one_refuses() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=1)
        world.code_of[1] = lambda *_: ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.send(ended())
        await world.until(lambda: len(world.asked(1)) > 2)
        world.lead(p0=2, p1=2)
        await world.until_written()
        assert world.asked(2) == [[(77, 5, True, 4, [("orders", [0, 1])])]]

    play(story)


def test_a_lost_connection_is_no_answer() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1)
        losses = [True, True, False]
        answer = world.others[1].answer
        world.others[1].answer = lambda request: None if losses.pop(0) else answer(request)
        world.send(ended(*orders(0)))
        await world.until_written()
        assert losses == []

    play(story)


def test_a_leader_that_is_silent_is_left_when_it_is_gone() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=2)
        world.others[1].answer = lambda _request: asyncio.Event().wait()  # type: ignore[assignment,return-value]
        world.send(ended())
        await world.until(lambda: world.others[1].asked)
        begun = world.runtime.clock.monotonic()
        world.lead(p0=2)
        world.live(2)
        await world.until_written()
        assert world.runtime.clock.monotonic() - begun < 2, "before its request timed out"
        assert [one[0][4] for one in world.asked(2)] == [[("orders", [1])], [("orders", [0])]]

    play(story)


def test_nobody_waits_for_a_slow_leader_to_be_asked_again() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=2)
        slow: asyncio.Event = asyncio.Event()
        answer = world.others[1].answer

        async def late(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
            await slow.wait()
            return cast("WriteTxnMarkersResponse", answer(request))

        world.others[1].answer = late
        world.code_of[2] = lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS
        world.send(ended())
        await world.until(lambda: len(world.asked(2)) > 3)
        world.code_of[2] = lambda *_: ErrorCode.NONE
        before = len(world.asked(2))
        await world.until(lambda: len(world.asked(2)) > before)
        await asyncio.sleep(1)
        assert world.written == []
        slow.set()
        await world.until_written()

    play(story)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_partition_whose_topic_is_gone_needs_none(is_known: bool) -> None:
    async def story(world: World) -> None:
        if is_known:
            world.told()
        world.lead(p0=1)
        world.code_of[1] = lambda *_: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        world.send(ended(*orders(0)))
        await asyncio.sleep(5)
        assert world.written == [], "it may be there"
        world.told()
        world.gone()
        await world.until_written()

    play(story)


def test_a_coordinator_that_went_sends_nothing_any_more() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1)
        slow: asyncio.Event = asyncio.Event()
        answer = world.others[1].answer

        async def late(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
            await slow.wait()
            return cast("WriteTxnMarkersResponse", answer(request))

        world.others[1].answer = late
        world.send(ended(*orders(0), name="first", producer_id=1))
        await world.until(lambda: world.others[1].asked)
        world.send(ended(*orders(0), name="second", producer_id=2))
        world.is_wanted = False
        slow.set()
        await asyncio.sleep(10)
        assert len(world.asked(1)) == 1, "the second waited, and is not sent"
        assert world.written == ["first"]

    play(story)


def test_of_two_sends_the_later_counts() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1)
        world.code_of[1] = lambda *_: ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.send(ended(*orders(0)), coordinator_epoch=4)
        await world.until(lambda: len(world.asked(1)) > 2)
        world.send(ended(*orders(0)), coordinator_epoch=6)
        await asyncio.sleep(5)
        epochs = [one[0][3] for one in world.asked(1)]
        assert epochs == sorted(epochs)
        assert epochs[-3:] == [6, 6, 6]
        world.code_of[1] = lambda *_: ErrorCode.NONE
        await world.until_written()
        await asyncio.sleep(5)
        assert world.written == ["tx"]

    play(story)


def test_a_broker_that_stops_sends_nothing_any_more() -> None:
    async def story(world: World) -> None:
        world.lead(p0=1, p1=2)
        world.others[1].answer = lambda _request: asyncio.Event().wait()  # type: ignore[assignment,return-value]
        world.send(ended())
        await world.until(lambda: world.others[1].asked)
        world.markers.close()
        asked = len(world.asked(2))
        await asyncio.sleep(5)
        assert len(world.asked(2)) == asked
        assert world.written == []
        async with asyncio.timeout(5):
            await world.runtime.tasks.drain()

    play(story)


def test_as_many_wait_as_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """More fail at once, and are tried again: nothing is lost, and memory is bounded."""
    monkeypatch.setattr(peers, "WAITING_MAX", 3)
    monkeypatch.setattr(peers, "AT_ONCE", 2)

    async def story(world: World) -> None:
        world.lead(**{f"p{index}": 1 for index in range(10)})
        world.send(ended(*orders(*range(10))))
        await world.until_written()
        assert all(len(one[0][4][0][1]) <= 2 for one in world.asked(1))
        taken: Iterable[int] = [index for one in world.asked(1) for index in one[0][4][0][1]]
        assert sorted(taken) == list(range(10))

    play(story)


def test_versions_are_those_of_the_protocol() -> None:
    assert BETWEEN_BROKERS[ApiKey.WRITE_TXN_MARKERS] == (0, 1)
