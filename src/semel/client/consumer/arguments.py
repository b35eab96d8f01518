"""Arguments of users in the shapes they like, made into the consumer's own.

Role.   Shared by the blocking and the asynchronous face: offsets, times, subscriptions, listeners; and what is the same for every
        client, from `semel.client.arguments`.
Rules.  `(topic, partition)` stands for a `TopicPartition`, a number for an `OffsetAndMetadata`, three callables for a listener.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from semel.client.arguments import (
    count_or_none,
    function_or_none,
    listed,
    mapped,
    milliseconds,
    partition,
    partitions,
    position,
    positions,
    refused,
    text,
    topic,
    wait_ms,
)
from semel.client.values.consuming import (
    CommitCallback,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    SubscriptionPattern,
    Told,
)
from semel.exceptions import IllegalArgumentException
from semel.types import TopicPartition
from semel.words import shown

__all__ = [
    "count_or_none",
    "listener",
    "offsets",
    "partition",
    "partitions",
    "reason",
    "subscription",
    "target",
    "times",
    "told_of_commits",
    "topic",
    "wait_ms",
]

_CAMEL: Final = {
    "on_partitions_assigned": "onPartitionsAssigned",
    "on_partitions_revoked": "onPartitionsRevoked",
    "on_partitions_lost": "onPartitionsLost",
}


def offsets(given: object) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """Positions to store."""
    if given is None:
        return None
    return {where: OffsetAndMetadata(*at) for where, at in positions(given).items()}


def target(given: object) -> OffsetAndMetadata:
    """Where to go on."""
    found = position(given, "offset")
    return OffsetAndMetadata(*found)


def times(given: object) -> dict[TopicPartition, int]:
    """Times to look for, in milliseconds, by partition."""
    accepted = "a mapping of partitions to times"
    found: dict[TopicPartition, int] = {}
    for where, at in mapped("timestamps", given, accepted).items():
        place = partition(where, "timestamps")
        if type(at) is int and at < 0:
            raise IllegalArgumentException(
                f"The target time for partition {place} is {at}. The target time cannot be negative."
            )
        found[place] = milliseconds(at, f"timestamps[{place}]")
    return found


def subscription(topics: Any, pattern: Any) -> list[str] | re.Pattern[str] | SubscriptionPattern:
    """A subscription: names, or a pattern."""
    if isinstance(topics, re.Pattern) and pattern is None:
        return _compiled(topics)
    if isinstance(topics, SubscriptionPattern) and pattern is None:
        text("topics: pattern", topics.pattern, "a regular expression as text")
        return topics
    if (topics is None) == (pattern is None):
        raise IllegalArgumentException("subscribe to topics or to a pattern: exactly one of the two")
    if pattern is not None:
        return _compiled(pattern)
    names = (
        [topics]
        if isinstance(topics, str)
        else listed("topics", topics, "a topic's name, or a list of names")
    )
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise IllegalArgumentException(
                f"Topic collection to subscribe to cannot contain null or empty topic: {shown(name)} is not a name"
            )
    return [text("topics", name, "names of topics") for name in names]


def _compiled(pattern: Any) -> re.Pattern[str]:
    if not isinstance(pattern, str | re.Pattern) or isinstance(getattr(pattern, "pattern", ""), bytes):
        raise refused("pattern", pattern, "a regular expression of text")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise IllegalArgumentException(
            f"pattern={shown(pattern)} is not a regular expression: {error}"
        ) from error


def told_of_commits(given: CommitCallback | None) -> CommitCallback | None:
    """The callback for commits."""
    return function_or_none(given, "callback", "offsets and error")


def reason(given: str | None) -> str | None:
    """Why something is asked for, in the words of the user's."""
    return None if given is None else text("reason", given, "text, or None", may_be_empty=True)


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
    """The listener for partitions; an object with its methods, under Python's or Java's names, is one."""
    callables = (on_assign, on_revoke, on_lost)
    for name, one in zip(("on_assign", "on_revoke", "on_lost"), callables, strict=True):
        function_or_none(one, name, "partitions")
    if given is None:
        return _Callables(*callables) if any(callables) else None
    if any(callables):
        raise IllegalArgumentException("give a listener, or on_assign, on_revoke and on_lost: not both")
    if isinstance(given, ConsumerRebalanceListener):
        return given
    methods = [getattr(given, name, None) or getattr(given, camel, None) for name, camel in _CAMEL.items()]
    if not any(methods):
        raise IllegalArgumentException(
            f"{shown(given)} is not a listener: it has none of {', '.join(_CAMEL)}"
        )
    return _Callables(*methods)
