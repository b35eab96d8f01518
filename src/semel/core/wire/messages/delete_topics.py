"""DeleteTopics: topics to remove.

API key 20. Versions 1-6, flexible from 4.
    2  throttled clients delay themselves
    3  the broker may answer TOPIC_DELETION_DISABLED
    4  flexible
    5  response +error_message; the broker may answer THROTTLING_QUOTA_EXCEEDED
    6  request +topics, -topic_names; response +topic_id
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import Int16, Int32, String, Struct, Uuid, array, at


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array("6+")
    topic_names: list[String] = array("1-5", ignorable=True)
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    name: String | None = at("1+", "", null="6+")
    topic_id: Uuid = at("6+", ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = at("5+", None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = array()
