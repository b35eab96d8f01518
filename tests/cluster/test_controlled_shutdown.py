"""A broker that stops asks the controller a few times to move its leaderships, and stops in any case.

Method: the request in a simulation against controllers played by functions; the answers are those Kafka 3.9.2 gave.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from semel.cluster.controlled_shutdown import ShutdownSettings, shut_down
from semel.cluster.controller_channel import ControllerChannel
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.wire.framing import read_response_header
from semel.core.wire.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from semel.core.wire.registry import ApiKey, api
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import Address
from support.cluster.scripted_controller import (
    FIRST,
    LinkSettings,
    Said,
    ScriptedController,
    golden_frame,
    silence,
)
from support.net.net_worlds import in_simulation

SETTINGS = ShutdownSettings(retry_backoff_ms=5000, timeout_ms=4000)


def recorded(title: str) -> ControlledShutdownResponse:
    frame = golden_frame(f"ControlledShutdown v3 response: {title}")
    _, position = read_response_header(frame, api(ApiKey.CONTROLLED_SHUTDOWN).response_header(3))
    return ControlledShutdownResponse.decode(frame, 3, position)


REMAIN, NONE_REMAIN = recorded("partitions remain"), recorded("none remain")
NOT_ACTIVE = ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)


def asked(
    *answers: Callable[[], Said],
    settings: ShutdownSettings = SETTINGS,
    controller: Callable[[], Address | None] = lambda: FIRST,
) -> tuple[bool, float, ScriptedController]:
    """Whether it is done, how long that took, and the controller that was asked."""
    left, epochs = list(answers), iter(range(40, 50))
    scripted = ScriptedController(lambda _request: left.pop(0)())

    async def run(runtime: Runtime) -> tuple[bool, float]:
        listener = await scripted.listen(runtime, FIRST.port)
        channel = ControllerChannel(
            runtime, link=LinkSettings(), controller=controller, node_id=2, served=BETWEEN_BROKERS
        )
        began = runtime.clock.monotonic()
        done = await shut_down(runtime, channel, settings, node_id=2, broker_epoch=lambda: next(epochs))
        took = runtime.clock.monotonic() - began
        await channel.close()
        await listener.close(grace_seconds=0)
        return done, took

    return *in_simulation(run), scripted


def test_nothing_remains(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "semel.cluster"):
        done, took, controller = asked(lambda: NONE_REMAIN)
    assert done
    assert took < 0.1
    (request,) = controller.asked
    assert (request.broker_id, request.broker_epoch) == (2, 40)
    assert controller.versions == [(ApiKey.CONTROLLED_SHUTDOWN, 3)], "what it serves is known"
    assert caplog.messages == ["controlled shutdown: other brokers lead what this one has led"]


def test_partitions_that_remain_are_named_and_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "semel.cluster"):
        done, took, controller = asked(lambda: REMAIN, lambda: NONE_REMAIN)
    assert done
    assert took == pytest.approx(5, abs=0.1)
    assert [request.broker_epoch for request in controller.asked] == [40, 41], "the broker epoch of then"
    assert caplog.messages[0] == (
        "controlled shutdown: 3 partitions still need another leader: followed-0, led2-0, u-0"
    )
    assert caplog.messages[1] == "controlled shutdown is asked for again in 5000 ms, 2 times more at most"


def test_many_partitions_that_remain_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    many = ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(topic_name="t", partition_index=one) for one in range(50)]
    )
    with caplog.at_level(logging.INFO, "semel.cluster"):
        done, _took, _controller = asked(lambda: many, settings=replace(SETTINGS, max_retries=1))
    assert not done
    assert caplog.messages[0].startswith("controlled shutdown: 50 partitions still need another leader: t-0,")
    assert caplog.messages[0].endswith("t-19 and 30 more")


@pytest.mark.parametrize(
    ("answer", "took_at_most"),
    [
        pytest.param(lambda: REMAIN, 10.1, id="partitions remain"),
        pytest.param(lambda: NOT_ACTIVE, 10.1, id="not the controller"),
        pytest.param(lambda: None, 10.1, id="answers are lost"),
        pytest.param(silence, 22.1, id="mute"),
    ],
)
def test_after_the_last_try_the_broker_stops_all_the_same(
    answer: Callable[[], Said], took_at_most: float, caplog: pytest.LogCaptureFixture
) -> None:
    done, took, controller = asked(answer, answer, answer)
    assert not done
    assert 10 <= took <= took_at_most, "three tries, two pauses"
    assert len(controller.asked) == 3
    assert caplog.messages[-1].startswith(
        "this broker stops though the controller has not moved all it leads"
    )


@pytest.mark.parametrize("address", [None, Address("127.0.0.1", 1)])
def test_without_a_controller_nothing_hangs(address: Address | None) -> None:
    done, took, controller = asked(controller=lambda: address)
    assert not done
    assert took == pytest.approx(10, abs=0.1)
    assert controller.asked == []


def test_a_controller_that_moves_meanwhile_is_found() -> None:
    places = [None, Address("127.0.0.1", 1), FIRST]
    done, _took, controller = asked(lambda: NONE_REMAIN, controller=lambda: places.pop(0))
    assert done
    assert len(controller.asked) == 1


def test_the_settings_are_kafkas() -> None:
    done, took, controller = asked(settings=replace(SETTINGS, enable=False))
    assert (done, took, controller.asked) == (False, 0, [])
    done, took, controller = asked(
        *[lambda: REMAIN] * 5, settings=replace(SETTINGS, max_retries=5, retry_backoff_ms=100)
    )
    assert took == pytest.approx(0.4, abs=0.05)
    assert len(controller.asked) == 5
    assert ShutdownSettings() == ShutdownSettings(
        enable=True, max_retries=3, retry_backoff_ms=5000, timeout_ms=30_000
    )
