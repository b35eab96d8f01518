"""Readers of a partition, as requests name them: a replica's broker id, or a number below zero.

Role.   A replica id decides which records may be read: Fetch, ListOffsets and OffsetForLeaderEpoch carry one.
Rules.  * A consumer reads visible records; Kafka's tools that debug are consumers to Fetch, but not to ListOffsets.
        * A follower reads up to the log's end: its log decides which records become visible.
"""

from typing import Final

CONSUMER: Final = -1
FUTURE: Final = -3
"""A replica of this broker that moves to another directory: it reads as a follower does, and no progress is noted."""


def is_follower(replica_id: int) -> bool:
    """Whether it is another broker's replica."""
    return replica_id >= 0


def fetches_to_the_end(replica_id: int) -> bool:
    """Whether a fetch sees everything that is there."""
    return replica_id >= 0 or replica_id == FUTURE


def lists_to_the_end(replica_id: int) -> bool:
    """Whether the latest offset is the log's end."""
    return replica_id != CONSUMER
