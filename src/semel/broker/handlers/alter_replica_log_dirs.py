"""AlterReplicaLogDirs (34), versions 1-2: move partitions to another directory of their broker.

There is one directory: a partition that is in it stays, another directory is LOG_DIR_NOT_FOUND, a partition that is not here
REPLICA_NOT_AVAILABLE, one that is offline KAFKA_STORAGE_ERROR.
"""

import posixpath

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from semel.errors import ErrorCode


def handle(
    broker: Administration, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    """Say of every partition whether it is where it should be."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_code(broker, directory.path, topic.name, index)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _code(broker: Administration, path: str, topic: str, index: int) -> ErrorCode:
    if not posixpath.isabs(path) or posixpath.normpath(path) != posixpath.normpath(broker.config.data_dir):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if broker.partitions.get(topic, index) is not None:
        return ErrorCode.NONE
    missing = broker.partitions.missing(topic, index)
    return missing if missing is ErrorCode.KAFKA_STORAGE_ERROR else ErrorCode.REPLICA_NOT_AVAILABLE
