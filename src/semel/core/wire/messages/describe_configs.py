"""DescribeConfigs: settings of topics, brokers and groups with where they come from.

API key 32. Versions 1-4, flexible from 4.
    2  throttled clients delay themselves
    3  request +include_documentation; response +config_type, +documentation
    4  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, array, at


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = array()


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array()
    include_synonyms: Bool = False
    include_documentation: Bool = at("3+", False)


class DescribeConfigsSynonym(Struct):
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = array()
    config_type: Int8 = at("3+", 0, ignorable=True)
    documentation: String | None = at("3+", "", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = array()


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = array()
