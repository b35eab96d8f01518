"""The sender's values: its decider, the brokers, and the batches of a request.

Role.   `Delivery` is what the pure ends have in common; `Node` and `Parcel` are the sender's notes.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from semel.core.idempotence.delivery import Decision, Event, Send
from semel.types import TopicPartition


class Delivery(Protocol):
    """The part that decides which batch leaves next: `InFlight`, or `TransactionalProducer` around one."""

    def enqueue(self, partition: TopicPartition, batch_id: int, records_count: int) -> None: ...
    def partitions(self) -> Iterable[TopicPartition]: ...
    def has_room(self, partition: TopicPartition, now_ms: int) -> bool: ...
    def upcoming(self, partition: TopicPartition) -> int | None: ...
    def send(self, partition: TopicPartition, now_ms: int) -> Send[TopicPartition] | None: ...
    def split(self, partition: TopicPartition, batch_id: int, pieces: Sequence[tuple[int, int]]) -> None: ...
    def handle(self, event: Event[TopicPartition], now_ms: int) -> list[Decision[TopicPartition]]: ...


class Node:
    """A broker, as the sender sees it."""

    __slots__ = ("in_flight", "is_connecting", "is_ready", "not_before_ms", "tries")

    def __init__(self) -> None:
        self.in_flight = 0
        self.is_ready = False
        self.is_connecting = False
        self.not_before_ms = 0
        self.tries = 0


class Parcel:
    """The batches of one request."""

    __slots__ = ("sends", "size_bytes")

    def __init__(self) -> None:
        self.sends: list[Send[TopicPartition]] = []
        self.size_bytes = 0
