"""A coordinator is found in the shape the broker knows, remembered, and looked for again when it has moved.

Method: a broker played by a function, in a simulation; what it was asked is known exactly.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from semel.client.calls.find_coordinator import (
    CoordinatorKind,
    Coordinators,
    at_coordinator,
    find_coordinator,
    find_coordinators,
    order_coordinator,
)
from semel.client.cluster import Cluster
from semel.core.wire.api_versions import ServedApi
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from semel.core.wire.registry import ApiKey
from semel.errors import DisconnectedError, ErrorCode, RefusedError, refused
from support.broker.fake_broker import FakeBroker, metadata, told

GROUP, TRANSACTION = CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION


def answering(codes: Sequence[ErrorCode] = ()) -> FakeBroker:
    """Broker 1 coordinates everything; the first answers refuse with these codes."""
    left = list(codes)

    def answer(request: Request[Any]) -> Response:
        if not isinstance(request, FindCoordinatorRequest):
            return metadata()
        code = left.pop(0) if left else ErrorCode.NONE
        if request.key:
            return FindCoordinatorResponse(error_code=code, node_id=1)
        many = [Coordinator(key=key, node_id=1, error_code=code) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=many)

    return FakeBroker(answer)


def asked(broker: FakeBroker) -> list[FindCoordinatorRequest]:
    return [one for one in broker.asked if isinstance(one, FindCoordinatorRequest)]


@pytest.mark.parametrize(("kind", "noun"), [(GROUP, "group"), (TRANSACTION, "transactional id")])
def test_a_refusal_names_the_key_and_the_cluster(kind: CoordinatorKind, noun: str) -> None:
    async def story(cluster: Cluster) -> None:
        with pytest.raises(
            RefusedError, match=rf"127\.0\.0\.1:9092 refuses the coordinator of {noun} k"
        ) as said:
            await find_coordinator(cluster, kind, "k")
        assert said.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    broker = answering([ErrorCode.COORDINATOR_NOT_AVAILABLE])
    told(broker, story)
    assert [(one.key, one.key_type) for one in asked(broker)] == [("k", kind)]


@pytest.mark.parametrize(("last", "requests"), [(3, 3), (4, 1), (6, 1)])
def test_many_keys_go_in_one_request_where_the_broker_can(last: int, requests: int) -> None:
    async def story(cluster: Cluster) -> None:
        assert await find_coordinators(cluster, TRANSACTION, ["a", "b", "c"]) == {1: ["a", "b", "c"]}
        assert await find_coordinators(cluster, TRANSACTION, []) == {}

    broker = answering()
    broker.served = tuple(
        ServedApi(one.key, one.first, last) if one.key == ApiKey.FIND_COORDINATOR else one
        for one in broker.served
    )
    told(broker, story)
    assert len(asked(broker)) == requests


def test_a_coordinator_is_remembered_until_it_is_forgotten() -> None:
    broker = answering()

    async def story(cluster: Cluster) -> None:
        coordinators = Coordinators(cluster)
        for _ in range(2):
            assert await coordinators.of(GROUP, "g") == 1
        assert len(asked(broker)) == 1
        coordinators.forget(TRANSACTION, "g")
        await coordinators.of(GROUP, "g")
        assert len(asked(broker)) == 1
        coordinators.forget(GROUP, "g")
        await coordinators.of(GROUP, "g")
        assert len(asked(broker)) == 2

    told(broker, story)


MOVED, LOST = refused(16, "x", by="b"), DisconnectedError("gone")


@pytest.mark.parametrize(
    ("call", "failure", "is_repeated"),
    [
        (at_coordinator, MOVED, True),
        (at_coordinator, LOST, True),
        (at_coordinator, refused(ErrorCode.GROUP_ID_NOT_FOUND, "x", by="b"), False),
        (order_coordinator, MOVED, True),
        (order_coordinator, refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "x", by="b"), True),
        (order_coordinator, LOST, False),  # It may have been carried out.
        (order_coordinator, refused(ErrorCode.REQUEST_TIMED_OUT, "x", by="b"), False),
    ],
)
def test_a_question_is_repeated_and_an_order_only_if_nothing_was_done(
    call: Any, failure: Exception, is_repeated: bool
) -> None:
    broker = answering()

    async def story(cluster: Cluster) -> None:
        tries = 0

        async def attempt(coordinator: int) -> int:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise failure
            return coordinator

        if is_repeated:
            assert await call(cluster, GROUP, "g", attempt) == 1
        else:
            with pytest.raises(type(failure)):
                await call(cluster, GROUP, "g", attempt)
        assert tries == 1 + is_repeated

    told(broker, story)
    assert len(asked(broker)) == 1 + is_repeated
