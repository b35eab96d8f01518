"""The small values every part of Semel names: partitions, ids, addresses, and the constants the protocol fixes.

Internal: `semel` has the names that programs need.

Role.   Vocabulary without behaviour. Everything may import it; it imports nothing of ours.
Rules.  * A `TopicPartition` is a plain tuple, so `("orders", 0)` is accepted wherever one is.
        * The constants are Kafka's own sentinels; they are part of the wire and of the files.
"""

from typing import Final, NamedTuple, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview
WritableBytes: TypeAlias = bytearray | memoryview

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Kafka's spelling, which is also the name of the partition's directory."""
        return f"{self.topic}-{self.partition}"


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
