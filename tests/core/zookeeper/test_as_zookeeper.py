"""Our ZooKeeper answers, refuses and tells watches as Apache ZooKeeper does.

Method: random scripts of several sessions are played through the same client (kazoo) on a real ZooKeeper and on the machine
behind a port. Results, refusals, Stats (zxids counted from the script's first) and the events of watches are compared after every
step. A second test speaks the bytes itself, where no client lets one: sessions taken over, wrong passwords, watches set again, silence.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback, EventType, WatchedEvent, ZnodeStat
from kazoo.security import ACL, make_acl, make_digest_acl

from semel.cluster.zookeeper.session import (
    Session,
    SessionOverError,
    ZooKeeperError,
)
from semel.core.zookeeper.wire.messages import (
    Auth,
    CloseSession,
    Create,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    SetData,
    SetWatches,
    Unserved,
    WatchEvent,
)
from semel.core.zookeeper.words import EPHEMERAL, Acl
from semel.errors import DisconnectedError
from semel.runtime.bundle import real_runtime
from support.peers.zookeeper import our_zookeeper, real_zookeeper

SEEDS: Final = 200
_CHUNK: Final = 25
_STEPS: Final = 40
_PATIENCE_SECONDS: Final = 30
_TIMEOUT_SECONDS: Final = 20.0


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Of the real one and of ours."""
    with real_zookeeper(tmp_path_factory.mktemp("zookeeper")) as real, our_zookeeper() as ours:
        yield real, ours


class Player:
    """The clients of one script on one server."""

    def __init__(self, port: int, seed: int, count: int) -> None:
        self.port = port
        self.root = f"/script{seed}"
        self.events: list[tuple[int, str, str]] = []
        self.clients = [self._client() for _ in range(count)]
        self.clients[0].create(self.root, b"")
        self.zxid = self.clients[0].exists(self.root).czxid
        for name in _FIRST:
            self.clients[0].create(self.root + name, b"first")
        self.sessions: list[int] = []
        """Every session there was, in the order it was first seen."""

    def _client(self) -> KazooClient:
        client = KazooClient(
            hosts=f"127.0.0.1:{self.port}",
            timeout=_TIMEOUT_SECONDS,
            handler=SequentialThreadingHandler(),
            connection_retry={"max_tries": -1, "delay": 0.02, "max_delay": 0.1},
        )
        client.start(timeout=_PATIENCE_SECONDS)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.stop()
            client.close()

    def watcher(self, index: int) -> Callable[[WatchedEvent], None]:
        def told(event: WatchedEvent) -> None:
            if event.type != EventType.NONE:
                self.events.append((index, event.type, event.path.removeprefix(self.root)))

        return told

    def replace(self, index: int) -> None:
        """Close a session, and begin another."""
        client = self.clients[index]
        client.stop()
        client.close()
        self.clients[index] = self._client()

    def expire(self, index: int) -> None:
        """End a session behind its client's back: over another connection."""
        client = self.clients[index]
        session_id, password = client.client_id

        async def end() -> bool:
            other = Session(real_runtime(), ("127.0.0.1", self.port), 10_000)
            other.session_id, other.password = session_id, password
            try:
                await other.connect()
                await other.ask(CloseSession())
            except DisconnectedError:  # The client has reconnected faster, and took its session back.
                return False
            except SessionOverError:
                return True
            other.disconnect()
            return True

        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not asyncio.run(end()):
            assert time.monotonic() < deadline, "the session cannot be ended"
        while not client.connected or client.client_id is None or client.client_id[0] == session_id:
            assert time.monotonic() < deadline, "the client has no new session"
            time.sleep(0.005)

    def settled(self) -> list[tuple[int, str, str]]:
        """The events so far, once everything on the way has arrived."""
        for client in self.clients:
            client.exists("/")  # Its answer comes behind the events.
            heard = threading.Event()
            client.handler.dispatch_callback(Callback("watch", heard.set, ()))
            assert heard.wait(_PATIENCE_SECONDS)
        events, self.events = self.events, []
        return sorted(events, key=lambda one: one[0])  # Between two clients there is no order.

    def plain(self, value: Any) -> Any:
        """A result without what differs: times, absolute zxids, ids of sessions."""
        match value:
            case ZnodeStat():
                return {
                    **{
                        name: getattr(value, name)
                        for name in ("version", "cversion", "aversion", "dataLength", "numChildren")
                    },
                    **{name: getattr(value, name) - self.zxid for name in ("czxid", "mzxid", "pzxid")},
                    "owner": self._number(value.ephemeralOwner),
                }
            case ACL():
                return str(value)
            case KazooException():
                return type(value).__name__
            case str():
                return value.removeprefix(self.root)
            case list() | tuple():
                plain = [self.plain(one) for one in value]
                return sorted(plain) if plain and all(isinstance(one, str) for one in plain) else plain
            case _:
                return value

    def _number(self, session_id: int) -> int | None:
        if session_id == 0:
            return None
        if session_id not in self.sessions:
            self.sessions.append(session_id)
        return self.sessions.index(session_id)


Step = Callable[[Player], Any]
_NAMES: Final = ["", *["/a", "/b", "/c"] * 3, *["/a/x", "/a/y", "/b/x"] * 2, "/b/x/deep"]
_VERSIONS: Final = (-1, -1, -1, 0, 0, 1, 2)
_FIRST: Final = ("/a", "/b", "/a/x", "/b/x")
"""Made before anything else, so that a script has something to do."""
_SECRET: Final = ("user", "word")
_OPEN: Final = [make_acl("world", "anyone", all=True)]


def _acl(dice: random.Random) -> list[ACL] | None:
    return dice.choice(
        [
            *[None] * 30,
            [make_digest_acl(*_SECRET, all=True)],
            [make_acl("world", "anyone", read=True, create=True)],
            [make_acl("world", "anyone", read=True), make_digest_acl(*_SECRET, write=True, delete=True)],
            [make_acl("world", "anyone", all=True), make_digest_acl("other", "word", read=True)],
            [make_acl("auth", "", all=True)],
            [make_acl("world", "somebody", all=True)],
        ]
    )


def _transaction(dice: random.Random, who: int) -> Step:
    operations: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for _ in range(dice.randint(1, 5)):
        name, version = dice.choice(_NAMES), dice.choice(_VERSIONS)
        choices: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
            (
                "create",
                (name, b"multi"),
                {"ephemeral": dice.random() < 0.3, "sequence": dice.random() < 0.3},
            ),
            ("delete", (name,), {"version": version}),
            ("set_data", (name, b"set"), {"version": version}),
            ("check", (name, version), {}),
        ]
        operations.append(dice.choice(choices))

    def play(player: Player) -> Any:
        transaction = player.clients[who].transaction()
        for kind, (name, *rest), more in operations:
            getattr(transaction, kind)(player.root + name, *rest, **more)
        # A list of results keeps its order, so each is made plain by itself.
        return [[player.plain(one)] for one in transaction.commit()]

    return play


def _step(dice: random.Random, clients: int) -> tuple[str, Step]:
    who, name = dice.randrange(clients), dice.choice(_NAMES)
    version, watch = dice.choice(_VERSIONS), dice.random() < 0.5
    data = dice.randbytes(dice.choice([0, 1, 30]))
    ephemeral, sequence, with_stat = (dice.random() < chance for chance in (0.2, 0.15, 0.5))
    acl = _acl(dice)
    kind = dice.choices(
        [
            "create",
            "delete",
            "set",
            "exists",
            "get",
            "children",
            "multi",
            "acl",
            "set_acl",
            "auth",
            "close",
            "expire",
        ],
        [14, 5, 8, 8, 6, 8, 8, 1, 1, 0.5, 1, 0.3],
    )[0]
    label = f"{kind} {name!r} by {who}, version {version}, watch {watch}, ephemeral {ephemeral}, sequence {sequence}"

    def create(player: Player) -> Any:
        return player.clients[who].create(
            player.root + name,
            data,
            acl=acl,
            ephemeral=ephemeral,
            sequence=sequence,
            include_data=with_stat,
        )

    def watcher(player: Player) -> Any:
        return player.watcher(who) if watch else None

    steps: dict[str, Step] = {
        "create": create,
        "delete": lambda player: player.clients[who].delete(player.root + name, version=version),
        "set": lambda player: player.clients[who].set(player.root + name, data, version=version),
        "exists": lambda player: player.clients[who].exists(player.root + name, watch=watcher(player)),
        "get": lambda player: player.clients[who].get(player.root + name, watch=watcher(player)),
        "children": lambda player: player.clients[who].get_children(
            player.root + name, watch=watcher(player), include_data=with_stat
        ),
        "multi": _transaction(dice, who),
        "acl": lambda player: player.clients[who].get_acls(player.root + name),
        "set_acl": lambda player: player.clients[who].set_acls(
            player.root + name, acl or _OPEN, version=version
        ),
        "auth": lambda player: player.clients[who].add_auth("digest", ":".join(_SECRET)),
        "close": lambda player: player.replace(who),
        "expire": lambda player: player.expire(who),
    }
    return label, steps[kind]


def _played(player: Player, step: Step) -> Any:
    try:
        return player.plain(step(player))
    except KazooException as error:
        return type(error).__name__


@pytest.mark.parametrize("first", range(0, SEEDS, _CHUNK))
def test_scripts_go_as_on_zookeeper(ports: tuple[int, int], first: int) -> None:
    refused, told = 0, 0
    for seed in range(first, first + _CHUNK):
        dice = random.Random(seed)
        count = dice.randint(2, 3)
        steps = [_step(dice, count) for _ in range(_STEPS)]
        players = [Player(port, seed, count) for port in ports]
        try:
            so_far = []
            for number, (label, step) in enumerate(steps):
                real, ours = (_played(player, step) for player in players)
                so_far.append(f"{number} {label}: {real!r}")
                story = "\n".join(so_far)
                assert ours == real, f"seed {seed}\n{story}\nours: {ours!r}"
                events, our_events = (player.settled() for player in players)
                if "close" in label or "expire" in label:  # Ephemeral nodes go in no order.
                    events, our_events = sorted(events), sorted(our_events)
                assert our_events == events, f"seed {seed}\n{story}\nevents {events}\nours {our_events}"
                refused += isinstance(real, str) and real.endswith("Error")
                told += len(events)
        finally:
            for player in players:
                player.close()
    assert refused > _CHUNK
    assert told > _CHUNK


# What no client lets one do


def _shown(answer: Any) -> object:
    """An answer without times, zxids and ids of sessions."""
    stat = getattr(answer, "stat", None)
    if stat is None:
        return getattr(answer, "path", getattr(answer, "names", answer))
    numbers = (stat.version, stat.cversion, stat.aversion, stat.data_length, stat.num_children)
    return numbers, stat.ephemeral_owner != 0, getattr(answer, "data", None), getattr(answer, "acl", None)


async def _bytes_story(port: int) -> list[object]:
    """Everything that happened, without what differs between servers."""
    told: list[object] = []
    events: list[WatchEvent] = []
    runtime = real_runtime()

    def client(timeout_ms: int = 10_000) -> Session:
        return Session(runtime, ("127.0.0.1", port), timeout_ms, on_event=events.append)

    async def tell(label: str, work: Any) -> Any:
        try:
            answer = await work
        except ZooKeeperError as error:
            answer = error.reason
        except (DisconnectedError, SessionOverError) as error:
            answer = type(error).__name__
        told.append((label, type(answer).__name__, _shown(answer)))
        return answer

    async def heard(count: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(events) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        told.append(("events", [(one.type, one.state, one.path) for one in events]))
        events.clear()

    one, two = client(), client(timeout_ms=100)
    await one.connect()
    await two.connect()
    told.append(("granted", one.granted_ms, two.granted_ms))
    two.disconnect()
    two = client(timeout_ms=10_000)
    await two.connect()

    # Nothing and no data are two things; operations nobody knows are refused, and the session goes on.
    await tell("null", one.ask(Create("/null", None)))
    await tell("null read", one.ask(GetData("/null")))
    await tell("set null", one.ask(SetData("/null", None)))
    await tell("empty", one.ask(Create("/empty", b"", with_stat=True)))
    await tell("bad flags", one.ask(Create("/flags", b"", flags=9)))
    await tell("relative", one.ask(Create("relative", b"")))
    await tell("dots", one.ask(Create("/null/../x", b"")))
    await tell("slash", one.ask(Create("/null/", b"")))
    await tell("root", one.ask(Create("/", b"")))
    await tell("no acl", one.ask(Create("/acl", b"", ())))
    await tell("odd digest", one.ask(Create("/acl", b"", (Acl(31, "digest", "a:b:c"),))))
    await tell("children", one.ask(GetChildren("/null", with_stat=False)))
    await tell("children of what is not there", one.ask(GetChildren("/nothing", watch=True)))

    # Watches set again on a new connection of the same session.
    await tell("make", one.ask(Create("/watched", b"", with_stat=True)))
    await tell("make child", one.ask(Create("/watched/child", b"")))
    await tell("ephemeral", one.ask(Create("/mine", b"", flags=EPHEMERAL)))
    await tell("read", one.ask(GetData("/watched", watch=True)))
    await tell("sync'd", one.ask(Exists("/later", watch=True)))
    before = one.last_zxid
    one.disconnect()
    await tell("set meanwhile", two.ask(SetData("/watched", b"new")))
    await one.connect()
    await tell(
        "set watches",
        one.ask(
            SetWatches(
                before,
                ("/watched", "/null", "/gone"),
                ("/later", "/empty", "/watched/child"),
                ("/watched", "/null", "/gone"),
            )
        ),
    )
    await heard(5)
    await tell("later", two.ask(Create("/later", b"")))
    await tell("null set", two.ask(SetData("/null", b"1")))
    await tell("null child", two.ask(Create("/null/child", b"")))
    await heard(3)

    # A password that is wrong ends nothing but the connection.
    thief = client()
    thief.session_id, thief.password = one.session_id, b"x" * 16
    await tell("wrong password", thief.connect())
    await one.connect()
    await tell("still mine", one.ask(Exists("/mine")))

    # A session that goes on elsewhere: its old connection ends.
    taken = client()
    taken.session_id, taken.password = one.session_id, one.password
    await taken.connect()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while one.is_connected and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
    told.append(("old connection", one.is_connected))
    await tell("taken over", taken.ask(Exists("/mine")))

    # One that has seen more than the server must go elsewhere.
    prophet = client()
    prophet.last_zxid = 1 << 60
    await tell("the future", prophet.connect())

    # Logins.
    await tell("login", taken.ask(Auth(0, "digest", b"me:secret")))
    await tell("my node", taken.ask(Create("/secret", b"x", (Acl(31, "auth", ""),))))
    await tell("read secret", two.ask(GetData("/secret")))
    await tell("list secret", two.ask(GetAcl("/secret")))
    await tell("exists secret", two.ask(Exists("/secret")))
    await tell("my acl", taken.ask(GetAcl("/secret")))
    await tell(
        "acl for all", taken.ask(Create("/shown", b"", (Acl(31, "auth", ""), Acl(1, "world", "anyone"))))
    )
    await tell("without secrets", two.ask(GetAcl("/shown")))
    await tell("bad login", two.ask(Auth(0, "nonsense", b"me:secret")))
    two = client()
    await two.connect()

    # Silence ends a session, and what it had.
    await tell("watch", two.ask(Exists("/mine", watch=True)))
    silent = client(timeout_ms=1000)
    await silent.connect()
    await tell("silent's", silent.ask(Create("/silent", b"", flags=EPHEMERAL)))
    await tell("watch silent", two.ask(Exists("/silent", watch=True)))
    await tell("below", two.ask(Create("/silent/below", b"")))
    silent.disconnect()
    await heard(1)
    await tell("too late", silent.connect())
    await tell("close", taken.ask(CloseSession()))
    await heard(1)
    await tell("gone", two.ask(Exists("/mine")))
    two.disconnect()
    return told


def test_bytes_go_as_on_zookeeper(ports: tuple[int, int]) -> None:
    real, ours = (asyncio.run(_bytes_story(port)) for port in ports)
    for expected, found in zip(real, ours, strict=True):
        assert found == expected


def test_an_unknown_operation_ends_the_connection_and_not_the_session(ports: tuple[int, int]) -> None:
    async def play(port: int) -> ZooKeeperError:
        client = Session(real_runtime(), ("127.0.0.1", port), 10_000)
        await client.connect()
        with pytest.raises(ZooKeeperError) as refused:
            await client.ask(Unserved(77))
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while client.is_connected and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        assert not client.is_connected
        session_id = client.session_id
        await client.connect()
        await client.ask(Exists("/"))
        assert client.session_id == session_id
        client.disconnect()
        return refused.value

    assert [asyncio.run(play(port)).reason.name for port in ports] == ["UNIMPLEMENTED"] * 2
