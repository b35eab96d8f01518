"""ControlledShutdown: a broker that stops asks the controller to move its leaderships first.

API key 7, of Kafka up to 3.9. Versions 0-3, flexible from 3.
    0  the request's header has no client id; nobody sends it any more
    1  as before, with a client id
    2  request +broker_epoch
    3  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, Int64, String, Struct, array, at


class ControlledShutdownRequest(Request["ControlledShutdownResponse"], key=7, versions="0-3", flexible="3+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = at("2+", -1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = array()
