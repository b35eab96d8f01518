"""ListGroups (16), versions 0-5: the groups of this broker.

    4+   only those in some states; the answer tells the state
    5+   only those of some types; the answer tells the type

States and types are compared without regard to case; a name nobody knows matches nothing. While a part of the groups is
still being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.
"""

from semel.broker.context import BrokerContext, RequestContext
from semel.core.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from semel.errors import ErrorCode


def handle(broker: BrokerContext, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Every group that matches."""
    found = broker.groups.host.look(lambda shard: shard.listed(request.states_filter, request.types_filter))
    if isinstance(found, ErrorCode):
        return ListGroupsResponse(error_code=found)
    return ListGroupsResponse(groups=[group for groups in found for group in groups])
