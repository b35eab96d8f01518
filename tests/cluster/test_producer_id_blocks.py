"""A block of producer ids comes from the controller, and never twice.

Method: the real channel in a simulation; the controller is played by a function that keeps the end of the last block, as
Kafka's keeps it in ZooKeeper, and loses answers.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from semel.broker.member_producer_ids import MemberProducerIds
from semel.cluster.controller_channel import ChannelClosedError, ControllerChannel
from semel.cluster.producer_id_blocks import ProducerIdBlocks
from semel.core.cluster.versions import ADVERTISED
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from support.cluster.scripted_controller import (
    FIRST,
    LinkSettings,
    Said,
    ScriptedController,
    silence,
)
from support.net.net_worlds import in_simulation


def block(first: int, length: int = 1000) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=length)


def refusal(code: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)


def told(
    story: Callable[[Runtime, ProducerIdBlocks, ControllerChannel], Awaitable[None]],
    controller: ScriptedController,
) -> None:
    epochs = iter(range(10, 1000))

    async def run(runtime: Runtime) -> None:
        listener = await controller.listen(runtime, FIRST.port)
        channel = ControllerChannel(runtime, link=LinkSettings(), controller=lambda: FIRST, node_id=3)
        blocks = ProducerIdBlocks(runtime, channel, node_id=3, broker_epoch=lambda: next(epochs))
        try:
            await story(runtime, blocks, channel)
        finally:
            await channel.close()
            await listener.close(grace_seconds=0)

    in_simulation(run)


def test_errors_are_answered_by_asking_again_with_the_broker_epoch_of_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    codes = [
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_CONTROLLER,
    ]
    answers = [*map(refusal, codes), block(7000)]
    controller = ScriptedController(lambda _request: answers.pop(0))

    async def story(_runtime: Runtime, blocks: ProducerIdBlocks, _channel: ControllerChannel) -> None:
        assert await blocks.next_block() == range(7000, 8000)

    with caplog.at_level(logging.WARNING, "semel.cluster"):
        told(story, controller)
    assert [(one.broker_id, one.broker_epoch) for one in controller.asked] == [(3, 10 + n) for n in range(6)]
    pauses = [b - a for a, b in zip(controller.times, controller.times[1:], strict=False)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.1], abs=0.01)
    (line,) = caplog.messages
    assert line == (
        "producer ids wait, AllocateProducerIds is sent again: the controller refuses it to broker 3 with broker epoch 10 "
        "(STALE_BROKER_EPOCH) (1 times since the last such line)"
    )


def test_ids_that_may_have_been_given_are_refused() -> None:
    answers = [block(2000), block(1000), block(2000), block(2999), block(3000, 0), block(3000, 500)]
    controller = ScriptedController(lambda _request: answers.pop(0))

    async def story(_runtime: Runtime, blocks: ProducerIdBlocks, _channel: ControllerChannel) -> None:
        assert await blocks.next_block() == range(2000, 3000)
        assert await blocks.next_block() == range(3000, 3500)

    told(story, controller)
    assert answers == []


def test_a_controller_that_does_not_serve_it_is_asked_ever_more_slowly() -> None:
    served = {key: versions for key, versions in ADVERTISED.items() if key != ApiKey.ALLOCATE_PRODUCER_IDS}
    controller = ScriptedController(lambda _request: block(0), served=served)

    async def story(runtime: Runtime, blocks: ProducerIdBlocks, channel: ControllerChannel) -> None:
        asking = asyncio.ensure_future(blocks.next_block())
        await runtime.tasks.sleep(30)
        assert len(controller.introductions) <= 40
        await channel.close()
        with pytest.raises(ChannelClosedError):
            await asking

    told(story, controller)


class Ids:
    """A controller's `/latest_producer_id_block`, and who asked for which."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.end = 0

    def answer(self, _request: AllocateProducerIdsRequest) -> Said:
        fate = self.dice.random()
        if fate < 0.1:
            return refusal(ErrorCode.STALE_BROKER_EPOCH)
        if fate < 0.2:
            return refusal(ErrorCode.NOT_CONTROLLER)
        first, self.end = self.end, self.end + 1000
        if fate < 0.35:
            return None  # It was set aside, and nobody hears of it.
        if fate < 0.45:
            return silence()
        return self._late(first) if fate < 0.7 else block(first)

    async def _late(self, first: int) -> AllocateProducerIdsResponse:
        await asyncio.sleep(self.dice.uniform(0, 3))
        return block(first)


@pytest.mark.parametrize("seed", range(20))
def test_no_id_is_given_twice_by_three_brokers_that_come_back(seed: int) -> None:
    """Lives of three brokers, one after the other and beside each other, under controllers that lose answers."""
    dice = random.Random(seed)
    ids = Ids(dice)
    controllers = [ScriptedController(ids.answer) for _ in range(2)]
    given: list[int] = []
    sent_away = 0

    async def live(runtime: Runtime, node_id: int) -> None:
        nonlocal sent_away
        for life in range(3):
            channel = ControllerChannel(
                runtime,
                link=LinkSettings(request_timeout_ms=1000),
                controller=lambda: FIRST._replace(port=FIRST.port + dice.randrange(2)),
                node_id=node_id,
            )
            blocks = ProducerIdBlocks(runtime, channel, node_id=node_id, broker_epoch=lambda life=life: life)  # type: ignore[misc]
            producer_ids = MemberProducerIds(blocks, runtime.tasks)
            mine = 0
            while mine < 2500:
                one = producer_ids.take()
                if one is None:
                    sent_away += 1
                    await runtime.tasks.sleep(0.1)
                else:
                    mine += 1
                    given.append(one)
                    if mine % 200 == 0:
                        await runtime.tasks.sleep(dice.uniform(0, 1))
            await channel.close()

    async def run(runtime: Runtime) -> None:
        for number, controller in enumerate(controllers):
            await controller.listen(runtime, FIRST.port + number)
        await asyncio.gather(*(live(runtime, node_id) for node_id in (1, 2, 3)))

    in_simulation(run)
    assert len(given) == 3 * 3 * 2500
    assert len(set(given)) == len(given)
    assert max(given) < ids.end
    assert sent_away >= 9, "nobody had an id before the first block came"
