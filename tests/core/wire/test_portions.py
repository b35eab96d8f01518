"""A request answered in portions gets the answer it would have got in one.

Method: requests of every API that has portions, with rows by property; a handler that answers each row by its own content is asked
once for the whole and once per portion, and both answers must be equal.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.wire import portions
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from semel.core.wire.portions import Rows
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import TooManyRowsError

sizes = st.lists(st.integers(0, 7), max_size=6)


def list_offsets(counts: list[int]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=f"t{number}",
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=number) for index in range(count)
                ],
            )
            for number, count in enumerate(counts)
        ]
    )


def offsets_listed(request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, offset=one.timestamp * 100 + one.partition_index
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def joined(request: Request[Any], rows: Rows, answered: Any) -> tuple[Response, list[Request[Any]]]:
    """The answer of all portions together, and the portions."""
    cut = list(portions.portions(request, rows))
    whole: Response = answered(cut[0].request)
    for portion in cut[1:]:
        portions.join(whole, answered(portion.request), rows, portion.joint)
    return whole, [portion.request for portion in cut]


@given(counts=sizes, at_once=st.integers(1, 5))
def test_topics_and_partitions(counts: list[int], at_once: int) -> None:
    rows = _rows(ApiKey.LIST_OFFSETS, 5)._replace(at_once=at_once)
    request = list_offsets(counts)
    answer, cut = joined(request, rows, offsets_listed)
    assert answer == offsets_listed(request)
    assert request == list_offsets(counts), "the request itself is not changed"
    for part in cut:
        assert isinstance(part, ListOffsetsRequest)
        counted = [max(1, len(topic.partitions)) for topic in part.topics]
        assert sum(counted) <= at_once


@given(groups=st.lists(sizes, max_size=4), at_once=st.integers(1, 5))
def test_groups_topics_and_partitions(groups: list[list[int]], at_once: int) -> None:
    def answered(request: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name=topic.name,
                            partitions=[
                                OffsetFetchResponsePartitions(partition_index=index, committed_offset=index)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or ()
                    ],
                )
                for group in request.groups
            ]
        )

    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"g{number}",
                topics=[
                    OffsetFetchRequestTopics(name=f"t{place}", partition_indexes=list(range(count)))
                    for place, count in enumerate(counts)
                ],
            )
            for number, counts in enumerate(groups)
        ]
    )
    rows = _rows(ApiKey.OFFSET_FETCH, 8)._replace(at_once=at_once)
    assert joined(request, rows, answered)[0] == answered(request)


@given(count=st.integers(0, 20), at_once=st.integers(1, 5))
def test_names_alone(count: int, at_once: int) -> None:
    def answered(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=name) for name in request.groups_names]
        )

    request = DeleteGroupsRequest(groups_names=[f"g{number}" for number in range(count)])
    answer, cut = joined(request, _rows(ApiKey.DELETE_GROUPS, 2)._replace(at_once=at_once), answered)
    assert answer == answered(request)
    assert len(cut) == max(1, -(-count // at_once))


def test_a_topic_that_is_asked_for_twice_is_answered_once() -> None:
    """As Metadata does in one portion: its answer has every topic once."""
    names = ["a", "b", "a", "c", "b", "d"]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    rows = _rows(ApiKey.METADATA, 9)._replace(at_once=2)
    answer, _cut = joined(
        request,
        rows,
        lambda part: MetadataResponse(
            topics=[MetadataResponseTopic(name=topic.name) for topic in part.topics]
        ),
    )
    assert isinstance(answer, MetadataResponse)
    assert [topic.name for topic in answer.topics] == ["a", "b", "c", "d"]


def test_all_topics_are_one_portion() -> None:
    """Null stands for all of them: there is nothing to cut."""
    (portion,) = portions.portions(MetadataRequest(topics=None), _rows(ApiKey.METADATA, 9))
    assert portion.request == MetadataRequest(topics=None)


def _rows(key: ApiKey, version: int) -> Rows:
    found = portions.rows_of(key, version)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "key", [api.key for api in BY_KEY.values() if portions.rows_of(api.key, api.last) is not None]
)
def test_the_table_names_fields_there_are(key: ApiKey) -> None:
    api = BY_KEY[key]
    for version in range(api.first, api.last + 1):
        rows = _rows(key, version)
        asked: Any = api.request()
        assert hasattr(asked, rows.asked[0])
        assert hasattr(api.response(), rows.answered[0])


@given(counts=sizes, rows_max=st.integers(0, 40))
def test_a_reader_allows_exactly_so_many_rows(counts: list[int], rows_max: int) -> None:
    version = 5
    request = list_offsets(counts)
    data = bytes(request.encode(version))
    rows = len(counts) + sum(counts)
    if rows <= rows_max:
        assert ListOffsetsRequest.decode(data, version, rows_max=rows_max) == request
    else:
        with pytest.raises(TooManyRowsError, match=f"ListOffsetsRequest v5 has more than {rows_max} rows"):
            ListOffsetsRequest.decode(data, version, rows_max=rows_max)


def test_a_huge_count_is_refused_before_anything_is_read() -> None:
    """A few bytes that claim a million elements cost nothing, because the claim is checked against the bytes that are there."""
    data = bytes(list_offsets([]).encode(5))
    claimed = data[:-4] + (1_000_000).to_bytes(4, "big")
    with pytest.raises(Exception, match=r"ListOffsetsRequest"):
        ListOffsetsRequest.decode(claimed, 5, rows_max=250)
