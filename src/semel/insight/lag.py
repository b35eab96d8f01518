"""How far groups are behind the end of the partitions they read.

Rules.  The end of a partition is what a consumer with the client's `isolation.level` can reach: the last stable offset, or the
        high watermark.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from semel.client.calls.list_offsets import LATEST, offsets_at
from semel.client.calls.list_topics import existing_topics
from semel.client.cluster import Cluster
from semel.client.values.consuming import OffsetAndMetadata
from semel.types import TopicPartition


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition; None where nothing is committed or the topic is gone."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    end_offset: int | None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end."""
        if self.committed is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed.offset)


async def lag(
    cluster: Cluster,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    partitions: Iterable[TopicPartition] = (),
) -> list[PartitionLag]:
    """Of everything committed, and of these partitions too, how far it is to the end."""
    wanted = sorted({*committed, *partitions})
    views = await existing_topics(cluster, {one.topic for one in wanted})
    there = [one for one in wanted if one.topic in views and one.partition < len(views[one.topic].partitions)]
    ends = await offsets_at(cluster, dict.fromkeys(there, LATEST)) if there else {}
    return [PartitionLag(one, committed.get(one), ends.get(one)) for one in wanted]
