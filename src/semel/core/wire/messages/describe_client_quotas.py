"""DescribeClientQuotas: quotas that match a filter.

API key 48. Versions 0-1, flexible from 1.
    1  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Float64, Int8, Int16, Int32, String, Struct, array


class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasRequest(
    Request["DescribeClientQuotasResponse"], key=48, versions="0-1", flexible="1+"
):
    components: list[ComponentData] = array()
    strict: Bool = False


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0


class EntryData(Struct):
    entity: list[EntityData] = array()
    values: list[ValueData] = array()


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[EntryData] | None = array()
