"""DeleteGroups (42), versions 0-2: empty groups go, with all their offsets.

Each group is answered by itself. A group named twice is deleted once, and then not found.
"""

from collections.abc import Awaitable

from semel.broker.context import RequestContext
from semel.broker.coordinators.tickets import merged
from semel.broker.parts import Coordinators
from semel.core.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive


def handle(
    broker: Coordinators, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse] | Exclusive[DeleteGroupsResponse]:
    """Delete each of them, as far as that may be."""
    return merged((_delete(broker, group_id) for group_id in request.groups_names), _merge, broker.runtime)


def _delete(broker: Coordinators, group_id: str) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    return broker.groups.ask(
        group_id,
        lambda shard, ticket, _now_ms: shard.delete_group(group_id, ticket),
        DeleteGroupsResponse,
        lambda code: _refused(group_id, code),
    )


def _refused(group_id: str, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=code)])


def _merge(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[result for answer in answers for result in answer.results])
