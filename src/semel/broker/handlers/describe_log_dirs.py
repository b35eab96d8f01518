"""DescribeLogDirs (35), versions 1-5: what the data directory holds, and how much room there is.

    3+  an error for the whole answer
    4+  the size of the volume and what is free of it
    5+  whether new partitions are kept away from the directory: never here

No topics named (null): every partition. A partition that is not here is not in the answer, as in Kafka.
"""

from collections.abc import Iterable

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.replicas.replica import Replica
from semel.core.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from semel.errors import ErrorCode


def handle(
    broker: Administration, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    """One directory, with the sizes of the partitions asked for."""
    files, path = broker.runtime.files, broker.config.data_dir
    try:
        total_bytes, usable_bytes = files.total_bytes(path), files.free_bytes(path)
    except OSError:
        return DescribeLogDirsResponse(
            results=[DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)]
        )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in _asked(broker, request):
        name, index = partition.log.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size_bytes)
        )
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=path, topics=list(topics.values()), total_bytes=total_bytes, usable_bytes=usable_bytes
            )
        ]
    )


def _asked(broker: Administration, request: DescribeLogDirsRequest) -> Iterable[Replica]:
    if request.topics is None:
        return broker.partitions
    wanted = dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)
    found = (broker.partitions.replica(topic, index) for topic, index in wanted)
    return (replica for replica in found if replica is not None)
