"""Classic groups survive what a broker survives, and their members are told the truth about it.

Method: a broker and its clients on a simulated host whose disk refuses to write and whose power can be cut. Members that
wait have connections of their own.
"""

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from semel.broker.coordinators.caller import java_address
from semel.broker.handlers import heartbeat, join_group, leave_group, sync_group
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.core.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from semel.errors import ErrorCode
from semel.runtime.randomness import seeded_dice
from support.broker.admin_kit import Client, told

GROUP: Final = "readers"
OK: Final = ErrorCode.NONE
SETTINGS: Final[dict[str, Any]] = {"flush_messages": "1", "group_initial_rebalance_delay_ms": "0"}


def joining(
    member_id: str = "", *, instance: str | None = None, session_ms: int = 60_000
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0")],
    )


async def join(client: Client, version: int = 9, **how: Any) -> JoinGroupResponse:
    """Join with the id that is given, if one is given."""
    answer = await client.ask(joining(**how), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await client.ask(joining(answer.member_id, **how), version)
    return answer


async def sync(client: Client, joined: JoinGroupResponse, **given: bytes) -> SyncGroupResponse:
    parts = [
        SyncGroupRequestAssignment(member_id=joined.member_id if one == "me" else one, assignment=part)
        for one, part in given.items()
    ]
    return await client.ask(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=parts,
        )
    )


async def beat(client: Client, joined: JoinGroupResponse) -> ErrorCode:
    request = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    return ErrorCode((await client.ask(request)).error_code)


@pytest.mark.parametrize("cut_power", [False, True])
def test_members_go_on_after_a_restart(cut_power: bool) -> None:
    members: list[JoinGroupResponse] = []

    async def before(client: Client) -> None:
        members.append(await join(client))
        assert (await sync(client, members[0], me=b"all of it")).assignment == b"all of it"

    async def after(client: Client) -> None:
        assert await beat(client, members[0]) is OK
        assert (await sync(client, members[0])).assignment == b"all of it"

    told(before, after, cut_power=cut_power, **SETTINGS)


def test_sessions_end_by_the_brokers_clock() -> None:
    async def story(client: Client) -> None:
        joined = await join(client, session_ms=6_000)
        await sync(client, joined, me=b"all")
        sleep = client.broker.runtime.tasks.sleep
        for _ in range(4):
            await sleep(5)
            assert await beat(client, joined) is OK
        await sleep(6.1)
        assert await beat(client, joined) is ErrorCode.UNKNOWN_MEMBER_ID

    told(story, **SETTINGS)


@pytest.mark.parametrize("version", range(10))
def test_every_version_is_answered(version: int) -> None:
    """Two members, one of which waits for the other on a connection of its own; a refusal as well."""

    async def story(client: Client) -> None:
        other = await client.another()
        first = await join(client, version)
        assert (first.error_code, first.leader) == (OK, first.member_id)
        waiting = asyncio.ensure_future(join(other, version))
        while await beat(client, first) is OK:
            await client.broker.runtime.tasks.sleep(0.01)
        again, second = await client.ask(joining(first.member_id), version), await waiting
        assert (again.generation_id, second.generation_id) == (2, 2)
        assert {one.member_id for one in again.members} == {first.member_id, second.member_id}
        assert second.members == []
        refused = await client.ask(joining("nobody"), version)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert refused.protocol_name == (None if version >= 7 else "")

    told(story, **SETTINGS)


@pytest.mark.parametrize("version", [5, 6, 7, 9])
def test_one_that_waits_is_fenced_in_every_version(version: int) -> None:
    async def story(client: Client) -> None:
        dynamic = await join(client)
        other, third = await client.another(), await client.another()
        old = asyncio.ensure_future(join(other, version, instance="i"))
        while await beat(client, dynamic) is OK:
            await client.broker.runtime.tasks.sleep(0.01)
        new = asyncio.ensure_future(join(third, instance="i"))
        fenced = await old
        assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
        assert fenced.protocol_name == (None if version >= 7 else "")
        await client.ask(joining(dynamic.member_id))
        assert (await new).error_code == OK

    told(story, **SETTINGS)


def test_an_assignment_the_disk_refuses_is_nobodys() -> None:
    """Leader and follower are sent to find their coordinator; the group is what it was, and they can join again."""

    async def story(client: Client) -> None:
        other = await client.another()
        first = await join(client)
        await sync(client, first, me=b"all")
        waiting = asyncio.ensure_future(join(other))
        while await beat(client, first) is OK:
            await client.broker.runtime.tasks.sleep(0.01)
        leader, follower = await client.ask(joining(first.member_id)), await waiting
        syncing = asyncio.ensure_future(sync(other, follower))
        await client.broker.runtime.tasks.sleep(0.01)
        client.disk.fail("write", errno.ENOSPC, path_part="__consumer_offsets")
        codes = [(await sync(client, leader, me=b"half")).error_code, (await syncing).error_code]
        assert codes == [ErrorCode.NOT_COORDINATOR] * 2
        client.disk.clear_faults()
        assert await beat(client, leader) is ErrorCode.ILLEGAL_GENERATION
        assert await beat(client, first) is OK
        assert (await sync(client, first)).assignment == b"all"
        assert await beat(other, follower) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await client.ask(joining(first.member_id))).generation_id == 2

    told(story, **SETTINGS)


def test_while_groups_are_loaded_only_heartbeats_are_good() -> None:
    def ask(_group_id: str, _operation: Any, _expected: Any, refused: Any) -> Any:
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    broker = cast(
        "Any",
        SimpleNamespace(groups=SimpleNamespace(ask=ask), runtime=SimpleNamespace(dice=seeded_dice(1))),
    )
    context = cast("Any", SimpleNamespace(version=0, client_id=None, identity=SimpleNamespace(host="::1")))
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answers: list[Any] = [
        heartbeat.handle(broker, HeartbeatRequest(), context),
        join_group.handle(broker, JoinGroupRequest(member_id="m"), context),
        sync_group.handle(broker, SyncGroupRequest(), context),
        leave_group.handle(broker, LeaveGroupRequest(members=[MemberIdentity()]), context),
    ]
    assert [answer.error_code for answer in answers] == [OK, loading, loading, loading]
    assert (answers[1].member_id, answers[1].protocol_name) == ("m", "")


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::a0b:1%eth0", "/fe80:0:0:0:0:0:a0b:1"),
        ("an unknown peer", "/an unknown peer"),
    ],
)
def test_addresses_are_shown_as_java_shows_them(host: str, shown: str) -> None:
    assert java_address(host) == shown
