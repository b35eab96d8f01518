"""Coordinators come and go with the leadership of their partitions, and nobody is told of a success that is not theirs to tell.

Method: a toy's host on a broker's partitions; leadership is moved by changes of the metadata that were decided elsewhere, and by
calls that come late, as requests of a controller may.
"""

import asyncio
from collections.abc import Awaitable

from semel.broker import topics
from semel.core.metadata.partition_state import NO_LEADER
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.heartbeat import HeartbeatResponse
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told
from support.broker.host_kit import (
    ELSEWHERE,
    HERE,
    TOPIC,
    Toy,
    another_broker,
    got,
    host_of,
    led_by,
    numbers,
    put,
    wait,
    with_topic,
)

SYNC_SECONDS = 0.5
PATIENCE_SECONDS = 10.0


def test_who_waits_is_told_when_the_leadership_goes() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.ask("a", put("a", 1))
        waiting = host.ask("a", wait)
        await led_by(client, ELSEWHERE, 1)
        assert await got(waiting) is ErrorCode.NOT_COORDINATOR
        assert host.ask("a", put("a", 2)) is ErrorCode.NOT_COORDINATOR
        assert host.tell(0, lambda toy, now_ms: toy.due(now_ms)) is ErrorCode.NOT_COORDINATOR
        assert (host.shards, host.led, host.epoch_of(0)) == ([], [], None)
        assert host.look(lambda toy: toy.numbers) == [], "what others coordinate has no say here"

    told(story)


def test_what_was_appended_and_not_answered_is_no_success() -> None:
    """The leader of a later epoch may have cut it off."""

    async def story(client: Client) -> None:
        host = await with_topic(client)
        await got(host.ask("a", put("a", 1)))
        client.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        answer = host.ask("a", put("a", 2))
        marked = host.append_marker(0, producer_id=7, producer_epoch=0, coordinator_epoch=0, commit=True)
        assert isinstance(answer, asyncio.Future)
        assert isinstance(marked, Awaitable)
        await led_by(client, ELSEWHERE, 1)
        assert answer.done()
        assert answer.result() is ErrorCode.NOT_COORDINATOR
        assert await marked is ErrorCode.NOT_COORDINATOR

    told(story, flush_messages="1")


def test_effects_of_a_resigned_shard_do_not_begin() -> None:
    async def story(client: Client) -> None:
        effects: list[str] = []
        host = host_of(client, effects)
        await got(host.ask("a", put("a", 1)))
        await client.broker.runtime.tasks.sleep(0)
        effects.clear()
        host.ask("a", put("a", 2))
        host.resign(0, 1)
        await client.broker.runtime.tasks.sleep(0.01)
        assert effects == []

    told(story)


def test_leadership_that_comes_back_finds_everything_in_the_log() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        host.start()
        host.ask("a", put("a", 1))
        (before,) = host.shards
        await led_by(client, ELSEWHERE, 1)
        await led_by(client, HERE, 2)
        await client.broker.runtime.tasks.sleep(0.1)
        (after,) = host.shards  # Loaded though nobody has asked.
        assert after is not before
        assert (after.numbers, after.loads, host.epoch_of(0)) == ({"a": 1}, 1, 2)
        assert isinstance(host.ask("a", put("a", 2)), HeartbeatResponse)

    told(story)


def test_a_later_epoch_of_the_same_leader_keeps_the_shard() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        waiting = host.ask("a", wait)
        (before,) = host.shards
        await led_by(client, HERE, 4)
        assert host.shards == [before]
        assert host.epoch_of(0) == client.partition(TOPIC).leader_epoch == 4
        assert isinstance(host.ask("a", put("a", 1)), HeartbeatResponse)
        assert await got(waiting) == HeartbeatResponse()

    told(story)


def test_what_comes_late_from_an_older_epoch_changes_nothing() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        await led_by(client, HERE, 5)
        host.resign(0, 4)
        assert host.led == [0]
        host.resign(0, 6)
        host.lead(0, 5)
        assert host.led == []
        host.lead(0, 7)
        assert (host.led, host.epoch_of(0)) == ([0], 7)

    told(story)


def test_a_load_that_is_overtaken_by_another_epoch_is_dropped() -> None:
    """The shard that was half loaded is seen by nobody; the one of the later epoch has the whole log."""
    made: list[Toy] = []

    async def before(client: Client) -> None:
        host = await with_topic(client)
        for number in range(12):
            assert isinstance(host.ask("a", put(f"name-{number}", number, padding=30_000)), HeartbeatResponse)

    async def after(client: Client) -> None:
        host = host_of(client)

        def make(_index: int) -> Toy:
            made.append(Toy())
            return made[-1]

        host._make_shard = make
        host.start()
        assert host.ask("a", wait) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not made or not made[0].numbers:
                await asyncio.sleep(0)
        assert host.ask("a", wait) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await led_by(client, ELSEWHERE, 8)
        assert host.ask("a", wait) is ErrorCode.NOT_COORDINATOR
        await led_by(client, HERE, 9)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not host.shards:
                await asyncio.sleep(0.01)
        assert len(made) == 2
        assert host.shards == [made[1]]
        assert len(made[0].numbers) < 12
        assert made[0].loads == 0
        assert numbers(host) == {f"name-{number}": number for number in range(12)}

    told(before, after)


def test_one_partition_that_goes_leaves_the_others() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client, partitions=3)
        keys = {host.partition_of(key): key for key in ("a", "b", "c", "d", "e")}
        for key in keys.values():
            host.ask(key, put(key, 1))
        await led_by(client, ELSEWHERE, 1, index=1)
        answers = {index: host.ask(key, put(key, 2)) for index, key in keys.items()}
        assert [index for index, one in answers.items() if one is ErrorCode.NOT_COORDINATOR] == [1]
        assert host.led == [0, 2]

    told(story)


def test_a_topic_made_again_begins_with_epochs_of_its_own() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        await led_by(client, HERE, 9)
        host.ask("a", put("a", 1))
        await topics.delete_all(client.broker.parts.administration, [TOPIC])
        assert host.led == []
        assert await got(host.ask("a", put("b", 2))) == HeartbeatResponse(throttle_time_ms=0)
        assert (numbers(host), host.epoch_of(0)) == ({"b": 2}, 0)

    told(story)


def test_a_partition_without_a_leader_is_coordinated_by_nobody() -> None:
    async def story(client: Client) -> None:
        host = await with_topic(client)
        await led_by(client, NO_LEADER, 1)
        assert host.ask("a", wait) is ErrorCode.NOT_COORDINATOR

    told(story)


def test_clients_are_sent_to_whoever_leads_the_partition() -> None:
    async def story(client: Client) -> None:
        await another_broker(client)

        async def found(key: str) -> tuple[int, int, str]:
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=0)
            (one,) = (await client.ask(request, 5)).coordinators
            return one.error_code, one.node_id, one.host

        assert await found("readers") == (ErrorCode.NONE, HERE, "127.0.0.1")
        host = client.broker.parts.groups.host
        index = host.partition_of("readers")
        await led_by(client, ELSEWHERE, 1, topic="__consumer_offsets", index=index)
        assert await found("readers") == (ErrorCode.NONE, ELSEWHERE, "elsewhere")
        await led_by(client, NO_LEADER, 2, topic="__consumer_offsets", index=index)
        assert (await found("readers"))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE

    told(story)


def test_nobody_is_coordinated_before_the_topic_is_durable() -> None:
    """Another request has decided the topic; its row is on the way to the disk, and a crash would take it back."""

    async def story(client: Client) -> None:
        offsets = "__consumer_offsets"
        client.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        other = await client.another()
        creating = asyncio.ensure_future(other.create(offsets, partitions=2))
        while client.broker.parts.store.image.topic(offsets) is None:
            await asyncio.sleep(0.01)
        request = FindCoordinatorRequest(coordinator_keys=["readers"], key_type=0)
        (early,) = (await client.ask(request, 5)).coordinators
        assert early.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert f"{offsets}-0" not in client.disk.list_directory("data")
        assert await creating == [ErrorCode.NONE]
        (found,) = (await client.ask(request, 5)).coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, HERE)
        assert client.broker.parts.groups.host.led == [0, 1]

    told(story)
