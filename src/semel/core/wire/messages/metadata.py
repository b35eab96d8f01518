"""Metadata: brokers, topics, partitions and their leaders.

API key 3. Versions 0-13, flexible from 9.
    1  response +rack, +controller_id, +is_internal
    2  response +cluster_id
    3  response +throttle_time_ms
    4  request +allow_auto_topic_creation
    5  response +offline_replicas
    6  throttled clients delay themselves
    7  response +leader_epoch
    8  request +include_cluster_authorized_operations, +include_topic_authorized_operations; response
       +topic_authorized_operations, +cluster_authorized_operations
    9  flexible
    10 request +topic_id; response +topic_id
    11 request -include_cluster_authorized_operations; response -cluster_authorized_operations
    12 topics may be asked for by id
    13 response +error_code
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int16, Int32, String, Struct, Uuid, array, at


class MetadataRequestTopic(Struct):
    topic_id: Uuid = at("10+", ZERO_UUID, ignorable=True)
    name: String | None = at("0+", "", null="10+")


class MetadataRequest(Request["MetadataResponse"], key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = array(null="1+")
    allow_auto_topic_creation: Bool = at("4+", True)
    include_cluster_authorized_operations: Bool = at("8-10", False)
    include_topic_authorized_operations: Bool = at("8+", False)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = at("1+", None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = at("7+", -1, ignorable=True)
    replica_nodes: list[Int32] = array()
    isr_nodes: list[Int32] = array()
    offline_replicas: list[Int32] = array("5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = at("0+", "", null="12+")
    topic_id: Uuid = at("10+", ZERO_UUID, ignorable=True)
    is_internal: Bool = at("1+", False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array()
    topic_authorized_operations: Int32 = at("8+", -2147483648)


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: Int32 = at("3+", 0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array()
    cluster_id: String | None = at("2+", None, ignorable=True)
    controller_id: Int32 = at("1+", -1, ignorable=True)
    topics: list[MetadataResponseTopic] = array()
    cluster_authorized_operations: Int32 = at("8-10", -2147483648)
    error_code: Int16 = at("13+", 0, ignorable=True)
