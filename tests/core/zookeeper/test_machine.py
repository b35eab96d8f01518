"""The machine by itself: a refused write leaves nothing behind, sessions end in time, and frames survive their bytes.

Method: properties over random operations, and small stories on a clock that the test moves. `test_as_zookeeper` compares with the
real thing; here is what must hold whatever ZooKeeper does.
"""

import contextlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.zookeeper.machine import Close, Connected, Event, Machine, Output, Reply
from semel.core.zookeeper.tree import Tree
from semel.core.zookeeper.wire import frames
from semel.core.zookeeper.wire.jute import MalformedError
from semel.core.zookeeper.wire.messages import (
    Auth,
    Check,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Create,
    Created,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    MultiResults,
    Ping,
    ReplyHeader,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    WatchEvent,
)
from semel.core.zookeeper.words import EPHEMERAL, OPEN_ACL, SEQUENTIAL, Acl, EventType, ZooKeeperCode

TICK_MS: Final = 100
_PATHS = st.sampled_from(["/", "/a", "/b", "/a/x", "/a/y", "/b/x", "a", "/a/", "/zookeeper"])
_VERSIONS = st.sampled_from([-1, 0, 1])
_DATA = st.one_of(st.none(), st.binary(max_size=3))
_OPERATIONS = st.one_of(
    st.builds(Create, _PATHS, _DATA, st.sampled_from([OPEN_ACL, ()]), st.integers(0, 4), st.booleans()),
    st.builds(Delete, _PATHS, _VERSIONS),
    st.builds(SetData, _PATHS, _DATA, _VERSIONS),
    st.builds(Check, _PATHS, _VERSIONS),
)
_ACLS = st.lists(
    st.builds(Acl, st.integers(0, 31), st.text(max_size=5), st.text(max_size=5)), max_size=3
).map(tuple)
_REQUESTS = st.one_of(
    _OPERATIONS,
    st.lists(_OPERATIONS, max_size=4).map(lambda some: Multi(tuple(some))),
    st.builds(Exists, _PATHS, st.booleans()),
    st.builds(GetData, _PATHS, st.booleans()),
    st.builds(GetChildren, _PATHS, st.booleans(), st.booleans()),
    st.builds(GetAcl, _PATHS),
    st.builds(SetAcl, _PATHS, _ACLS, _VERSIONS),
    st.builds(Sync, _PATHS),
    st.builds(SetWatches, st.integers(0, 9), *[st.lists(_PATHS, max_size=2).map(tuple)] * 3),
    st.builds(Auth, st.just(0), st.text(max_size=5), _DATA),
    st.just(Ping()),
    st.just(CloseSession()),
)


def _everything(tree: Tree) -> dict[str, object]:
    found: dict[str, object] = {}
    paths = ["/"]
    while paths:
        path = paths.pop()
        node = tree.node(path)
        found[path] = node.data, node.acl, node.stat(), sorted(node.children)
        paths += [f"{path.rstrip('/')}/{name}" for name in node.children]
    return found


class Ensemble:
    """A machine, and a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.machine = Machine(tick_ms=TICK_MS)
        self.now_ms = 0
        self.xid = 0

    def connect(
        self, connection: int, timeout_ms: int = 1000, request: ConnectRequest | None = None
    ) -> ConnectResponse:
        asked = request or ConnectRequest(timeout_ms=timeout_ms)
        (answer,) = [
            one for one in self.machine.connect(connection, asked, self.now_ms) if isinstance(one, Connected)
        ]
        return answer.response

    def outputs(self, connection: int, request: Request) -> list[Output]:
        self.xid += 1
        return self.machine.handle(connection, self.xid, request, self.now_ms, 0)

    def ask(self, connection: int, request: Request) -> Reply:
        (reply,) = [one for one in self.outputs(connection, request) if isinstance(one, Reply)]
        return reply


@given(st.lists(st.lists(_OPERATIONS, min_size=1, max_size=4), max_size=20))
def test_a_multi_is_all_or_nothing(multis: list[list[Create | Delete | SetData | Check]]) -> None:
    ensemble = Ensemble()
    ensemble.connect(1)
    for operations in multis:
        before, zxid = _everything(ensemble.machine.tree), ensemble.machine.zxid
        results = ensemble.ask(1, Multi(tuple(operations))).answer
        assert isinstance(results, MultiResults)
        assert len(results.results) == len(operations)
        assert ensemble.machine.zxid == zxid + 1
        if results.failure is not None:
            assert _everything(ensemble.machine.tree) == before


@given(st.lists(_OPERATIONS, max_size=30))
def test_a_multi_does_what_its_operations_do_one_by_one(
    operations: list[Create | Delete | SetData | Check],
) -> None:
    """As long as none is refused: a draft sees what those before it would have changed."""
    single, together = Ensemble(), Ensemble()
    for ensemble in (single, together):
        ensemble.connect(1)
    accepted = [
        one
        for one in operations
        if not isinstance(one, Check) and single.ask(1, one).header.code is ZooKeeperCode.OK
    ]
    results = together.ask(1, Multi(tuple(accepted))).answer
    assert isinstance(results, MultiResults)
    assert results.failure is None
    shapes = [
        {path: (node[0], node[1], node[3]) for path, node in _everything(one.machine.tree).items()}  # type: ignore[index]
        for one in (single, together)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("silent_ms", [900, 999, 1000])
def test_a_session_lives_through_its_timeout(silent_ms: int) -> None:
    ensemble = Ensemble()
    ensemble.connect(1, timeout_ms=1000)
    ensemble.now_ms = silent_ms
    assert ensemble.machine.tick(ensemble.now_ms) == []
    ensemble.ask(1, Ping())
    ensemble.now_ms += silent_ms
    assert ensemble.machine.tick(ensemble.now_ms) == []


def test_a_session_ends_at_the_tick_behind_its_timeout_with_its_nodes() -> None:
    ensemble = Ensemble()
    response = ensemble.connect(1, timeout_ms=1000)
    ensemble.connect(2, timeout_ms=2000)
    ensemble.ask(1, Create("/mine", b"", flags=EPHEMERAL))
    ensemble.ask(2, Exists("/mine", watch=True))
    ensemble.now_ms = 1000 + TICK_MS
    event, close = ensemble.machine.tick(ensemble.now_ms)
    assert event == Event(2, ensemble.machine.zxid, WatchEvent(EventType.NODE_DELETED, 3, "/mine"))
    assert close == Close(1)
    again = ConnectRequest(session_id=response.session_id, password=response.password)
    assert ensemble.connect(3, request=again).is_expired


def test_a_request_through_the_connection_before_is_told_that_the_session_moved() -> None:
    ensemble = Ensemble()
    response = ensemble.connect(1)
    again = ConnectRequest(session_id=response.session_id, password=response.password, timeout_ms=1000)
    assert ensemble.connect(2, request=again).session_id == response.session_id
    before = _everything(ensemble.machine.tree)
    for request in (Create("/late", b""), Exists("/"), Multi((Create("/late", b""),))):
        assert ensemble.ask(1, request).header.code is ZooKeeperCode.SESSION_MOVED
    assert _everything(ensemble.machine.tree) == before
    assert ensemble.ask(2, Create("/mine", b"")).answer == Created("/mine")


def test_a_new_leader_gives_every_session_its_whole_time() -> None:
    ensemble = Ensemble()
    ensemble.connect(1, timeout_ms=1000)
    ensemble.now_ms = 5000
    ensemble.machine.give_time(ensemble.now_ms)
    assert ensemble.machine.tick(ensemble.now_ms + 999) == []


def test_numbers_of_sequential_nodes_are_not_given_twice() -> None:
    ensemble = Ensemble()
    ensemble.connect(1)
    first, second = (ensemble.ask(1, Create("/n", b"", flags=SEQUENTIAL)).answer for _ in range(2))
    assert (first, second) == (Created("/n0000000000"), Created("/n0000000001"))
    ensemble.ask(1, Delete("/n0000000001"))
    assert ensemble.ask(1, Create("/n", b"", flags=SEQUENTIAL)).answer == Created("/n0000000002")


def test_a_watch_is_told_once_and_before_the_answer() -> None:
    ensemble = Ensemble()
    ensemble.connect(1)
    ensemble.ask(1, Create("/a", b""))
    ensemble.ask(1, GetData("/a", watch=True))
    ensemble.ask(1, GetChildren("/a", watch=True))
    kinds = [type(one).__name__ for one in ensemble.outputs(1, Delete("/a"))]
    assert kinds == ["Event", "Reply"]
    assert [type(one).__name__ for one in ensemble.outputs(1, Create("/a", b""))] == ["Reply"]


@given(st.integers(-8, 1 << 30), _REQUESTS)
def test_a_request_is_read_as_it_was_written(xid: int, request: Request) -> None:
    frame = frames.request_frame(xid, request)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frames.read_request(frame[4:]) == (xid, request)


@given(st.lists(_REQUESTS, max_size=12))
def test_an_answer_is_read_as_it_was_written(requests: list[Request]) -> None:
    ensemble = Ensemble()
    ensemble.connect(1)
    for request in requests:
        for output in ensemble.outputs(1, request):
            if isinstance(output, Reply):
                frame = frames.reply_frame(output.header, output.op, output.answer)
                header, rest = frames.read_reply_header(frame[4:])
                assert header == output.header
                if output.answer is not None:
                    assert frames.read_answer(request, rest) == output.answer
                assert rest.is_at_end
            elif isinstance(output, Event):
                header, rest = frames.read_reply_header(frames.event_frame(output.zxid, output.event)[4:])
                assert header == ReplyHeader(-1, output.zxid, ZooKeeperCode.OK)
                assert frames.read_event(rest) == output.event


@given(_REQUESTS, st.data())
def test_a_frame_that_is_cut_is_refused(request: Request, data: st.DataObject) -> None:
    payload = frames.request_frame(1, request)[4:]
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(MalformedError):
        frames.read_request(payload[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(payload: bytes) -> None:
    with contextlib.suppress(MalformedError):
        frames.read_request(payload)
