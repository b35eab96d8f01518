"""How long a member waits for its coordinator, as Java's does: a JoinGroup for the whole rebalance, anything else no longer than usual.

Method: a coordinator that takes requests of one kind and never answers them, in a simulation; the moments at which they come
say how long each was waited for. A JoinGroup: the longer of `request.timeout.ms` and `max.poll.interval.ms` + 5 s, not their sum.
"""

from typing import Any

import pytest

from semel.client.consumer.consumer import AsyncConsumer
from semel.core.wire import framing
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.core.wire.messages.heartbeat import HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupResponse
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.core.wire.registry import ApiKey
from semel.net.inbound import InboundConnection
from semel.net.reply import Reply
from semel.runtime.bundle import Runtime
from support.broker.fake_broker import FakeBroker, led, metadata
from support.net.net_worlds import in_simulation


class SilentBroker(FakeBroker):
    """Never answers requests of one kind, and keeps when they came."""

    def __init__(self, runtime: Runtime, silent_about: ApiKey) -> None:
        super().__init__(self.said)
        self._runtime = runtime
        self._silent_about = silent_about
        self.came_ms: list[int] = []

    def handle(self, frame: bytearray, connection: InboundConnection) -> Reply:
        header, _ = framing.read_request_header(frame)
        if header.api_key != self._silent_about:
            return super().handle(frame, connection)
        self.came_ms.append(self._runtime.clock.monotonic_ms())
        return None

    def said(self, request: Request[Any]) -> Response:
        match request:
            case MetadataRequest():
                return metadata(led("t"))
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=9092)
            case JoinGroupRequest():
                return JoinGroupResponse(
                    generation_id=1,
                    protocol_name="range",
                    leader="another",
                    member_id=request.member_id or "me",
                )
            case SyncGroupRequest():
                raise AssertionError("nobody answers this one")
        return LeaveGroupResponse() if "Leave" in type(request).__name__ else HeartbeatResponse()


@pytest.mark.parametrize(
    ("silent_about", "request_timeout_ms", "max_poll_interval_ms", "waited_ms"),
    [
        (ApiKey.JOIN_GROUP, 30_000, 300_000, 305_000),
        (ApiKey.JOIN_GROUP, 30_000, 20_000, 30_000),
        (ApiKey.SYNC_GROUP, 30_000, 300_000, 30_000),
    ],
)
def test_what_is_waited_for_an_answer(
    silent_about: ApiKey, request_timeout_ms: int, max_poll_interval_ms: int, waited_ms: int
) -> None:
    async def story(runtime: Runtime) -> None:
        broker = SilentBroker(runtime, silent_about)
        listener = await broker.listen(runtime)
        consumer = AsyncConsumer(
            bootstrap_servers="127.0.0.1:9092",
            group_id="g",
            partition_assignment_strategy="RangeAssignor",
            request_timeout_ms=request_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            heartbeat_interval_ms=40_000,  # Heartbeats would be answered out of turn.
            runtime=runtime,
        )
        consumer.subscribe(["t"])
        for _ in range(2 * waited_ms // 1000):
            await consumer.poll(1000)
        first_ms, second_ms = broker.came_ms[:2]
        assert waited_ms <= second_ms - first_ms < waited_ms + 2_000
        await consumer.close(timeout_ms=0)
        await listener.close()

    in_simulation(story)
