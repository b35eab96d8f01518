"""ListGroups: the groups a broker coordinates.

API key 16. Versions 0-5, flexible from 3.
    1  response +throttle_time_ms
    2  throttled clients delay themselves
    3  flexible
    4  request +states_filter; response +group_state
    5  request +types_filter; response +group_type
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, Struct, array, at


class ListGroupsRequest(Request["ListGroupsResponse"], key=16, versions="0-5", flexible="3+"):
    states_filter: list[String] = array("4+")
    types_filter: list[String] = array("5+")


class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = at("4+", "", ignorable=True)
    group_type: String = at("5+", "", ignorable=True)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = array()
