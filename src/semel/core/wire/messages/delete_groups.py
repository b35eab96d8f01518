"""DeleteGroups: remove empty groups.

API key 42. Versions 0-2, flexible from 2.
    1  throttled clients delay themselves
    2  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, Struct, array


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], key=42, versions="0-2", flexible="2+"):
    groups_names: list[String] = array()


class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = array()
