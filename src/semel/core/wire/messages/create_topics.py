"""CreateTopics: new topics.

API key 19. Versions 2-7, flexible from 5.
    3  throttled clients delay themselves
    4  partition count and replication factor may be -1: the broker's defaults
    5  response +topic_config_error_code, +num_partitions, +replication_factor, +configs; flexible
    6  the broker may answer THROTTLING_QUOTA_EXCEEDED
    7  response +topic_id
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, Uuid, array, at


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = array()


class CreatableTopicConfig(Struct):
    name: String = ""
    value: String | None = ""


class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = array()
    configs: list[CreatableTopicConfig] = array()


class CreateTopicsRequest(Request["CreateTopicsResponse"], key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = at("7+", ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Int16 = at("5+", 0, tag=0, ignorable=True)
    num_partitions: Int32 = at("5+", -1, ignorable=True)
    replication_factor: Int16 = at("5+", -1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array("5+", ignorable=True)


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = array()
