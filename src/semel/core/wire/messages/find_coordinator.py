"""FindCoordinator: the broker that coordinates a group or a transactional id.

API key 10. Versions 0-6, flexible from 3.
    1  request +key_type; response +throttle_time_ms, +error_message
    2  throttled clients delay themselves
    3  flexible
    4  request -key, +coordinator_keys; response -error_code, -error_message, -node_id, -host, -port,
       +coordinators
    5  the broker may answer TRANSACTION_ABORTABLE
    6  share groups' coordinators may be asked for
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int8, Int16, Int32, String, Struct, array, at


class FindCoordinatorRequest(Request["FindCoordinatorResponse"], key=10, versions="0-6", flexible="3+"):
    key: String = at("0-3", "")
    key_type: Int8 = at("1+", 0)
    coordinator_keys: list[String] = array("4+")


class Coordinator(Struct):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    error_code: Int16 = at("0-3", 0)
    error_message: String | None = at("1-3", "", ignorable=True)
    node_id: Int32 = at("0-3", 0)
    host: String = at("0-3", "")
    port: Int32 = at("0-3", 0)
    coordinators: list[Coordinator] = array("4+")
