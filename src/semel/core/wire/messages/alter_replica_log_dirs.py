"""AlterReplicaLogDirs: move replicas between a broker's data directories.

API key 34. Versions 1-2, flexible from 2.
    2  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, Int32, String, Struct, array


class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: list[Int32] = array()


class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = array()


class AlterReplicaLogDirsRequest(
    Request["AlterReplicaLogDirsResponse"], key=34, versions="1-2", flexible="2+"
):
    dirs: list[AlterReplicaLogDir] = array()


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = array()


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = array()
