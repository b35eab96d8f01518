"""The interfaces of consumer, producer and record that exactly-once processing needs.

Role.   Protocols. `semel.Consumer` and `semel.Producer` implement them; any class with these methods may.
Rules.  * This package never imports the client: the client may offer it (`Consumer.process`) without an import cycle.
        * Rebalance listeners are called inside `poll`, on the caller's thread, and may seek there.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from semel.types import TopicPartition

Clock: TypeAlias = Callable[[], int]  # Milliseconds since 1970.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Record(Protocol):
    """A consumed record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    # The types depend on the user's deserializers.
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> Any: ...


class RebalanceListener(Protocol):
    """Called inside `poll` when the group assigns or revokes partitions."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None: ...
    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None: ...
    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None: ...


class Committed(Protocol):
    """A committed offset and its metadata text."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str | None: ...


class SeekingConsumer(Protocol):
    """A consumer whose positions are stored outside of Kafka."""

    def subscribe(self, topics: Any, *, listener: Any = ...) -> None: ...
    def assign(self, partitions: Any) -> None: ...
    def assignment(self) -> Collection[TopicPartition]: ...
    def poll(self, timeout_ms: Any = ...) -> Iterable[Any]: ...
    def seek(self, partition: Any, offset: Any) -> None: ...
    def seek_to_beginning(self, partitions: Any) -> None: ...
    def end_offsets(self, partitions: Any) -> Mapping[TopicPartition, int]: ...
