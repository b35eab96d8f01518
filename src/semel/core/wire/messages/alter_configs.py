"""AlterConfigs: replace all settings of a resource (IncrementalAlterConfigs changes single ones).

API key 33. Versions 0-2, flexible from 2.
    1  throttled clients delay themselves
    2  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, array


class AlterableConfig(Struct):
    name: String = ""
    value: String | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = array()


class AlterConfigsRequest(Request["AlterConfigsResponse"], key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = array()
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()
