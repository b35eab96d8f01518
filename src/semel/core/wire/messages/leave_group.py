"""LeaveGroup: members leave a classic group.

API key 13. Versions 0-5, flexible from 4.
    1  response +throttle_time_ms
    2  throttled clients delay themselves
    3  request -member_id, +members; response +members
    4  flexible
    5  request +reason
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, Struct, array, at


class MemberIdentity(Struct):
    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = at("5+", None, ignorable=True)


class LeaveGroupRequest(Request["LeaveGroupResponse"], key=13, versions="0-5", flexible="4+"):
    group_id: String = ""
    member_id: String = at("0-2", "")
    members: list[MemberIdentity] = array("3+")


class MemberResponse(Struct):
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = array("3+")
