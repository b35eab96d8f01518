"""ConsumerGroupDescribe (69), versions 0-1: state and members of KIP-848 groups.

1    whether a member speaks KIP-848 or the classic protocol
"""

from collections.abc import Awaitable

from semel.broker import features
from semel.broker.context import RequestContext
from semel.broker.coordinators.tickets import merged
from semel.broker.parts import Coordinators
from semel.core.security.operations import GROUP_OPERATIONS
from semel.core.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive


def handle(
    broker: Coordinators, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> (
    ConsumerGroupDescribeResponse
    | Awaitable[ConsumerGroupDescribeResponse]
    | Exclusive[ConsumerGroupDescribeResponse]
):
    """Describe each of them."""

    def merge(answers: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
        groups = [group for answer in answers for group in answer.groups]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    return merged(
        (_describe(broker, group_id) for group_id in dict.fromkeys(request.group_ids)), merge, broker.runtime
    )


def _describe(
    broker: Coordinators, group_id: str
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    if not features.level(broker.image, features.GROUP_VERSION):
        return _refused(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID)
    return broker.groups.ask(
        group_id,
        lambda shard, ticket, _now_ms: shard.consumer.describe(group_id, ticket),
        ConsumerGroupDescribeResponse,
        lambda code: _refused(group_id, code),
    )


def _refused(group_id: str, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[DescribedGroup(group_id=group_id, error_code=code)])
