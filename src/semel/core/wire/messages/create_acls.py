"""CreateAcls: new access rules.

API key 30. Versions 1-3, flexible from 2.
    2  flexible
    3  resources of type user
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int8, Int16, Int32, String, Struct, array


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Request["CreateAclsResponse"], key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = array()


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = array()
