"""ListConfigResources: names of resources that have settings.

API key 74. Versions 0-1, flexible from 0.
    1  request +resource_types; response +resource_type
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int8, Int16, Int32, String, Struct, array, at


class ListConfigResourcesRequest(
    Request["ListConfigResourcesResponse"], key=74, versions="0-1", flexible="0+"
):
    resource_types: list[Int8] = array("1+")


class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = at("1+", 16, ignorable=True)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = array()
