"""What users hand to a consumer, in the shapes they like, made into what the consumer works with.

Role.   Shared by the blocking and the asynchronous face: partitions, offsets, subscriptions, listeners.
Rules.  `(topic, partition)` stands for a `TopicPartition`, a number for an `OffsetAndMetadata`, three callables for a listener.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from semel.client.consumer.values import (
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    SubscriptionPattern,
    Told,
)
from semel.exceptions import IllegalArgumentException
from semel.types import TopicPartition

_CAMEL: Final = {
    "on_partitions_assigned": "onPartitionsAssigned",
    "on_partitions_revoked": "onPartitionsRevoked",
    "on_partitions_lost": "onPartitionsLost",
}


def partition(given: tuple[str, int]) -> TopicPartition:
    """One partition."""
    if isinstance(given, str) or len(given) != 2:
        raise IllegalArgumentException(f"{given!r} is no partition: use TopicPartition(topic, partition)")
    topic, index = given
    if not topic or not isinstance(topic, str) or not isinstance(index, int) or index < 0:
        raise IllegalArgumentException(f"{given!r} is no partition: a topic's name and a number from 0 on")
    return TopicPartition(topic, index)


def partitions(given: Iterable[tuple[str, int]] | TopicPartition) -> list[TopicPartition]:
    """Some partitions; one alone may stand for a list of itself."""
    if isinstance(given, TopicPartition):
        return [given]
    return [partition(one) for one in given]


def offsets(
    given: Mapping[Any, int | OffsetAndMetadata] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """Positions to store."""
    if given is None:
        return None
    found = {}
    for where, at in given.items():
        wanted = OffsetAndMetadata(at) if isinstance(at, int) else OffsetAndMetadata(*at)
        if wanted.offset < 0:
            raise IllegalArgumentException(f"{where}: {wanted.offset} is no offset, the first one is 0")
        found[partition(where)] = wanted
    return found


def subscription(
    topics: Any, pattern: str | re.Pattern[str] | None
) -> list[str] | re.Pattern[str] | SubscriptionPattern:
    """What to subscribe to: names, or a pattern."""
    if isinstance(topics, re.Pattern | SubscriptionPattern) and pattern is None:
        return topics
    if (topics is None) == (pattern is None):
        raise IllegalArgumentException("subscribe to topics or to a pattern: exactly one of the two")
    if pattern is not None:
        return re.compile(pattern)
    if isinstance(topics, str):
        return [topics]
    names = list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise IllegalArgumentException(
                "Topic collection to subscribe to cannot contain null or empty topic"
            )
    return names


class _Callables(ConsumerRebalanceListener):
    """Three callables as a listener."""

    def __init__(self, on_assign: Told | None, on_revoke: Told | None, on_lost: Told | None) -> None:
        self._on_assign = on_assign
        self._on_revoke = on_revoke
        self._on_lost = on_lost

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        return None if self._on_assign is None else self._on_assign(partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Any:
        return None if self._on_revoke is None else self._on_revoke(partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Any:
        if self._on_lost is None:
            return self.on_partitions_revoked(partitions)
        return self._on_lost(partitions)


def listener(
    given: Any, on_assign: Told | None, on_revoke: Told | None, on_lost: Told | None
) -> ConsumerRebalanceListener | None:
    """Who is told about partitions; an object with the methods of a listener, under Python's or Java's names, is one."""
    callables = (on_assign, on_revoke, on_lost)
    if given is None:
        return _Callables(*callables) if any(callables) else None
    if any(callables):
        raise IllegalArgumentException("give a listener, or on_assign, on_revoke and on_lost: not both")
    if isinstance(given, ConsumerRebalanceListener):
        return given
    methods = [getattr(given, name, None) or getattr(given, camel, None) for name, camel in _CAMEL.items()]
    if not any(methods):
        raise IllegalArgumentException(f"{given!r} is no listener: it has none of {', '.join(_CAMEL)}")
    return _Callables(*methods)
