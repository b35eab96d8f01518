"""DescribeGroups: state and members of classic groups.

API key 15. Versions 0-6, flexible from 5.
    1  response +throttle_time_ms
    2  throttled clients delay themselves
    3  request +include_authorized_operations; response +authorized_operations
    4  response +group_instance_id
    5  flexible
    6  response +error_message
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Bytes, Int16, Int32, String, Struct, array, at


class DescribeGroupsRequest(Request["DescribeGroupsResponse"], key=15, versions="0-6", flexible="5+"):
    groups: list[String] = array()
    include_authorized_operations: Bool = at("3+", False)


class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = at("4+", None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = at("6+", None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = array()
    authorized_operations: Int32 = at("3+", -2147483648)


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    groups: list[DescribedGroup] = array()
