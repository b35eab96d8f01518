"""JoinGroup: enter a classic group's next generation.

API key 11. Versions 0-9, flexible from 6.
    1  request +rebalance_timeout_ms
    2  response +throttle_time_ms
    3  throttled clients delay themselves
    4  a member without id is sent away with MEMBER_ID_REQUIRED
    5  request +group_instance_id; response +group_instance_id
    6  flexible
    7  response +protocol_type
    8  request +reason
    9  response +skip_assignment
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Bytes, Int16, Int32, String, Struct, array, at


class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(Request["JoinGroupResponse"], key=11, versions="0-9", flexible="6+"):
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = at("1+", -1, ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = at("5+", None)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = array()
    reason: String | None = at("8+", None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = at("5+", None, ignorable=True)
    metadata: Bytes = b""


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: Int32 = at("2+", 0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = at("7+", None, ignorable=True)
    protocol_name: String | None = at("0+", "", null="7+")
    leader: String = ""
    skip_assignment: Bool = at("9+", False)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = array()
