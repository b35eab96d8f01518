"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings.

API key 44. Versions 0-1, flexible from 1.
    1  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, array


class AlterableConfig(Struct):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = array()


class IncrementalAlterConfigsRequest(
    Request["IncrementalAlterConfigsResponse"], key=44, versions="0-1", flexible="1+"
):
    resources: list[AlterConfigsResource] = array()
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()
