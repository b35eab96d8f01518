"""Supervisors are told the truth: /ready is 503 until clients are served and while they are not, and /health is answered throughout.

Method: brokers in a simulation, asked over their own port from their first moment to their last; parts that fail are failed by hand.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.metrics.listener import CONNECTIONS_MAX, MetricsListener
from semel.broker.metrics.readiness import SHOWN_MAX, Stage
from semel.broker.topics import create_missing
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.errors import LogError
from semel.net.connection import connect
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition
from support.broker.admin_kit import PORT, SETTINGS
from support.broker.metrics_kit import METRICS_PORT, Watched, watched
from support.groups.offsets_kit import BY_NAME, commit_request
from support.net.net_worlds import WORLDS, World, in_simulation, raw_client

METADATA = TopicPartition(METADATA_TOPIC, 0)
ADDRESS = ("127.0.0.1", METRICS_PORT)


async def asked(
    runtime: Runtime, path: str, address: tuple[str, int] = ADDRESS, method: str = "GET"
) -> tuple[int, bytes]:
    """The status and the body."""
    client = await raw_client(runtime, address)
    client.transport.write(f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    await client.lost.wait()
    head, _, body = bytes(client.received).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def ready(runtime: Runtime) -> tuple[int, dict[str, Any]]:
    status, body = await asked(runtime, "/ready")
    return status, json.loads(body)


def lives(*stories: Callable[[Runtime, Broker], Awaitable[None]]) -> None:
    """One broker after the other on one disk, each of them killed; a story starts its broker itself."""
    simulation = Simulation(3)
    host = simulation.host("127.0.0.1")

    async def live(runtime: Runtime, story: Callable[[Runtime, Broker], Awaitable[None]]) -> None:
        await story(runtime, Broker(BrokerConfig.of(SETTINGS), runtime, metrics=ADDRESS))

    async def main() -> None:
        for story in stories:
            await host.start(partial(live, story=story))
            host.kill()

    simulation.run(main())


def test_probes_are_answered_from_the_first_log_that_is_recovered_to_the_last_that_is_closed() -> None:
    async def fill(runtime: Runtime, broker: Broker) -> None:
        await broker.start()
        await create_missing(broker.parts.administration, ["orders", "bills", "claims"])

    async def look(runtime: Runtime, broker: Broker) -> None:
        seen: list[tuple[int, str, tuple[str, ...]]] = []

        async def watch() -> None:
            while True:
                status, told = await ready(runtime)
                assert told["broker"] == 1
                assert (told["status"] == "ready") is (status == 200) is (told["reasons"] == [])
                seen.append((status, told["stage"], tuple(told["reasons"])))
                assert (await asked(runtime, "/health"))[0] == 200
                assert (await asked(runtime, "/metrics"))[0] in (200, 503)

        async def listens() -> None:
            while broker.metrics_url is None:
                await runtime.tasks.sleep(0)

        starting = asyncio.ensure_future(broker.start())
        await listens()
        watching = asyncio.ensure_future(watch())
        await starting
        while not seen or seen[-1][0] != 200:
            await runtime.tasks.sleep(0.001)
        stopping = asyncio.ensure_future(broker.stop())
        await asyncio.wait([stopping, watching], return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        await asyncio.wait([watching])
        await stopping
        statuses = [status for status, _stage, _reasons in seen]
        begun = statuses.index(200)
        assert set(statuses[:begun]) == {503}
        assert Stage.RECOVERING in [stage for _status, stage, _reasons in seen[:begun]]
        assert any("of 3 are open" in reason for _status, _stage, reasons in seen for reason in reasons)
        ended = [one for one in seen if one[1] == Stage.STOPPING]
        assert set(ended) <= {(503, "stopping", ("the broker is stopping",))}

    lives(fill, look)


def test_a_broker_that_stops_is_not_ready_and_shows_no_counters() -> None:
    async def look(runtime: Runtime, broker: Broker) -> None:
        await broker.start()
        assert (await ready(runtime))[0] == 200
        held = asyncio.Event()
        broker.runtime.tasks.spawn(_held(held), name="work that takes its time")
        stopping = asyncio.ensure_future(broker.stop())
        await runtime.tasks.sleep(1)
        assert not stopping.done()
        status, told = await ready(runtime)
        assert (status, told["reasons"]) == (503, ["the broker is stopping"])
        assert (await asked(runtime, "/health"))[0] == 200
        assert (await asked(runtime, "/metrics"))[0] == 503
        held.set()
        await stopping
        with pytest.raises(OSError):  # noqa: PT011  # The network's own words: nobody listens any more.
            await raw_client(runtime, ADDRESS)

    async def _held(until: asyncio.Event) -> None:
        while not until.is_set():
            try:
                await until.wait()
            except asyncio.CancelledError:
                continue

    lives(look)


def test_coordinators_that_are_not_loaded_are_a_reason() -> None:
    async def fill(runtime: Runtime, broker: Broker) -> None:
        await broker.start()
        connection = await connect(runtime, "127.0.0.1", PORT)
        client = Watched(broker, None, connection)  # type: ignore[arg-type]  # nobody looks at the disk here
        await client.create("orders")
        await client.ask(FindCoordinatorRequest(coordinator_keys=["readers"], key_type=0), 5)
        await client.ask(commit_request("readers", {("orders", 0): 0}), BY_NAME)

    async def look(runtime: Runtime, broker: Broker) -> None:
        await broker.start()
        status, body = broker.readiness.ready()
        assert status == 503
        (reason,) = json.loads(body)["reasons"]
        shown = ", ".join(map(str, range(SHOWN_MAX)))
        assert (
            reason
            == f"the coordinators of __consumer_offsets are being loaded: partitions {shown} and 40 more"
        )
        while (await ready(runtime))[0] != 200:
            await runtime.tasks.sleep(0.001)

    lives(fill, look)


def test_a_partition_offline_degrades_and_all_of_them_or_the_metadata_end_it() -> None:
    async def story(client: Watched) -> None:
        await client.create("orders", partitions=2)
        status, told = await ready(client.runtime)
        assert (status, told["degraded"]) == (200, [])
        client.partition("orders", 1).log.offline = "a sync failed"
        status, told = await ready(client.runtime)
        assert (status, told["degraded"]) == (200, ["partitions are offline: orders-1"])
        client.partition("orders", 0).log.offline = "a sync failed"
        status, told = await ready(client.runtime)
        assert (status, told["reasons"]) == (
            503,
            ["the log directory data is offline, with all its 2 partitions"],
        )
        client.partition("orders", 0).log.offline = None
        directory = client.broker._directory
        assert directory is not None
        directory.logs[METADATA].offline = "a sync failed"
        status, told = await ready(client.runtime)
        assert status == 503
        assert "the log of the metadata is offline" in told["reasons"][0]
        client.partition("orders", 1).log.offline = None
        directory.logs[METADATA].offline = None

    watched(story)


@WORLDS
def test_a_probe_waits_for_no_page_and_idle_connections_starve_none(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        written = asyncio.Event()

        async def endless() -> bytes:
            await written.wait()
            return b""

        listener = MetricsListener(runtime, endless, {"/health": lambda: (200, b"{}\n")})
        address = await listener.start("127.0.0.1", 0)
        scraping = asyncio.create_task(asked(runtime, "/metrics", address))
        for _ in range(2 * CONNECTIONS_MAX):
            await raw_client(runtime, address)
        assert await asked(runtime, "/health", address) == (200, b"{}\n")
        assert await asked(runtime, "/health?verbose", address, "HEAD") == (200, b"")
        assert (await asked(runtime, "/health", address, "POST"))[0] == 405
        assert await asked(runtime, "/healthz", address) == (404, b"here are /metrics, /health\n")
        assert not scraping.done()
        written.set()
        assert (await scraping)[0] == 200
        listener.close()

    world(story)


def test_a_start_that_fails_frees_the_port_of_the_probes() -> None:
    async def story(runtime: Runtime) -> None:
        first = Broker(BrokerConfig.of(SETTINGS), runtime)
        await first.start()
        second = Broker(BrokerConfig.of(SETTINGS), runtime, metrics=ADDRESS)
        with pytest.raises(LogError, match="another broker uses this directory"):
            await second.start()
        (await runtime.network.listen(asyncio.Protocol, *ADDRESS)).close()
        await first.stop()

    in_simulation(story)
