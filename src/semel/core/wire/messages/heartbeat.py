"""Heartbeat: a classic group's member is alive.

API key 12. Versions 0-4, flexible from 4.
    1  response +throttle_time_ms
    2  throttled clients delay themselves
    3  request +group_instance_id
    4  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, at


class HeartbeatRequest(Request["HeartbeatResponse"], key=12, versions="0-4", flexible="4+"):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = at("3+", None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    error_code: Int16 = 0
