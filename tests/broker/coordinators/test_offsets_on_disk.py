"""Committed offsets survive what a broker survives, and are told as Kafka tells them.

Method: a broker and a client on a simulated host whose power can be cut; what was acknowledged must be there in the next
story.
"""

import asyncio

import pytest

from semel.core.wire.messages.delete_groups import DeleteGroupsRequest
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.describe_groups import DescribeGroupsRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from semel.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told
from support.groups.offsets_kit import BY_NAME, codes, commit, commit_request, committed, fetch_group, found

TOPIC = "orders"
OK = ErrorCode.NONE


@pytest.mark.parametrize("cut_power", [False, True])
def test_what_was_acknowledged_is_there_after_a_restart(cut_power: bool) -> None:
    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=3)
        for offset in (5, 7, 9):
            assert await commit(client, "billing", {(TOPIC, 0): offset, (TOPIC, 2): offset + 1}) == {
                (TOPIC, 0): OK,
                (TOPIC, 2): OK,
            }

    async def after(client: Client) -> None:
        assert await committed(client, "billing") == {(TOPIC, 0): 9, (TOPIC, 2): 10}
        assert await committed(client, "billing", (TOPIC, 1), (TOPIC, 2), ("no-such", 4)) == {
            (TOPIC, 1): -1,
            (TOPIC, 2): 10,
            ("no-such", 4): -1,
        }

    told(before, after, cut_power=cut_power, flush_messages="1")


def test_the_topic_is_made_when_a_coordinator_is_first_asked_for() -> None:
    async def story(client: Client) -> None:
        assert (await client.ask(ListGroupsRequest())).groups == []
        assert client.broker.parts.store.image.topic("__consumer_offsets") is None
        answer = await client.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]))
        assert [(one.key, one.node_id, one.port, one.error_code) for one in answer.coordinators] == [
            ("a", 1, 9092, 0),
            ("b", 1, 9092, 0),
        ]
        row = client.broker.parts.store.image.topic("__consumer_offsets")
        assert row is not None
        assert row.partitions == 7
        assert row.configs == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }

    told(story, offsets_topic_num_partitions="7")


def test_many_first_requests_at_once_make_one_topic() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC)
        others = [await client.another() for _ in range(5)]
        answers = await asyncio.gather(
            *(commit(other, f"group-{index}", {(TOPIC, 0): index}) for index, other in enumerate(others))
        )
        assert answers == [{(TOPIC, 0): OK}] * 5
        listed = await client.ask(ListGroupsRequest())
        assert sorted(group.group_id for group in listed.groups) == [f"group-{n}" for n in range(5)]

    told(story)


def test_groups_are_listed_described_and_deleted() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC)
        for group in ("one", "two"):
            await commit(client, group, {(TOPIC, 0): 1})
        listed = await client.ask(ListGroupsRequest(states_filter=["EMPTY"], types_filter=["Classic"]))
        assert [(g.group_id, g.group_state, g.group_type, g.protocol_type) for g in sorted_by_id(listed)] == [
            ("one", "Empty", "classic", ""),
            ("two", "Empty", "classic", ""),
        ]
        assert (await client.ask(ListGroupsRequest(states_filter=["Stable"]))).groups == []
        assert (await client.ask(ListGroupsRequest(types_filter=["nonsense"]))).groups == []
        described = await client.ask(DescribeGroupsRequest(groups=["one", "nobody"]))
        assert [(group.group_state, group.error_code) for group in described.groups] == [
            ("Empty", OK),
            ("Dead", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        described = await client.ask(DescribeGroupsRequest(groups=["nobody"]), 5)
        assert described.groups[0].error_code == OK
        deleted = await client.ask(DeleteGroupsRequest(groups_names=["one", "nobody", "one"]))
        assert [(result.group_id, result.error_code) for result in deleted.results] == [
            ("one", OK),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
            ("one", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert await committed(client, "one", (TOPIC, 0)) == {(TOPIC, 0): -1}

    async def after(client: Client) -> None:
        assert [group.group_id for group in (await client.ask(ListGroupsRequest())).groups] == ["two"]

    told(story, after)


def sorted_by_id(answer: ListGroupsResponse) -> list[ListedGroup]:
    return sorted(answer.groups, key=lambda group: group.group_id)


def test_every_partition_is_answered_by_itself() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        places = {(TOPIC, 0): 1, (TOPIC, 2): 1, (TOPIC, -1): 1, ("no-such", 0): 1}
        assert await commit(client, "g", places) == {
            (TOPIC, 0): OK,
            (TOPIC, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (TOPIC, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("no-such", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        long = commit_request("g", {(TOPIC, 0): 2}, metadata="x" * 4097)
        assert codes(await client.ask(long, BY_NAME)) == {(TOPIC, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
        ghost = commit_request("nobody", {(TOPIC, 0): 2, ("no-such", 0): 2}, generation=3, member="m")
        for version, expected in (
            (8, ErrorCode.ILLEGAL_GENERATION),
            (9, ErrorCode.GROUP_ID_NOT_FOUND),
        ):
            assert codes(await client.ask(ghost, version)) == {
                (TOPIC, 0): expected,
                ("no-such", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
        assert await committed(client, "g") == {(TOPIC, 0): 1}

    told(story)


def test_topics_go_by_their_ids_in_the_newest_version() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC)
        topic_id = client.partition(TOPIC).topic_id.bytes
        request = commit_request("g", {(TOPIC, 0): 4, ("other", 0): 4})
        request.topics[0].topic_id, request.topics[1].topic_id = topic_id, b"\x07" * 16
        answer = await client.ask(request, 10)
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics] == [
            (topic_id, OK),
            (b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        asked = fetch_group("g", (TOPIC, 0), ("other", 0))
        assert asked.topics is not None
        asked.topics[0].topic_id, asked.topics[1].topic_id = topic_id, b"\x07" * 16
        fetched = await client.ask(OffsetFetchRequest(groups=[asked, fetch_group("g")]), 10)
        assert [
            [
                (topic.topic_id, topic.partitions[0].committed_offset, topic.partitions[0].error_code)
                for topic in g.topics
            ]
            for g in fetched.groups
        ] == [
            [(topic_id, 4, OK), (b"\x07" * 16, -1, ErrorCode.UNKNOWN_TOPIC_ID)],
            [(topic_id, 4, OK)],
        ]

    told(story)


def test_offsets_are_deleted_where_asked() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        await commit(client, "g", {(TOPIC, 0): 1, (TOPIC, 1): 1})
        request = OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)],
                )
                for name in (TOPIC, "no-such")
            ],
        )
        answer = await client.ask(request)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [[partition.error_code for partition in topic.partitions] for topic in answer.topics] == [
            [OK, unknown],
            [unknown, unknown],
        ]
        request.group_id = "nobody"
        assert (await client.ask(request)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        request.group_id = ""
        assert (await client.ask(request)).error_code == ErrorCode.INVALID_GROUP_ID

    async def after(client: Client) -> None:
        assert await committed(client, "g") == {(TOPIC, 1): 1}

    told(story, after)


def test_a_topic_made_again_has_no_offsets() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC, "other")
        await commit(client, "g", {(TOPIC, 0): 8, ("other", 0): 3})
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]))
        await client.create(TOPIC)
        assert await committed(client, "g", (TOPIC, 0), ("other", 0)) == {(TOPIC, 0): -1, ("other", 0): 3}
        await client.broker.runtime.tasks.sleep(0.1)
        assert await committed(client, "g") == {("other", 0): 3}

    async def after(client: Client) -> None:
        assert await committed(client, "g") == {("other", 0): 3}

    told(story, after)


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_are_read_back_in_every_version(version: int) -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await client.ask(commit_request("g", {(TOPIC, 0): 8}, metadata="here"), BY_NAME)
        if version >= 8:
            group = (
                await client.ask(OffsetFetchRequest(groups=[fetch_group("g", (TOPIC, 0))]), version)
            ).groups[0]
            assert found(group) == {(TOPIC, 0): 8}
            return
        topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 5])]
        answer = await client.ask(OffsetFetchRequest(group_id="g", topics=topics), version)
        assert [(p.committed_offset, p.metadata, p.error_code) for p in answer.topics[0].partitions] == [
            (8, "here", OK),
            (-1, "", OK),
        ]

    told(story)
