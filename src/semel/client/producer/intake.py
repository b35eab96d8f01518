"""Records as an application gives them, made ready for the outbox: serialized, checked, given a partition.

Role.   `Intake.offer` takes a record if it can be taken at once, on the caller's thread. A record that must wait for its topic
        or for memory comes back as `Held`, to be offered again with `place`.
Flow.   Both producers, blocking and awaitable, call it; how to wait is theirs.
Rules.  * A partition that is named wins; else the key decides, by the Java client's hash; else the topic's sticky partition.
        * An argument that cannot be in a record is refused at once, by its name. Only whole numbers, bytes and text that UTF-8
          can write get into a batch. A record above `max.request.size` or `buffer.memory` is refused too.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from semel.client import arguments
from semel.client.partitioner import murmur2
from semel.client.producer.future import Callback, SendFuture
from semel.client.producer.outbox import Outbox
from semel.client.producer.topics import KnownTopic, Topics
from semel.client.serializers import Serializer, of_topic, plain, raw
from semel.client.settings import ProducerConfig
from semel.core.client.accumulator import Headers, record_size
from semel.core.records.batch import HEADER_SIZE
from semel.exceptions import (
    ConfigException,
    IllegalArgumentException,
    RecordTooLargeException,
    SerializationException,
)
from semel.words import kind, shown

HeaderValue: TypeAlias = bytes | bytearray | memoryview | None
GivenHeaders: TypeAlias = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]] | None
Timestamp: TypeAlias = int | datetime | None
Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""(topic, key, value, number of partitions) -> partition; key and value as they are sent."""

_POSITIVE: Final = 0x7FFFFFFF
_HASHES_MAX: Final = 10_000
_INT32_MAX: Final = arguments.INT32_MAX
_ROUND_ROBIN: Final = ("RoundRobinPartitioner", "org.apache.kafka.clients.producer.RoundRobinPartitioner")


class Held:
    """A record that could not be taken at once."""

    __slots__ = (
        "callback",
        "headers",
        "key",
        "opening",
        "partition",
        "size_bytes",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
        callback: Callback | None,
        opening: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms
        self.headers = headers
        self.callback = callback
        self.opening = opening
        self.size_bytes = record_size(key, value, headers, has_timestamp=True)


class Intake:
    """The front of one producer."""

    def __init__(self, config: ProducerConfig, topics: Topics, outbox: Outbox) -> None:
        self._topics = topics
        self._outbox = outbox
        self._key_bytes = _checked("key.serializer", config.key_serializer)
        self._value_bytes = _checked("value.serializer", config.value_serializer)
        self._size_max = min(config.max_request_size, config.buffer_memory) - HEADER_SIZE
        self._config = config
        self._ignores_keys = config.partitioner_ignore_keys
        self.partitioner = _partitioner(config.partitioner_class)
        self._hashes: dict[bytes, int] = {}

    def offer(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: Timestamp,
        headers: GivenHeaders,
        callback: Callback | None,
    ) -> SendFuture | Held:
        """Take a record if it can be taken at once."""
        opening = self._outbox.openings
        if type(topic) is not str:
            topic = arguments.topic(topic)
        key_bytes = None if key is None else self._key_bytes(key, topic)
        value_bytes = None if value is None else self._value_bytes(value, topic)
        if timestamp is not None:
            timestamp = arguments.milliseconds(timestamp)
        pairs: Headers = () if headers is None else _pairs(headers)
        if partition is not None and (type(partition) is not int or not 0 <= partition <= _INT32_MAX):
            partition = _partition(partition)
        if callback is not None and not callable(callback):
            raise arguments.refused("callback", callback, "a callable of metadata and error, or None")
        known = self._topics.get(topic)
        if known is None or (partition is not None and partition >= known.count):
            return self._held(topic, partition, key_bytes, value_bytes, timestamp, pairs, callback, opening)
        future = self._place(known, partition, key_bytes, value_bytes, timestamp, pairs)
        if future is None:
            return self._held(topic, partition, key_bytes, value_bytes, timestamp, pairs, callback, opening)
        if callback is not None:
            future.add_callback(callback)
        return future

    def place(self, held: Held, known: KnownTopic) -> SendFuture | None:
        """Take a record now that its topic is known, or None while there is no room for it."""
        future = self._place(
            known, held.partition, held.key, held.value, held.timestamp_ms, held.headers, held.opening
        )
        if future is not None and held.callback is not None:
            future.add_callback(held.callback)
        return future

    def _place(
        self,
        known: KnownTopic,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
        opening: int | None = None,
    ) -> SendFuture | None:
        size = (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size = record_size(key, value, headers, has_timestamp=True)
        if size > self._size_max:
            raise self._too_large(known.name, size)
        if partition is None:
            if self.partitioner is not None:
                partition = self._asked(self.partitioner, known, key, value)
            elif key is not None and not self._ignores_keys:
                hashed = self._hashes.get(key)
                if hashed is None:
                    hashed = self._hash(key)
                partition = hashed % known.count
        return self._outbox.append(known, partition, key, value, timestamp_ms, headers, opening)

    def _asked(
        self, partitioner: Partitioner, known: KnownTopic, key: bytes | None, value: bytes | None
    ) -> int:
        """The partition chosen by the application's partitioner, if there is such a partition."""
        chosen: object = partitioner(known.name, key, value, known.count)
        where = "partitioner.class: partition"
        index = arguments.whole(where, chosen, f"a whole number below {known.count}, from 0 on")
        if not 0 <= index < known.count:
            raise IllegalArgumentException(
                f"partitioner.class chose partition {index} of {known.name}, which has {known.count}"
            )
        return index

    def _hash(self, key: bytes) -> int:
        if len(self._hashes) >= _HASHES_MAX:
            self._hashes.clear()
        hashed = self._hashes[key] = murmur2(key) & _POSITIVE
        return hashed

    def _held(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
        callback: Callback | None,
        opening: int,
    ) -> Held:
        held = Held(arguments.topic(topic), partition, key, value, timestamp_ms, headers, callback, opening)
        if held.size_bytes > self._size_max:
            raise self._too_large(topic, held.size_bytes)
        return held

    def _too_large(self, topic: str, size_bytes: int) -> RecordTooLargeException:
        config = self._config
        name = "max.request.size" if config.max_request_size <= config.buffer_memory else "buffer.memory"
        return RecordTooLargeException(
            f"a record for {topic} has {size_bytes} bytes, {name} allows {self._size_max}: send less at once, or set "
            f"{name} (and the topic's max.message.bytes) higher"
        )


def _checked(key: str, serializer: Serializer) -> Callable[[Any, str], bytes | None]:
    """A serializer of the application's, of a value and its topic, whose bytes are bytes."""
    argument = key.partition(".")[0]
    if serializer is plain:

        def as_it_is(value: Any, _topic: str) -> bytes:
            return value if type(value) is bytes else plain(value, argument)

        return as_it_is

    with_topic = of_topic(serializer)

    def serialized(value: Any, topic: str) -> bytes | None:
        content: object = serializer(value) if with_topic is None else with_topic(topic, argument, value)
        if content is None or type(content) is bytes:
            return content
        if isinstance(content, bytes | bytearray | memoryview):
            return raw(content)
        raise SerializationException(f"{key} gave {kind(content)} for {shown(value)}, not bytes")

    return serialized


def _partition(given: object) -> int:
    index = arguments.whole("partition", given, "a whole number from 0 on, or None", most=_INT32_MAX)
    if index < 0:
        raise IllegalArgumentException(
            f"Invalid partition: {index}. Partition number should always be non-negative or null."
        )
    return index


def _pairs(headers: object) -> Headers:
    given = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        raise arguments.refused("headers", headers, "a mapping of text to bytes, or a list of such pairs")
    return tuple(map(_pair, given))


def _pair(given: object) -> tuple[str, bytes | None]:
    """One header: text and bytes, and nothing else, because a batch with anything else could not be written."""
    if isinstance(given, tuple | list) and len(given) == 2:
        name, content = given
        if isinstance(name, str) and (content is None or isinstance(content, bytes | bytearray | memoryview)):
            if not name.isascii():
                arguments.check_utf8("headers: name", name)
            return str(name), content if content is None or type(content) is bytes else raw(content)
    raise IllegalArgumentException(
        f"headers: a header is a pair of text and bytes (or None), not {shown(given)}"
    )


def _partitioner(given: Callable[..., int] | str | None) -> Partitioner | None:
    if given is None or callable(given):
        return given
    if given in _ROUND_ROBIN:
        return RoundRobin()
    raise ConfigException(
        f"partitioner.class={given}: give a callable of topic, key, value and number of partitions, or "
        f"{_ROUND_ROBIN[0]}; without one, keys and the sticky partitioner decide"
    )


class RoundRobin:
    """Every record to the next partition, whatever its key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, _key: bytes | None, _value: bytes | None, partitions_count: int) -> int:
        return self.take(topic, 1) % partitions_count

    def take(self, topic: str, count: int) -> int:
        """The number of the first of so many records; the partition of each is its number's rest."""
        number = self._next.get(topic, 0)
        self._next[topic] = number + count
        return number
