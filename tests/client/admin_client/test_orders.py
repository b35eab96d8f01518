"""An order that reached the wrong broker is given to the right one, and no other is repeated.

Method: a broker played by a function (`fake_broker`), which says first that it is not the controller, or fails for good.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fake_broker import FakeBroker, metadata
from net_worlds import in_simulation
from semel.client.admin_client.client import AsyncAdmin
from semel.client.admin_client.values import QuotaEntry
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
from semel.core.wire.messages.metadata import MetadataRequest
from semel.errors import ErrorCode
from semel.exceptions import InvalidRequestException, NetworkException
from semel.runtime.bundle import Runtime


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


def tell(controller: Controller, story: Callable[[AsyncAdmin], Coroutine[Any, Any, object]]) -> None:
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
