"""SyncGroup: the leader hands in the assignment, every member gets its part.

API key 14. Versions 0-5, flexible from 4.
    1  response +throttle_time_ms
    2  throttled clients delay themselves
    3  request +group_instance_id
    4  flexible
    5  request +protocol_type, +protocol_name; response +protocol_type, +protocol_name
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bytes, Int16, Int32, String, Struct, array, at


class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(Request["SyncGroupResponse"], key=14, versions="0-5", flexible="4+"):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = at("3+", None)
    protocol_type: String | None = at("5+", None, ignorable=True)
    protocol_name: String | None = at("5+", None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array()


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = at("5+", None, ignorable=True)
    protocol_name: String | None = at("5+", None, ignorable=True)
    assignment: Bytes = b""
