"""KIP-848 groups are divided anew after a load, whatever the wall clock says of the time at which they were divided last.

Method: a broker on a simulated host whose clock is set back. What it wrote before lies in its future when the log is replayed:
by the next process, or by this one after its disk was full. Found by `semel verify` with kills and clock faults: a group whose
members had no partitions for as long as the clock had been set back.
"""

import errno
from typing import Any, Final

import pytest

from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.errors import ErrorCode
from semel.runtime.clock import SimulatedClock
from support.broker.admin_kit import Client, told

GROUP: Final = "readers"
TOPIC: Final = "orders"
OK: Final = ErrorCode.NONE
HOUR_MS: Final = 3_600_000
INTERVAL_MS: Final = 1000
SETTINGS: Final[dict[str, Any]] = {
    "flush_messages": "1",
    "group_consumer_assignment_interval_ms": str(INTERVAL_MS),
}


async def join(client: Client, member_id: str) -> ConsumerGroupHeartbeatResponse:
    return await client.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
    )


def count(answer: ConsumerGroupHeartbeatResponse) -> int:
    """How many partitions the member was given."""
    assert answer.error_code == OK, answer
    assert answer.assignment is not None
    return sum(len(one.partitions) for one in answer.assignment.topic_partitions)


def set_clock(client: Client, by_ms: int) -> None:
    clock = client.broker.runtime.clock
    assert isinstance(clock, SimulatedClock)
    clock.jump(by_ms)


async def has_its_share(client: Client, member_id: str) -> None:
    """Who comes new is given half of what the other has; the interval between two divisions is waited for."""
    assert count(await join(client, member_id)) == 0
    await client.broker.runtime.tasks.sleep(INTERVAL_MS / 1000)
    assert count(await join(client, "a")) == 2  # It says that it has nothing: it has let go of everything.
    assert count(await join(client, member_id)) == 2


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_a_group_is_divided_after_a_restart_though_the_clock_was_set(by_ms: int) -> None:
    async def before(client: Client) -> None:
        assert await client.create(TOPIC, partitions=4) == [OK]
        assert count(await join(client, "a")) == 4
        set_clock(client, by_ms)

    async def after(client: Client) -> None:
        await has_its_share(client, "b")

    told(before, after, cut_power=True, **SETTINGS)


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_a_group_is_divided_after_a_full_disk_though_the_clock_was_set(by_ms: int) -> None:
    async def story(client: Client) -> None:
        assert await client.create(TOPIC, partitions=4) == [OK]
        assert count(await join(client, "a")) == 4
        set_clock(client, by_ms)
        client.disk.fail("write", errno.ENOSPC, path_part="__consumer_offsets")
        assert (await join(client, "b")).error_code == ErrorCode.NOT_COORDINATOR
        client.disk.clear_faults()
        await has_its_share(client, "b")

    told(story, **SETTINGS)
