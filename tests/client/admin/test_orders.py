"""An order that reached the wrong broker is given to the right one, and no other is repeated; a question is, while errors pass.

Method: a broker played by a function (`fake_broker`), which says first that it is not the controller, or fails for good.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.client.admin.client import AsyncAdmin
from semel.client.values.administration import OffsetSpec, QuotaEntry
from semel.core.wire.message import Request, Response
from semel.core.wire.messages import alter_client_quotas as quotas
from semel.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from semel.core.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.core.wire.messages.metadata import MetadataRequest
from semel.errors import ErrorCode
from semel.exceptions import (
    InvalidRequestException,
    NetworkException,
    NotLeaderOrFollowerException,
    TopicAuthorizationException,
)
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.broker.fake_broker import FakeBroker, led, metadata
from support.net.net_worlds import in_simulation


class Controller:
    """Answers orders with these codes, one after the other; None cuts the connection."""

    def __init__(self, *codes: ErrorCode | None) -> None:
        self.codes = list(codes)
        self.orders = 0
        self.broker = FakeBroker(self)

    def __call__(self, request: Request[Any]) -> Response | None:
        if isinstance(request, MetadataRequest):
            return metadata()
        self.orders += 1
        code = self.codes.pop(0)
        if code is None:
            return None
        match request:
            case CreateTopicsRequest():
                topics = [CreatableTopicResult(name=one.name, error_code=code) for one in request.topics]
                return CreateTopicsResponse(topics=topics)
            case CreatePartitionsRequest():
                results = [
                    CreatePartitionsTopicResult(name=one.name, error_code=code) for one in request.topics
                ]
                return CreatePartitionsResponse(results=results)
            case quotas.AlterClientQuotasRequest():
                entries = [
                    quotas.AlterClientQuotasResponseEntryData(entity=one.entity, error_code=code)
                    for one in request.entries
                ]
                return quotas.AlterClientQuotasResponse(entries=entries)
            case _:
                raise AssertionError(request)


def tell(
    controller: "Controller | Leader", story: Callable[[AsyncAdmin], Coroutine[Any, Any, object]]
) -> None:
    async def run(runtime: Runtime) -> None:
        listener = await controller.broker.listen(runtime)
        async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092", client_id="a", runtime=runtime) as admin:
            await story(admin)
        await listener.close()

    in_simulation(run)


ORDERS = pytest.mark.parametrize(
    "order",
    [
        lambda admin: admin.create_topics("t"),
        lambda admin: admin.create_partitions({"t": 3}),
        lambda admin: admin.alter_client_quotas(QuotaEntry({"user": "u"}, {"producer_byte_rate": 1.0})),
    ],
    ids=["topics", "partitions", "quotas"],
)


@ORDERS
def test_an_order_goes_to_the_new_controller(
    order: Callable[[AsyncAdmin], Coroutine[Any, Any, object]],
) -> None:
    controller = Controller(ErrorCode.NOT_CONTROLLER, ErrorCode.NONE)
    tell(controller, order)
    assert controller.orders == 2


@ORDERS
def test_a_refused_order_is_not_repeated(order: Callable[[AsyncAdmin], Coroutine[Any, Any, object]]) -> None:
    controller = Controller(ErrorCode.INVALID_REQUEST)

    async def story(admin: AsyncAdmin) -> None:
        with pytest.raises(InvalidRequestException):
            await order(admin)

    tell(controller, story)
    assert controller.orders == 1


@ORDERS
def test_an_order_without_an_answer_is_not_repeated(
    order: Callable[[AsyncAdmin], Coroutine[Any, Any, object]],
) -> None:
    controller = Controller(None)

    async def story(admin: AsyncAdmin) -> None:
        with pytest.raises(NetworkException):
            await order(admin)

    tell(controller, story)
    assert controller.orders == 1


class Leader:
    """Answers ListOffsets with these codes, one after the other."""

    def __init__(self, *codes: ErrorCode | None) -> None:
        self.codes = list(codes)
        self.questions = 0
        self.broker = FakeBroker(self)

    def __call__(self, request: Request[Any]) -> Response | None:
        if isinstance(request, MetadataRequest):
            return metadata(*(led(one.name or "") for one in request.topics or ()))
        assert isinstance(request, ListOffsetsRequest)
        self.questions += 1
        code = self.codes.pop(0)
        if code is None:
            return None
        answer = ListOffsetsPartitionResponse(error_code=code, offset=-1 if code else 7, timestamp=-1)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])


def test_a_question_is_repeated_while_errors_pass() -> None:
    leader = Leader(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NONE)
    where = TopicPartition("t", 0)

    async def story(admin: AsyncAdmin) -> None:
        found = await admin.list_offsets({where: OffsetSpec.latest()})
        assert found[where].offset == 7

    tell(leader, story)
    assert leader.questions == 4


def test_a_question_that_cannot_be_answered_is_not_repeated() -> None:
    leader = Leader(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def story(admin: AsyncAdmin) -> None:
        with pytest.raises(TopicAuthorizationException, match="the offset of t-0"):
            await admin.list_offsets({("t", 0): OffsetSpec.latest()})

    tell(leader, story)
    assert leader.questions == 1


def test_patience_ends() -> None:
    leader = Leader(*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000)

    async def story(admin: AsyncAdmin) -> None:
        with pytest.raises(NotLeaderOrFollowerException):
            await admin.list_offsets({("t", 0): OffsetSpec.latest()})

    tell(leader, story)
    assert 50 < leader.questions < 80  # A minute of pauses that grow to a second.
