"""The client does on a real ZooKeeper and on ours what kazoo does, and another client sees it.

Method: the same calls on Apache ZooKeeper (its jars come with PySpark) and on the machine behind a port; kazoo writes what
the client must be told, and reads what it wrote.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
from kazoo.client import KazooClient

from semel.cluster.zookeeper.client import (
    Settings,
    ZooKeeperClient,
    ZooKeeperUnreachableError,
)
from semel.cluster.zookeeper.connect_string import Servers, parse
from semel.cluster.zookeeper.recipes import (
    NodeTakenError,
    Registration,
    ensure,
    get_or_create,
    notify,
    remove,
    write_if,
)
from semel.cluster.zookeeper.session import RequestTooLargeError, ZooKeeperError
from semel.core.zookeeper.wire.messages import Check, Create, SetData, WatchEvent
from semel.core.zookeeper.words import ALL_PERMISSIONS, Acl, EventType, ZooKeeperCode
from semel.runtime.bundle import real_runtime
from support.peers.zookeeper import our_zookeeper, real_zookeeper

TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module", params=["Apache ZooKeeper", "ours"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if request.param == "ours":
        with our_zookeeper() as ours:
            yield ours
    else:
        with real_zookeeper(tmp_path_factory.mktemp("zookeeper")) as real:
            yield real


@pytest.fixture
def kazoo(port: int) -> Iterator[KazooClient]:
    client = KazooClient(hosts=f"127.0.0.1:{port}", timeout=30)
    client.start(timeout=TIMEOUT_SECONDS)
    yield client
    client.stop()
    client.close()


class Heard:
    """The events of a client's watches."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def told(self, event: WatchEvent) -> None:
        self._events.put_nowait(event)

    async def next(self) -> tuple[EventType, str]:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            event = await self._events.get()
        return event.type, event.path

    @property
    def is_quiet(self) -> bool:
        return self._events.empty()


@contextlib.asynccontextmanager
async def opened(
    port: int, chroot: str = "", heard: Heard | None = None, **more: object
) -> AsyncIterator[ZooKeeperClient]:
    runtime = real_runtime()
    settings = Settings(Servers((("127.0.0.1", port),), chroot), session_timeout_ms=30_000, **more)  # type: ignore[arg-type]
    client = ZooKeeperClient(runtime, settings, on_event=(heard or Heard()).told)
    try:
        await client.open()
        yield client
    finally:
        await client.close()
        await runtime.tasks.close()


def test_what_one_writes_the_other_reads(port: int, kazoo: KazooClient) -> None:
    async def story() -> None:
        async with opened(port) as client:
            await ensure(client, "/both/deep/down")
            assert kazoo.get("/both/deep/down")[0] in (None, b"")
            assert await client.create("/both/data", b"one") == "/both/data"
            assert kazoo.get("/both/data")[0] == b"one"
            kazoo.set("/both/data", b"two")
            found = await client.get("/both/data")
            assert found is not None
            assert (found.data, found.stat.version) == (b"two", 1)
            assert await write_if(client, "/both/data", b"three", 1) == 2
            assert await write_if(client, "/both/data", b"four", 1) is None
            assert sorted(await client.children("/both") or ()) == ["data", "deep"]
            first, second = [await notify(client, "/both/change_", b"{}") for _ in range(2)]
            assert int(second[-10:]) == int(first[-10:]) + 1
            await remove(client, "/both/data")
            await remove(client, "/both/data")
            assert await client.get("/both/data") is None
            assert await client.exists("/both/data") is None
            assert await client.children("/both/data") is None
            assert await get_or_create(client, "/both/id", b"mine") == b"mine"
            assert await get_or_create(client, "/both/id", b"yours") == b"mine"

    asyncio.run(story())


def test_refusals_have_zookeepers_codes(port: int) -> None:
    async def story() -> None:
        async with opened(port) as client:
            await ensure(client, "/refusals/child")
            for refused, code in (
                (client.create("/refusals", b""), ZooKeeperCode.NODE_EXISTS),
                (client.create("/refusals/no/parent", b""), ZooKeeperCode.NO_NODE),
                (client.set("/refusals", b"", 7), ZooKeeperCode.BAD_VERSION),
                (client.set("/refusals/none", b""), ZooKeeperCode.NO_NODE),
                (client.delete("/refusals"), ZooKeeperCode.NOT_EMPTY),
            ):
                with pytest.raises(ZooKeeperError) as error:
                    await refused
                assert error.value.reason is code
            with pytest.raises(RequestTooLargeError, match=r"/refusals/large: ZooKeeper takes 1048575"):
                await client.create("/refusals/large", bytes(1 << 20))
            assert await client.exists("/refusals/large") is None

    asyncio.run(story())


def test_a_multi_is_done_as_a_whole_or_not_at_all(port: int) -> None:
    async def story() -> None:
        async with opened(port) as client:
            await ensure(client, "/multi", b"0")
            done = await client.multi(
                Check("/multi", 0), SetData("/multi", b"1", 0), Create("/multi/child", b"")
            )
            assert done.failure is None
            refused = await client.multi(SetData("/multi", b"2", 1), Check("/multi", 9))
            assert refused.failure is ZooKeeperCode.BAD_VERSION
            found = await client.get("/multi")
            assert found is not None
            assert (found.data, found.stat.version) == (b"1", 1)

    asyncio.run(story())


def test_watches_fire_once_and_for_what_was_asked(port: int, kazoo: KazooClient) -> None:
    async def story() -> None:
        heard = Heard()
        async with opened(port, heard=heard) as client:
            await ensure(client, "/watched")
            assert await client.get("/watched/node", watch=True) is None  # A missing node is watched too.
            assert await client.children("/watched", watch=True) == ()
            kazoo.create("/watched/node", b"1")
            assert {await heard.next(), await heard.next()} == {
                (EventType.NODE_CREATED, "/watched/node"),
                (EventType.NODE_CHILDREN_CHANGED, "/watched"),
            }
            assert await client.get("/watched/node", watch=True) is not None
            kazoo.set("/watched/node", b"2")
            assert await heard.next() == (EventType.NODE_DATA_CHANGED, "/watched/node")
            kazoo.set("/watched/node", b"3")
            kazoo.delete("/watched/node")
            assert (
                await client.exists("/watched/node") is None
            )  # An answer comes behind every event before it.
            assert heard.is_quiet

    asyncio.run(story())


def test_a_chroot_is_not_seen_from_within(port: int, kazoo: KazooClient) -> None:
    async def story() -> None:
        heard = Heard()
        async with opened(port, "/chroots/one", heard) as client:
            await ensure_chroot(port, "/chroots/one")
            assert await client.create("/node", b"1") == "/node"
            assert kazoo.get("/chroots/one/node")[0] == b"1"
            assert await client.children("/", watch=True) == ("node",)
            made = await client.multi(Create("/other", b""), Check("/node", 0))
            assert made.failure is None
            assert [getattr(one, "path", None) for one in made.results] == ["/other", None]
            assert await heard.next() == (EventType.NODE_CHILDREN_CHANGED, "/")
            assert (await notify(client, "/change_", b"")).startswith("/change_")

    async def ensure_chroot(port: int, chroot: str) -> None:
        async with opened(port) as outside:
            await ensure(outside, chroot)

    asyncio.run(story())


def test_a_registration_belongs_to_one_client(port: int, kazoo: KazooClient) -> None:
    async def story() -> None:
        async with opened(port) as one, opened(port) as other:
            await ensure(one, "/registered")
            mine = Registration(one, "/registered/1")
            stat = await mine.create(b"here")
            assert (stat.version, stat.ephemeral_owner) == (1, one.session_id)
            assert await mine.create(b"here") == stat  # Asked again, as after a lost answer: it is there.
            with pytest.raises(NodeTakenError, match="/registered/1 belongs to another client") as taken:
                await Registration(other, "/registered/1").create(b"there")
            assert (taken.value.data, taken.value.owner) == (b"here", one.session_id)
        assert kazoo.exists("/registered/1") is None  # A session that was closed takes its nodes along.

    asyncio.run(story())


def test_digest_credentials_open_what_they_protect(port: int) -> None:
    async def story() -> None:
        secret = (Acl(ALL_PERMISSIONS, "auth", ""),)
        credentials = (("digest", b"broker:secret"),)
        async with opened(port, credentials=credentials) as owner, opened(port) as stranger:
            await owner.create("/protected", b"1", acl=secret)
            with pytest.raises(ZooKeeperError) as refused:
                await stranger.get("/protected")
            assert refused.value.reason is ZooKeeperCode.NO_AUTH
            assert await owner.get("/protected") is not None

    asyncio.run(story())


def test_nobody_there_is_said_with_the_address_and_the_setting() -> None:
    async def story() -> None:
        runtime = real_runtime()
        settings = Settings(parse("127.0.0.1:1/kafka"), connection_timeout_ms=300)
        client = ZooKeeperClient(runtime, settings, on_event=lambda _event: None)
        with pytest.raises(ZooKeeperUnreachableError) as failed:
            await client.open()
        for part in ("127.0.0.1:1/kafka", "300 ms", "zookeeper.connect"):
            assert part in str(failed.value)
        with pytest.raises(ZooKeeperUnreachableError, match="closed"):
            await client.get("/")
        await runtime.tasks.close()

    asyncio.run(story())


def test_a_server_that_is_none_is_passed_over(port: int) -> None:
    """One of several servers may be down."""

    async def story() -> None:
        runtime = real_runtime()
        settings = Settings(Servers((("127.0.0.1", 1), ("127.0.0.1", port))))
        client = ZooKeeperClient(runtime, settings, on_event=lambda _event: None)
        await client.open()
        assert await client.exists("/") is not None
        await client.close()
        await runtime.tasks.close()

    asyncio.run(story())
