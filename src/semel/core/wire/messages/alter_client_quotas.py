"""AlterClientQuotas: set or remove quotas.

API key 49. Versions 0-1, flexible from 1.
    1  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Float64, Int16, Int32, String, Struct, array


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class EntryData(Struct):
    entity: list[EntityData] = array()
    ops: list[OpData] = array()


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array()
    validate_only: Bool = False


class AlterClientQuotasResponseEntryData(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[EntityData] = array()


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = array()
