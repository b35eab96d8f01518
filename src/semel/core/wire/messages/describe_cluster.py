"""DescribeCluster: id, controller and brokers.

API key 60. Versions 0-2, flexible from 0.
    1  request +endpoint_type; response +endpoint_type
    2  request +include_fenced_brokers; response +is_fenced
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, array, at


class DescribeClusterRequest(Request["DescribeClusterResponse"], key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = at("1+", 1)
    include_fenced_brokers: Bool = at("2+", False)


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = at("2+", False)


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = at("1+", 1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = array()
    cluster_authorized_operations: Int32 = -2147483648
