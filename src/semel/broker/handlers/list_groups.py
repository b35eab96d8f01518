"""ListGroups (16), versions 0-5: the groups of this broker.

    4+   only those in some states; the answer tells the state
    5+   only those of some types; the answer tells the type

States and types are compared without regard to case; a name nobody knows matches nothing. While a part of the groups is
still being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.broker.turns import Steps, Turn, in_turns
from semel.core.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from semel.errors import ErrorCode
from semel.net.reply import Exclusive


def handle(
    broker: Coordinators, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse | Exclusive[ListGroupsResponse]:
    """Every group that matches."""
    return in_turns(_list(broker, request), broker.runtime, context.connection.peer)


def _list(broker: Coordinators, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    turn = Turn(broker.runtime.clock)
    groups: list[ListedGroup] = []
    for found in broker.groups.host.looks(
        lambda shard: shard.listed(request.states_filter, request.types_filter)
    ):
        if isinstance(found, ErrorCode):
            return ListGroupsResponse(error_code=found)
        groups += found
        if turn.is_over:
            yield None
            turn.begin()
    return ListGroupsResponse(groups=groups)
