"""A request gets to whoever is the controller: through silence, refusals, lost connections and a controller that moves.

Method: the channel in a simulation, against controllers played by functions. The bytes it sends are compared with those that
a Kafka 3.9.2 broker sent to its controller.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from semel._version import __version__
from semel.cluster.controller_channel import (
    RETRY_SECONDS,
    WAITING_MAX,
    ChannelBusyError,
    ChannelClosedError,
    ControllerChannel,
)
from semel.core.cluster.versions import ADVERTISED, BETWEEN_BROKERS
from semel.core.wire.message import Response
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from semel.core.wire.registry import ApiKey
from semel.errors import DisconnectedError, ErrorCode, RequestTimedOutError, UnsupportedVersionError
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import Address
from support.cluster.scripted_controller import (
    FIRST,
    SECOND,
    LinkSettings,
    Said,
    ScriptedController,
    golden_frame,
    silence,
    without_correlation,
)
from support.net.net_worlds import in_simulation

NODE_ID = 2
LINK = LinkSettings()
REQUEST = AllocateProducerIdsRequest(broker_id=NODE_ID, broker_epoch=55)
GIVEN = AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)
NOT_CONTROLLER = AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Known:
    """The controller, as this broker's metadata names it."""

    def __init__(self, address: Address | None = FIRST) -> None:
        self.address = address
        self.looked_up = 0

    def __call__(self) -> Address | None:
        self.looked_up += 1
        return self.address


def told(
    story: Callable[[Runtime, ControllerChannel, Known], Awaitable[None]],
    *controllers: ScriptedController,
    link: LinkSettings = LINK,
) -> None:
    """Tell a story of one channel; the controllers listen at FIRST and SECOND."""

    async def run(runtime: Runtime) -> None:
        known = Known()
        channel = ControllerChannel(runtime, link=link, controller=known, node_id=NODE_ID)
        listeners = [
            await controller.listen(runtime, address.port)
            for controller, address in zip(controllers, (FIRST, SECOND), strict=False)
        ]
        try:
            await story(runtime, channel, known)
        finally:
            await channel.close()
            for listener in listeners:
                await listener.close(grace_seconds=0)

    in_simulation(run)


def one_after_the_other(*answers: Response | None) -> ScriptedController:
    left = list(answers)
    return ScriptedController(lambda _request: left.pop(0))


def test_the_bytes_are_those_of_a_kafka_broker() -> None:
    controller = one_after_the_other(GIVEN)

    async def story(_runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        assert await channel.ask(REQUEST, timeout_ms=None) == GIVEN

    told(story, controller)
    (sent,) = controller.frames
    assert without_correlation(sent) == without_correlation(
        golden_frame("AllocateProducerIds v0 request: kafka")
    )
    (introduction,) = controller.introductions
    recorded = golden_frame("ApiVersions v4 request: broker channel")
    assert introduction[:4] == recorded[:4], "ApiVersions, version 4"
    assert introduction[8:12] == recorded[8:12], "the client id is the broker's id, and no tagged fields"
    own_name = b"\x06semel" + bytes([len(__version__) + 1]) + __version__.encode() + b"\0"
    assert introduction[12:] == own_name, "where Kafka has its own name"


def test_versions_known_beforehand_are_not_asked_for() -> None:
    controller = one_after_the_other(ControlledShutdownResponse())

    async def story(runtime: Runtime, _channel: ControllerChannel, known: Known) -> None:
        channel = ControllerChannel(
            runtime, link=LINK, controller=known, node_id=NODE_ID, served=BETWEEN_BROKERS
        )
        request = ControlledShutdownRequest(broker_id=NODE_ID, broker_epoch=0x8F)
        assert await channel.attempt(request, timeout_ms=1000) == ControlledShutdownResponse()
        await channel.close()

    told(story, controller)
    assert controller.introductions == []
    (sent,) = controller.frames
    assert without_correlation(sent) == without_correlation(
        golden_frame("ControlledShutdown v3 request: kafka")
    )


@pytest.mark.parametrize(("last", "asked"), [(4, [4]), (3, [4, 3]), (2, [4, 3, 0]), (0, [4, 3, 0])])
def test_a_controller_that_does_not_know_the_version_is_asked_lower(last: int, asked: list[int]) -> None:
    controller = ScriptedController(lambda _request: GIVEN, api_versions_last=last)

    async def story(_runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        assert await channel.ask(REQUEST, timeout_ms=1000) == GIVEN

    told(story, controller)
    assert [version for key, version in controller.versions if key == ApiKey.API_VERSIONS] == asked
    assert len(controller.asked) == 1


def test_a_link_is_kept_between_requests() -> None:
    controller = ScriptedController(lambda _request: GIVEN)

    async def story(_runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        for _ in range(3):
            await channel.ask(REQUEST, timeout_ms=None)
            channel.controller_changed()
        assert known.looked_up >= 3, "looked up for every request"

    told(story, controller)
    assert len(controller.introductions) == 1


def test_one_request_is_under_way_at_a_time_in_the_order_they_came() -> None:
    async def slowly() -> Response:
        await asyncio.sleep(0.2)
        return GIVEN

    controller = ScriptedController(lambda _request: slowly())

    async def story(_runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        asking = [
            channel.ask(AllocateProducerIdsRequest(broker_id=one), timeout_ms=None) for one in range(20)
        ]
        assert await asyncio.gather(*asking) == [GIVEN] * 20

    told(story, controller)
    assert controller.under_way_max == 1
    assert [request.broker_id for request in controller.asked] == list(range(20))


def test_not_controller_is_asked_again_until_the_metadata_names_another() -> None:
    former = ScriptedController(lambda _request: NOT_CONTROLLER)
    present = ScriptedController(lambda _request: GIVEN)

    async def story(runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        asking = asyncio.ensure_future(channel.ask(REQUEST, timeout_ms=None))
        await runtime.tasks.sleep(10)
        assert not asking.done()
        known.address = SECOND
        assert await asking == GIVEN

    told(story, former, present)
    assert 80 <= len(former.asked) <= 101
    pauses = [later - earlier for earlier, later in zip(former.times, former.times[1:], strict=False)]
    assert min(pauses) >= RETRY_SECONDS, "never faster"
    assert len(present.asked) == 1


def test_a_request_goes_to_the_controller_of_then_though_nobody_told_of_it() -> None:
    former = ScriptedController(lambda _request: GIVEN)
    present = ScriptedController(lambda _request: GIVEN)

    async def story(_runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        for address in (FIRST, SECOND, FIRST):
            known.address = address
            assert await channel.ask(REQUEST, timeout_ms=None) == GIVEN

    told(story, former, present)
    assert (len(former.asked), len(present.asked)) == (2, 1)


def test_a_lost_answer_is_asked_for_again() -> None:
    controller = one_after_the_other(None, None, GIVEN)

    async def story(_runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        assert await channel.ask(REQUEST, timeout_ms=None) == GIVEN

    told(story, controller)
    assert len(controller.frames) == 3
    assert min(b - a for a, b in zip(controller.times, controller.times[1:], strict=False)) >= RETRY_SECONDS


def test_a_mute_controller_is_given_up_after_the_time_of_a_request_and_asked_again() -> None:
    answers: list[Callable[[], Awaitable[Response | None] | Response]] = [silence, silence, lambda: GIVEN]
    controller = ScriptedController(lambda _request: answers.pop(0)())

    async def story(runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        began = runtime.clock.monotonic()
        assert await channel.ask(REQUEST, timeout_ms=None) == GIVEN
        assert 10 < runtime.clock.monotonic() - began < 11

    told(story, controller)


def test_a_controller_that_is_no_longer_it_is_not_waited_for() -> None:
    former = ScriptedController(lambda _request: silence())
    present = ScriptedController(lambda _request: GIVEN)

    async def story(runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        asking = asyncio.ensure_future(channel.ask(REQUEST, timeout_ms=None))
        await runtime.tasks.sleep(1)
        channel.controller_changed()
        await runtime.tasks.sleep(1)
        assert len(former.asked) == 1, "it is the same one"
        known.address = SECOND
        channel.controller_changed()
        channel.controller_changed()
        began = runtime.clock.monotonic()
        assert await asking == GIVEN
        assert runtime.clock.monotonic() - began < RETRY_SECONDS

    told(story, former, present)


def test_a_controller_that_becomes_known_is_asked_at_once() -> None:
    controller = ScriptedController(lambda _request: GIVEN)

    async def story(runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        known.address = None
        asking = asyncio.ensure_future(channel.ask(REQUEST, timeout_ms=None))
        await runtime.tasks.sleep(100.05)
        assert known.looked_up <= 2100, "looked up twice a pause at most"
        known.address = FIRST
        channel.controller_changed()
        began = runtime.clock.monotonic()
        assert await asking == GIVEN
        assert runtime.clock.monotonic() - began < 0.02

    told(story, controller)


def test_a_callers_time_ends_its_request_and_the_next_is_not_stuck_behind_it() -> None:
    answers: list[Callable[[], Awaitable[Response | None] | Response]] = [silence, lambda: GIVEN]
    controller = ScriptedController(lambda _request: answers.pop(0)())

    async def story(runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        began = runtime.clock.monotonic()
        with pytest.raises(
            RequestTimedOutError, match="AllocateProducerIds: no controller has answered within 500 ms"
        ):
            await channel.ask(REQUEST, timeout_ms=500)
        assert runtime.clock.monotonic() - began == pytest.approx(0.5, abs=0.01)
        assert await channel.ask(REQUEST, timeout_ms=500) == GIVEN
        known.address = None
        with pytest.raises(RequestTimedOutError, match="no broker is known to be the controller"):
            await channel.ask(REQUEST, timeout_ms=500)
        with pytest.raises(DisconnectedError, match="no broker is known to be the controller"):
            await channel.attempt(REQUEST, timeout_ms=500)

    told(story, controller)


def test_an_attempt_is_made_once() -> None:
    controller = one_after_the_other(NOT_CONTROLLER, None)

    async def story(runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        began = runtime.clock.monotonic()
        assert await channel.attempt(REQUEST, timeout_ms=5000) == NOT_CONTROLLER
        with pytest.raises(DisconnectedError):
            await channel.attempt(REQUEST, timeout_ms=5000)
        assert runtime.clock.monotonic() - began < RETRY_SECONDS

    told(story, controller)
    assert len(controller.asked) == 2


def test_an_api_the_controller_does_not_serve_is_the_callers_business() -> None:
    served = {key: versions for key, versions in ADVERTISED.items() if key != ApiKey.ALLOCATE_PRODUCER_IDS}
    controller = ScriptedController(lambda _request: GIVEN, served=served)

    async def story(_runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        with pytest.raises(UnsupportedVersionError, match="does not serve AllocateProducerIds"):
            await channel.ask(REQUEST, timeout_ms=None)

    told(story, controller)


def test_what_waits_is_bounded() -> None:
    controller = ScriptedController(lambda _request: silence())

    async def story(runtime: Runtime, channel: ControllerChannel, _known: Known) -> None:
        asking = [asyncio.ensure_future(channel.ask(REQUEST, timeout_ms=None)) for _ in range(WAITING_MAX)]
        await runtime.tasks.sleep(1)
        with pytest.raises(ChannelBusyError, match="AllocateProducerIds was not sent: 100 requests wait"):
            await channel.ask(REQUEST, timeout_ms=None)
        asking[-1].cancel()
        await runtime.tasks.sleep(0)
        with pytest.raises(RequestTimedOutError):
            await channel.ask(REQUEST, timeout_ms=10)
        await channel.close()
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(one) for one in outcomes[:-1]] == [ChannelClosedError] * (WAITING_MAX - 1)

    told(story, controller)


def test_closing_waits_for_nobody() -> None:
    """Not for a host that takes no connection, not for an answer, not for a controller to be known."""
    simulation = Simulation(1)
    own, other = simulation.host("own"), simulation.host("other")

    async def program(runtime: Runtime) -> None:
        patient = LinkSettings(request_timeout_ms=30_000, socket_connection_setup_timeout_ms=30_000)
        for address in (Address("other", 9101), None):
            channel = ControllerChannel(
                runtime, link=patient, controller=partial(_same, address), node_id=NODE_ID
            )
            asking = asyncio.ensure_future(channel.ask(REQUEST, timeout_ms=None))
            await runtime.tasks.sleep(5)
            assert not asking.done()
            began = runtime.clock.monotonic()
            await channel.close()
            assert runtime.clock.monotonic() - began < 0.01
            with pytest.raises(ChannelClosedError, match="this broker stops"):
                await asking
            with pytest.raises(ChannelClosedError):
                await channel.ask(REQUEST, timeout_ms=None)

    async def story() -> None:
        other.boot()
        simulation.network.partition("own", "other")
        await own.start(program)

    simulation.run(story())


def _same(address: Address | None) -> Address | None:
    return address


def test_silence_is_logged_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    controller = ScriptedController(lambda _request: GIVEN)

    async def story(runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        known.address = SECOND
        asking = asyncio.ensure_future(channel.ask(REQUEST, timeout_ms=None))
        await runtime.tasks.sleep(0.9)
        assert caplog.messages == [], "nothing is worth a line that ends within a second"
        await runtime.tasks.sleep(600)
        known.address = FIRST
        assert await asking == GIVEN

    with caplog.at_level(logging.INFO, "semel.cluster"):
        told(story, controller)
    *silent, ended = caplog.messages
    assert 10 <= len(silent) <= 15
    assert silent[0].startswith(
        "AllocateProducerIds: no controller has answered for 1 s, it is asked again: "
    )
    assert f"{SECOND}: no connection" in silent[0]
    assert ended == "AllocateProducerIds: a controller has answered after 601 s"


@pytest.mark.parametrize("seed", range(20))
def test_every_request_is_answered_by_the_controller_however_it_moves(seed: int) -> None:
    """Two brokers of which one, or none, is the controller; both lose answers, are slow or mute; the metadata is late."""
    dice = random.Random(seed)
    controller = [0]

    async def slow() -> Response:
        await asyncio.sleep(dice.uniform(0, 2))
        return GIVEN

    def behave(number: int, request: AllocateProducerIdsRequest) -> Said:
        fate = dice.random()
        if fate < 0.1:
            return silence()
        if fate < 0.3:
            return None
        if controller[0] != number:
            return NOT_CONTROLLER
        return slow() if fate < 0.5 else GIVEN

    brokers = [ScriptedController(partial(behave, number)) for number in (0, 1)]

    async def story(runtime: Runtime, channel: ControllerChannel, known: Known) -> None:
        moves = 0

        async def move() -> None:
            nonlocal moves
            while True:
                await asyncio.sleep(dice.expovariate(1 / 3))
                moves += 1
                controller[0] = dice.choice([0, 1, 2])
                await asyncio.sleep(dice.uniform(0, 1))
                known.address = (FIRST, SECOND, None)[controller[0]]
                if dice.random() < 0.8:
                    channel.controller_changed()

        moving = asyncio.ensure_future(move())
        for _ in range(30):
            assert await channel.ask(REQUEST, timeout_ms=None) == GIVEN
        moving.cancel()
        tries = sum(len(broker.asked) for broker in brokers)
        assert tries <= 30 + moves + runtime.clock.monotonic() / RETRY_SECONDS

    told(story, *brokers)
