"""A client that starts at the links' address meets every broker of a cluster through a link, whatever answer named it.

Method: three brokers that are functions, on real sockets, each naming all three in every kind of answer that can; a client
that follows those names. What reaches a broker is counted there, and what is harmed on the way must be what was asked for.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any

import pytest

from semel.core.wire import framing
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from semel.core.wire.messages.fetch import FetchRequest, FetchResponse
from semel.core.wire.messages.fetch import NodeEndpoint as FetchEndpoint
from semel.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from semel.core.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from semel.core.wire.messages.produce import NodeEndpoint, ProduceRequest, ProduceResponse
from semel.core.wire.registry import ApiKey, api
from semel.net.listener import Listener
from semel.runtime.bundle import real_runtime
from semel.verify.faults.cluster import FaultCluster
from semel.verify.faults.link import Address, Fate, FaultLinkError, no_faults
from support.broker.fake_broker import FakeBroker

HERE = "127.0.0.1"
LENGTH = Struct(">i")


class Trio:
    """Three brokers that name each other."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.fakes = [FakeBroker(self.answer) for _ in range(3)]
        self.listeners: list[Listener] = []

    async def start(self) -> None:
        runtime = real_runtime()
        for fake in self.fakes:
            listener = Listener(runtime, fake.handle)
            self.listeners.append(listener)
            self.ports.append((await listener.start(HERE, 0))[1])

    async def close(self) -> None:
        for listener in self.listeners:
            await listener.close()

    def answer(self, request: Request[Any]) -> Response:
        places = list(enumerate(self.ports))
        match request:
            case MetadataRequest():
                brokers = [MetadataResponseBroker(node_id=n, host=HERE, port=port) for n, port in places]
                return MetadataResponse(brokers=brokers)
            case DescribeClusterRequest():
                return DescribeClusterResponse(
                    brokers=[DescribeClusterBroker(broker_id=n, host=HERE, port=port) for n, port in places]
                )
            case FindCoordinatorRequest():
                if not request.coordinator_keys:
                    return FindCoordinatorResponse(node_id=0, host=HERE, port=self.ports[0])
                found = [Coordinator(key=str(n), node_id=n, host=HERE, port=port) for n, port in places]
                none = Coordinator(key="none", node_id=-1, host="", port=-1, error_code=15)
                return FindCoordinatorResponse(coordinators=[*found, none])
            case ProduceRequest():
                ends = [NodeEndpoint(node_id=n, host=HERE, port=port) for n, port in places]
                return ProduceResponse(node_endpoints=ends)
            case _:
                ends_of_fetch = [FetchEndpoint(node_id=n, host=HERE, port=port) for n, port in places]
                return FetchResponse(node_endpoints=ends_of_fetch)


def request_frame(request: Request[Any], version: int) -> bytes:
    key = ApiKey(type(request).schema.api_key)
    return framing.request_frame(framing.RequestHeader(key, version, 7, "test"), request)


async def ask(where: Address, request: Request[Any], version: int) -> Any:
    reader, writer = await asyncio.open_connection(*where)
    try:
        key = ApiKey(type(request).schema.api_key)
        writer.write(request_frame(request, version))
        size = LENGTH.unpack(await reader.readexactly(4))[0]
        frame = await reader.readexactly(size)
    finally:
        writer.close()
    _correlation_id, position = framing.read_response_header(frame, api(key).response_header(version))
    return api(key).response.decode(frame, version, position)


def play(story: Callable[[Trio, FaultCluster, Address], Awaitable[None]]) -> None:
    async def run() -> None:
        trio = Trio()
        await trio.start()
        try:
            with FaultCluster(f"{HERE}:{trio.ports[0]}") as cluster:
                host, _, port = cluster.bootstrap.rpartition(":")
                await story(trio, cluster, (host, int(port)))
        finally:
            await trio.close()

    asyncio.run(run())


def places(named: list[Any]) -> list[Address]:
    return [(one.host, one.port) for one in named]


def test_every_answer_names_the_links_and_each_leads_to_its_broker() -> None:
    async def story(trio: Trio, cluster: FaultCluster, start: Address) -> None:
        links = places((await ask(start, MetadataRequest(), 12)).brokers)
        assert len(set(links)) == 3
        assert not {port for _, port in links} & set(trio.ports)
        assert cluster.brokers == [(HERE, port) for port in trio.ports]
        for link, fake in zip(links, trio.fakes, strict=True):
            before = len(fake.asked)
            assert places((await ask(link, DescribeClusterRequest(), 1)).brokers) == links
            assert len(fake.asked) == before + 1
        old = await ask(links[1], FindCoordinatorRequest(key="group"), 3)
        assert (old.host, old.port) == links[0]
        new = (await ask(links[1], FindCoordinatorRequest(coordinator_keys=["group"]), 4)).coordinators
        assert places(new) == [*links, ("", -1)], "nobody is not a broker"
        assert places((await ask(links[2], MetadataRequest(), 12)).brokers) == links
        assert places((await ask(links[2], ProduceRequest(acks=1), 10)).node_endpoints) == links
        assert places((await ask(links[2], FetchRequest(), 16)).node_endpoints) == links

    play(story)


def test_a_link_that_never_named_a_broker_knows_the_names_too() -> None:
    """A client asks one broker for all of them, and hears of a new leader from another."""

    async def story(trio: Trio, cluster: FaultCluster, start: Address) -> None:
        links = places((await ask(start, MetadataRequest(), 12)).brokers)
        assert places((await ask(links[1], ProduceRequest(acks=1), 10)).node_endpoints) == links
        assert places((await ask(links[2], FetchRequest(), 16)).node_endpoints) == links

    play(story)


def test_faults_hit_all_or_one() -> None:
    async def story(trio: Trio, cluster: FaultCluster, start: Address) -> None:
        links = places((await ask(start, MetadataRequest(), 12)).brokers)
        cluster.isolate(cluster.brokers[1])
        asked = len(trio.fakes[1].asked)
        with pytest.raises((EOFError, OSError)):
            await ask(links[1], DescribeClusterRequest(), 1)
        assert len(trio.fakes[1].asked) == asked
        await ask(links[2], DescribeClusterRequest(), 1)
        cluster.isolate(None)
        await ask(links[1], DescribeClusterRequest(), 1)
        cluster.plan = lambda _key, _count: (Fate.CUT_AFTER, 0.0)
        for link in links:
            with pytest.raises((EOFError, OSError)):
                await ask(link, DescribeClusterRequest(), 1)
        cluster.plan = no_faults
        assert cluster.tally == {Fate.PASS: 3, Fate.CUT_BEFORE: 1, Fate.CUT_AFTER: 3}

    play(story)


def test_links_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.verify.faults.cluster._LINKS_MAX", 2)

    async def story(_trio: Trio, _cluster: FaultCluster, start: Address) -> None:
        with pytest.raises((EOFError, OSError)):
            await ask(start, MetadataRequest(), 12)

    with pytest.raises(FaultLinkError, match="more than 2 brokers"):
        play(story)


def test_connections_are_bounded_at_a_time_and_those_that_ended_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("semel.verify.faults.link._CONNECTIONS_MAX", 1)

    async def answered(start: Address) -> None:
        """As soon as the connection before is forgotten."""
        while True:
            try:
                await ask(start, DescribeClusterRequest(), 1)
            except (EOFError, OSError):
                await asyncio.sleep(0.01)
            else:
                return

    async def kept(start: Address) -> asyncio.StreamWriter:
        """A connection that was answered and stands."""
        while True:
            reader, writer = await asyncio.open_connection(*start)
            with contextlib.suppress(OSError):
                writer.write(request_frame(DescribeClusterRequest(), 1))
                if await reader.read(1):
                    return writer
            writer.close()

    async def story(_trio: Trio, _cluster: FaultCluster, start: Address) -> None:
        for _ in range(3):  # More in all than at a time.
            await asyncio.wait_for(answered(start), timeout=60)
        writer = await asyncio.wait_for(kept(start), timeout=60)
        with pytest.raises((EOFError, OSError)):
            await ask(start, DescribeClusterRequest(), 1)
        writer.close()
        await asyncio.wait_for(answered(start), timeout=60)

    play(story)
