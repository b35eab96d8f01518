"""OffsetFetch (9), versions 1-10: a group's positions, read back.

    2+    no topics named: all the group has; an error of the group has a place of its own
    5+    with the leader epoch of what was committed
    7+    whoever asks for stable offsets is told where a transaction is open
    8+    many groups in one request
    9+    a member of a KIP-848 group is checked
    10+   topics by id

Every partition that was asked for is answered: -1 where nothing is committed. A group that is asked for all it has, several times
in one request, is answered once.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from semel.broker.context import RequestContext
from semel.broker.coordinators.tickets import merged
from semel.broker.parts import Coordinators
from semel.core.groups import fetching
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from semel.core.wire.portions import all_of_a_group
from semel.errors import ErrorCode
from semel.net.reply import Exclusive

_ERROR_SINCE: Final = 2
_LEADER_EPOCH_SINCE: Final = 5
_MANY_SINCE: Final = 8
_BY_ID_SINCE: Final = 10


def handle(
    broker: Coordinators, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse] | Exclusive[OffsetFetchResponse]:
    """Ask every group's shard, and put the answers together."""
    version = context.version
    asked = _once(request.groups) if version >= _MANY_SINCE else [_as_group(request)]
    answers = (
        _fetch(broker, group, require_stable=request.require_stable, version=version) for group in asked
    )

    def merge(found: list[OffsetFetchResponse]) -> OffsetFetchResponse:
        groups = [group for answer in found for group in answer.groups]
        if version >= _MANY_SINCE:
            return OffsetFetchResponse(groups=groups)
        return _as_before_groups(groups[0], asked[0], version)

    return merged(answers, merge, broker.runtime)


def _once(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """The groups without those that are asked for everything again."""
    return list({all_of_a_group(group): group for group in groups}.values())


def _fetch(
    broker: Coordinators, group: OffsetFetchRequestGroup, *, require_stable: bool, version: int
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    by_id = version >= _BY_ID_SINCE
    return broker.groups.ask(
        group.group_id,
        lambda shard, ticket, _now_ms: shard.fetch(group, ticket, require_stable=require_stable, by_id=by_id),
        OffsetFetchResponse,
        partial(fetching.refused, group),
    )


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _as_before_groups(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    """The answer for one group in the shape it had up to version 7."""
    code = ErrorCode(group.error_code)
    if code and version < _ERROR_SINCE:  # The group's error has no place but with every partition.
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index, committed_offset=-1, metadata="", error_code=code
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in asked.topics or []
            ]
        )
    with_epoch = version >= _LEADER_EPOCH_SINCE
    return OffsetFetchResponse(
        error_code=code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=found.partition_index,
                        committed_offset=found.committed_offset,
                        committed_leader_epoch=found.committed_leader_epoch if with_epoch else -1,
                        metadata=found.metadata,
                        error_code=found.error_code,
                    )
                    for found in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
