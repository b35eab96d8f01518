"""DescribeLogDirs: a broker's data directories, and the copies of partitions in them."""

from semel.client.calls import known
from semel.client.cluster import Cluster
from semel.client.values.administration import LogDirDescription, ReplicaInfo
from semel.core.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.errors import error_code, refused
from semel.types import TopicPartition


async def describe_log_dirs(cluster: Cluster, node_id: int) -> dict[str, LogDirDescription]:
    """The directories of one broker, by their paths; one attempt."""
    answer = await cluster.send(DescribeLogDirsRequest(topics=None), node_id=node_id)
    if answer.error_code:
        raise refused(
            answer.error_code, "to describe its directories", by=f"broker {node_id} of {cluster.where}"
        )
    return {
        one.log_dir: LogDirDescription(
            error=error_code(one.error_code),
            total_bytes=known(one.total_bytes),
            usable_bytes=known(one.usable_bytes),
            replica_infos={
                TopicPartition(topic.name, part.partition_index): ReplicaInfo(
                    part.partition_size, part.offset_lag, part.is_future_key
                )
                for topic in one.topics
                for part in topic.partitions
            },
        )
        for one in answer.results
    }
