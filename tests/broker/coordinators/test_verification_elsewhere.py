"""A leader asks the coordinator elsewhere whether a transaction has its partitions, and believes nothing else.

Method: coordinators played by functions behind the real listener, in a simulation. The question is compared with that of a Kafka
broker byte for byte.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from semel.broker.config import BrokerConfig
from semel.broker.coordinators.verification import Verification
from semel.core.cluster.versions import ADVERTISED
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.wire.framing import RequestHeader, read_request_header, request_frame
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.cluster.scripted_controller import Said, ScriptedController, golden_frame, without_correlation
from support.net.net_worlds import in_simulation

HERE, COORDINATOR = 1, 2
PORT = 9102
CONFIG = BrokerConfig.of({"node.id": HERE, "log.dirs": "data"})
NONE, ABORTABLE, UNANSWERED = (
    ErrorCode.NONE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.NETWORK_EXCEPTION,
)
VERSION_4 = {**ADVERTISED, ApiKey.ADD_PARTITIONS_TO_TXN: (0, 4)}
VERSION_3 = {**ADVERTISED, ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3)}


def orders(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("orders", index) for index in indexes]


def answered(
    request: AddPartitionsToTxnRequest, code_of: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=code_of(one.transactional_id, index),
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in reversed(request.transactions)
        ]
    )


class World:
    """A leader, and a coordinator."""

    def __init__(self, runtime: Runtime, served: Any = ADVERTISED) -> None:
        self.runtime = runtime
        self.code_of: Callable[[str, int], ErrorCode] = lambda _name, _index: NONE
        self.coordinator = ScriptedController(self._answer, served=served)
        self.brokers: dict[int, RegisteredBroker] = {}
        self.verification = Verification(CONFIG, runtime, self.brokers)

    def _answer(self, request: AddPartitionsToTxnRequest) -> Said:
        return answered(request, self.code_of)

    async def listen(self) -> None:
        await self.coordinator.listen(self.runtime, PORT)
        self.live()

    def live(self) -> None:
        self.brokers[COORDINATOR] = RegisteredBroker(
            COORDINATOR, {CONFIG.listener.name: Endpoint("127.0.0.1", PORT)}
        )

    async def ask(
        self, *indexes: int, name: str = "tx", producer_id: int = 7, epoch: int = 3
    ) -> list[ErrorCode]:
        return await self.verification.verify(
            COORDINATOR, name, producer_id, epoch, orders(*(indexes or (0,)))
        )

    @property
    def asked(self) -> list[list[tuple[str, int, int, list[int]]]]:
        return [
            [
                (one.transactional_id, one.producer_id, one.producer_epoch, one.topics[0].partitions)
                for one in request.transactions
            ]
            for request in self.coordinator.asked
        ]


def play(story: Callable[[World], Awaitable[None]], served: Any = ADVERTISED) -> None:
    async def main(runtime: Runtime) -> None:
        world = World(runtime, served)
        await world.listen()
        async with asyncio.timeout(3600):
            await story(world)

    in_simulation(main)


def test_the_question_is_kafkas() -> None:
    frame = golden_frame("AddPartitionsToTxn v5 request: verify")
    header, position = read_request_header(frame)
    request = AddPartitionsToTxnRequest.decode(frame, header.api_version, position)
    (one,) = request.transactions
    (topic,) = one.topics

    async def story(world: World) -> None:
        places = [TopicPartition(topic.name, index) for index in topic.partitions]
        codes = await world.verification.verify(
            COORDINATOR, one.transactional_id, one.producer_id, one.producer_epoch, places
        )
        assert codes == [NONE] * len(places)
        same_broker = RequestHeader(24, 5, 0, f"AddPartitionsManager-client-{HERE}")
        wanted = without_correlation(request_frame(same_broker, request)[4:])
        assert without_correlation(world.coordinator.frames[0]) == wanted
        assert header.client_id == f"AddPartitionsManager-client-{HERE}"
        assert without_correlation(frame) == wanted
        assert world.coordinator.versions[0] == (ApiKey.API_VERSIONS, 4)

    play(story)


def test_kafkas_answer_is_understood() -> None:
    frame = golden_frame("AddPartitionsToTxn v5 response: verified")
    answer = AddPartitionsToTxnResponse.decode(frame, 5, 5)  # Behind the correlation id and no tags.
    (result,) = answer.results_by_transaction
    (topic,) = result.topic_results

    async def story(world: World) -> None:
        world.coordinator.answer = lambda _request: answer
        places = [TopicPartition(topic.name, one.partition_index) for one in topic.results_by_partition]
        asked = world.verification.verify(COORDINATOR, result.transactional_id, 1, 0, places)
        assert await asked == [NONE] * len(places)

    play(story)


def test_one_request_is_under_way_and_what_comes_meanwhile_shares_the_next() -> None:
    async def story(world: World) -> None:
        first = asyncio.ensure_future(world.ask(0))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(world.ask(number, name=f"tx{number}")) for number in range(20)]
        assert await asyncio.gather(first, *others) == [[NONE]] * 21
        assert [len(one) for one in world.asked] in ([1, 20], [21])
        assert world.coordinator.under_way_max == 1

    play(story)


def test_each_partition_has_its_own_answer() -> None:
    async def story(world: World) -> None:
        codes = {"a": (NONE, ABORTABLE), "b": (ErrorCode.CONCURRENT_TRANSACTIONS,) * 2}
        world.code_of = lambda name, index: codes[name][index]
        answers = await asyncio.gather(
            world.ask(0, 1, name="a"), world.ask(1, 0, name="b"), world.ask(1, name="a")
        )
        assert list(answers) == [[NONE, ABORTABLE], [ErrorCode.CONCURRENT_TRANSACTIONS] * 2, [ABORTABLE]]
        assert world.asked == [[("a", 7, 3, [0, 1]), ("b", 7, 3, [1, 0])]], (
            "questions of one producer are one"
        )

    play(story)


def test_two_producers_under_one_id_are_asked_about_one_after_the_other() -> None:
    async def story(world: World) -> None:
        epochs: list[int] = []

        def answer(request: AddPartitionsToTxnRequest) -> Said:
            (one,) = request.transactions
            epochs.append(one.producer_epoch)
            return answered(
                request, lambda *_: NONE if one.producer_epoch == 4 else ErrorCode.PRODUCER_FENCED
            )

        world.coordinator.answer = answer
        answers = await asyncio.gather(world.ask(0, epoch=3), world.ask(0, epoch=4), world.ask(1, epoch=3))
        assert list(answers) == [[ErrorCode.PRODUCER_FENCED], [NONE], [ErrorCode.PRODUCER_FENCED]]
        assert epochs == [3, 4]

    play(story)


def test_a_coordinator_of_version_4_is_asked_in_it() -> None:
    async def story(world: World) -> None:
        assert await world.ask(0) == [NONE]
        assert world.coordinator.versions[-1] == (ApiKey.ADD_PARTITIONS_TO_TXN, 4)

    play(story, VERSION_4)


@pytest.mark.parametrize(
    "served",
    [VERSION_3, {ApiKey.API_VERSIONS: (0, 4)}],
    ids=["of an older Kafka", "without transactions"],
)
def test_a_coordinator_that_cannot_verify_is_not_asked(served: Any) -> None:
    async def story(world: World) -> None:
        world.code_of = lambda *_: ABORTABLE
        assert await world.ask(0, 1) == [NONE, NONE]
        assert world.asked == []

    play(story, served)


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_of_the_whole_request_is_everybodys(whole: ErrorCode, told: ErrorCode) -> None:
    async def story(world: World) -> None:
        world.coordinator.answer = lambda _request: AddPartitionsToTxnResponse(error_code=whole)
        assert await world.ask(0, 1) == [told, told]

    play(story)


def test_a_partition_without_an_answer_is_not_verified() -> None:
    async def story(world: World) -> None:
        def half(request: AddPartitionsToTxnRequest) -> Said:
            request.transactions[0].topics[0].partitions.remove(1)
            return answered(request, lambda *_: NONE)

        world.coordinator.answer = half
        assert await world.ask(0, 1) == [NONE, UNANSWERED]

    play(story)


async def _lost(world: World) -> None:
    world.coordinator.answer = lambda _request: None


async def _silent(world: World) -> None:
    world.coordinator.answer = lambda _request: asyncio.Event().wait()  # type: ignore[assignment,return-value]


async def _gone(world: World) -> None:
    world.brokers.clear()


async def _elsewhere(world: World) -> None:
    world.brokers[COORDINATOR] = RegisteredBroker(
        COORDINATOR, {CONFIG.listener.name: Endpoint("127.0.0.1", PORT + 1)}
    )


TROUBLES: Sequence[Callable[[World], Awaitable[None]]] = (_lost, _silent, _gone, _elsewhere)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
def test_without_an_answer_the_client_is_to_try_again(trouble: Callable[[World], Awaitable[None]]) -> None:
    async def story(world: World) -> None:
        assert await world.ask(0) == [NONE]
        before = world.coordinator.answer
        await trouble(world)
        assert await world.ask(0, 1) == [UNANSWERED, UNANSWERED]
        world.coordinator.answer = before
        world.live()
        assert await world.ask(0) == [NONE]

    play(story)


def test_a_coordinator_that_is_gone_is_not_waited_for() -> None:
    async def story(world: World) -> None:
        await _silent(world)
        asked = asyncio.ensure_future(world.ask(0))
        await asyncio.sleep(1)
        world.brokers.clear()
        world.verification.brokers_changed()
        async with asyncio.timeout(1):
            assert await asked == [UNANSWERED]

    play(story)


def test_a_broker_that_stops_asks_nothing_any_more() -> None:
    async def story(world: World) -> None:
        await _silent(world)
        asked = [asyncio.ensure_future(world.ask(number)) for number in range(3)]
        await asyncio.sleep(1)
        asked.append(asyncio.ensure_future(world.ask(5)))
        await asyncio.sleep(0)
        world.verification.close()
        async with asyncio.timeout(1):
            assert await asyncio.gather(*asked) == [[UNANSWERED]] * 4

    play(story)
