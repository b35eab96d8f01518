"""DescribeGroups (15), versions 0-6: state and members of classic groups.

3+   what the client may do with the group, if it asks
6+   a group that is not there, or not classic, is GROUP_ID_NOT_FOUND; before, it is a dead group without error
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.coordinators.tickets import merged
from semel.broker.parts import Coordinators
from semel.core.security.operations import GROUP_OPERATIONS
from semel.core.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive


def handle(
    broker: Coordinators, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse] | Exclusive[DescribeGroupsResponse]:
    """Describe each of them."""

    def merge(answers: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        groups = [group for answer in answers for group in answer.groups]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    return merged(
        (_describe(broker, group_id, context.version) for group_id in dict.fromkeys(request.groups)),
        merge,
        broker.runtime,
    )


def _describe(
    broker: Coordinators, group_id: str, version: int
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    return broker.groups.ask(
        group_id,
        lambda shard, ticket, _now_ms: shard.describe(group_id, version, ticket),
        DescribeGroupsResponse,
        lambda code: _refused(group_id, code),
    )


def _refused(group_id: str, code: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=group_id, error_code=code)])
