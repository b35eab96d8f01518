"""Every errand to another broker ends once, whatever happens to it.

Method: errands in a simulation to a broker that is there, of a kind that breaks.
"""

import logging
from collections.abc import Sequence

import pytest

from semel.cluster.peers import PeerConfig, Peers
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.errors import SemelError
from semel.net.link import Link
from semel.runtime.bundle import Runtime
from support.cluster.scripted_controller import FIRST, ScriptedController
from support.net.net_worlds import in_simulation


class Breaking:
    """Errands of which the first ones break."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.undone: list[tuple[int, SemelError]] = []

    async def carry_out(self, _link: Link, errands: Sequence[int]) -> None:
        if 0 in errands:
            raise ZeroDivisionError("nobody foresaw it")
        self.done += errands

    def failed(self, errands: Sequence[int], error: SemelError) -> None:
        self.undone += [(one, error) for one in errands]


def test_errands_that_break_have_failed_and_the_next_ones_are_carried_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(runtime: Runtime) -> None:
        listener = await ScriptedController(lambda _request: None).listen(runtime, FIRST.port)
        brokers = {1: RegisteredBroker(1, {"PLAINTEXT": Endpoint(*FIRST)})}
        config = PeerConfig(
            client_id="1",
            request_timeout_ms=1000,
            socket_connection_setup_timeout_ms=1000,
            response_max_bytes=1000,
        )
        peers: Peers[int] = Peers(
            runtime,
            errands,
            what="errands",
            brokers=brokers,
            listener="PLAINTEXT",
            config=config,
            served=BETWEEN_BROKERS,
        )
        peers.put(1, [0, 1])
        await runtime.tasks.sleep(1)
        peers.put(1, [2])
        await runtime.tasks.sleep(1)
        peers.close()
        await listener.close(grace_seconds=0)

    errands = Breaking()
    in_simulation(story)
    assert errands.done == [2]
    assert [one for one, error in errands.undone if "nobody foresaw it" in str(error)] == [0, 1]
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.exc_info is not None
