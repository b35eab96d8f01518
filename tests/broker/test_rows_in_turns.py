"""A request of few rows that each have much to say gives others their turns between; a group is told once.

Method: a simulated broker whose turns are over at once. How many of the rows have been looked up is seen in every turn of the loop:
never more than one further.
"""

import asyncio
from typing import Any

import pytest

from semel.broker import turns
from semel.broker.handlers import describe_configs
from semel.broker.markers import sending
from semel.broker.markers.here import MarkersHere
from semel.core.groups.consumer.coordinator import ConsumerCoordinator
from semel.core.groups.shard import GroupShard
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.wire.message import Request
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.core.wire.messages.delete_groups import DeleteGroupsRequest
from semel.core.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.core.wire.messages.describe_groups import DescribeGroupsRequest
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told

NAMES = [f"g{number}" for number in range(6)]
QUESTIONS: list[tuple[Any, str, Request[Any], str]] = [
    (GroupShard, "describe", DescribeGroupsRequest(groups=NAMES), "groups"),
    (GroupShard, "delete_group", DeleteGroupsRequest(groups_names=NAMES), "results"),
    (ConsumerCoordinator, "describe", ConsumerGroupDescribeRequest(group_ids=NAMES), "groups"),
    (
        GroupShard,
        "fetch",
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES]),
        "groups",
    ),
    (
        TransactionShard,
        "describe",
        DescribeTransactionsRequest(transactional_ids=NAMES),
        "transaction_states",
    ),
    (
        TransactionShard,
        "add_partitions",
        AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnTransaction(transactional_id=name) for name in NAMES]
        ),
        "results_by_transaction",
    ),
    (
        describe_configs,
        "_result",
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=name) for name in NAMES]
        ),
        "results",
    ),
    (
        MarkersHere,
        "write",
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=number,
                    topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[number % 3])],
                )
                for number in range(len(NAMES))
            ]
        ),
        "markers",
    ),
]


async def made(client: Client) -> None:
    """Both coordinators are there."""
    assert await client.create("orders", partitions=3) == [0]
    await client.ask(DescribeGroupsRequest(groups=["g"]))
    await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question[2]).__name__)
def test_others_have_their_turns_between_the_rows_of_a_request(
    question: tuple[Any, str, Request[Any], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    part, method, request, answered = question
    asked = 0
    original = getattr(part, method)

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        return original(*arguments, **named)

    async def story(client: Client) -> None:
        await made(client)
        monkeypatch.setattr(part, method, counted)
        monkeypatch.setattr(turns, "TURN_SECONDS_MAX", 0)
        asking, seen = asyncio.ensure_future(client.ask(request)), list[int]()
        while not asking.done():
            seen.append(asked)
            await asyncio.sleep(0)
        assert len(getattr(await asking, answered)) == len(NAMES)
        assert list(dict.fromkeys([*seen, asked])) == list(range(len(NAMES) + 1))

    told(story)


async def committed(client: Client, group: str) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
        for index in range(3)
    ]
    commit = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )
    assert {one.error_code for one in (await client.ask(commit, 8)).topics[0].partitions} == {0}


@pytest.mark.parametrize("times", [2, 300])
def test_a_group_that_is_named_again_and_again_is_told_once(times: int) -> None:
    """Else one group of ten thousand members, or offsets, would be an answer of gigabytes."""

    async def story(client: Client) -> None:
        await made(client)
        await committed(client, "g")
        await committed(client, "h")
        described = await client.ask(DescribeGroupsRequest(groups=["h", *["g"] * times]))
        assert [group.group_id for group in described.groups] == ["h", "g"]
        consumers = await client.ask(ConsumerGroupDescribeRequest(group_ids=["h", *["g"] * times]))
        assert [group.group_id for group in consumers.groups] == ["h", "g"]
        transactions = await client.ask(DescribeTransactionsRequest(transactional_ids=["u", *["t"] * times]))
        assert [one.transactional_id for one in transactions.transaction_states] == ["u", "t"]

    told(story)


@pytest.mark.parametrize("times", [2, 300])
def test_all_offsets_of_a_group_are_told_once_and_named_ones_as_often_as_asked(times: int) -> None:
    def all_of(*groups: str) -> list[OffsetFetchRequestGroup]:
        return [OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]

    async def story(client: Client) -> None:
        await made(client)
        await committed(client, "g")
        await committed(client, "h")
        named = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[2])]
        )
        groups = [*all_of("h"), *all_of("g") * times, named, named]
        answer = await client.ask(OffsetFetchRequest(groups=groups), 9)
        assert [
            (group.group_id, [one.partition_index for one in group.topics[0].partitions])
            for group in answer.groups
        ] == [("h", [0, 1, 2]), ("g", [0, 1, 2]), ("g", [2]), ("g", [2])]

    told(story)


@pytest.mark.parametrize(("at_once", "seen"), [(2, [0, 2, 4, 6, 7]), (500, [0, 7])])
def test_others_have_their_turns_while_a_transaction_of_many_partitions_ends(
    at_once: int, seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every partition has its marker, once, when the next transaction may begin."""
    monkeypatch.setattr(sending, "_AT_ONCE", at_once)

    async def story(client: Client) -> None:
        await made(client)
        await client.create("wide", partitions=7)
        owner = await client.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4
        )

        async def begun() -> int:
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=owner.producer_id,
                v3_and_below_producer_epoch=owner.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="wide", partitions=list(range(7)))],
            )
            (topic,) = (await client.ask(add, 3)).results_by_topic_v3_and_below
            return topic.results_by_partition[0].partition_error_code

        assert await begun() == 0
        end = EndTxnRequest(
            transactional_id="t",
            producer_id=owner.producer_id,
            producer_epoch=owner.producer_epoch,
            committed=True,
        )
        ending, counts = asyncio.ensure_future(client.ask(end, 3)), list[int]()
        while not ending.done() or counts[-1] < 7:
            counts.append(sum(client.partition("wide", index).log.log_end_offset for index in range(7)))
            await asyncio.sleep(0)
        assert (await ending).error_code == 0
        assert list(dict.fromkeys(counts)) == seen
        while await begun() == ErrorCode.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(0.01)
        assert [client.partition("wide", index).log.log_end_offset for index in range(7)] == [1] * 7

    told(story)
