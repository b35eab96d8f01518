"""The options of `format("semel")` for reading: those of Spark's own Kafka connector, under its names.

Role.   `SourceOptions.of` takes what a user gave to `option(…)` and gives typed values, checked; `for_batch` and `for_stream` check what
        one of the two does not allow. `client_settings` takes the `kafka.*` keys apart, for sinks too.
Flow.   `data_source` -> `SourceOptions` -> the readers, by pickle to the tasks.
Rules.  * Names are the connector's, in any case. It passes over names it does not know; here they are refused, with the right one.
        * `kafka.KEY` is a setting of our client, with Kafka's meaning. Settings Spark decides itself (`auto.offset.reset`,
          deserializers, automatic commits, interceptors) are refused, as there.
        * Nothing joins a group or commits to one: `kafka.group.id` and `groupIdPrefix` only say under which `client.id` brokers see
          the reader.
        * Unlike there, `kafka.isolation.level` is `read_committed` unless said otherwise.
        * Ours alone: `batchRows` and `batchBytes` bound what a task holds at a time, `pushFilters` lets filters decide what is fetched.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias, TypeVar

from semel.client.config_keys import ALL_KEYS, CONSUMER_KEYS
from semel.client.settings import ConsumerConfig
from semel.core.metadata.configs import nearest
from semel.exceptions import ConfigException, IllegalArgumentException
from semel.spark.source.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Bound,
    Edge,
    check_timestamp,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
)
from semel.types import TopicPartition

T = TypeVar("T")

READ_OPTIONS: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "minRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "batchRows",
    "batchBytes",
    "pushFilters",
)
"""Everything a reader takes beside `kafka.*`."""
CLIENT_PREFIX: Final = "kafka."
MIN_RECORDS_PER_PARTITION: Final = 10_000
BATCH_ROWS: Final = 200_000
BATCH_BYTES: Final = 32 * 1024 * 1024
FETCH_BYTES: Final = 16 * 1024 * 1024
"""`max.partition.fetch.bytes` of a task, which reads one partition at a time: a consumer's own 1 MiB makes small batches of rows."""
DEFAULT_CLIENT_ID: Final = "spark-semel-source"

_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_BATCH_BYTES_MAX: Final = 1 << 30
_TASKS_MAX: Final = 1_000_000
_BY_LOWER: Final = {name.lower(): name for name in READ_OPTIONS}
_MEANT: Final = {
    "topic": "subscribe",
    "topics": "subscribe",
    "pattern": "subscribePattern",
    "topicspattern": "subscribePattern",
    "partitions": "assign",
    "bootstrap": "kafka.bootstrap.servers",
    "bootstrapservers": "kafka.bootstrap.servers",
    "kafka.bootstrapservers": "kafka.bootstrap.servers",
    "brokers": "kafka.bootstrap.servers",
    "headers": "includeHeaders",
    "maxrowspertrigger": "maxOffsetsPerTrigger",
    "maxrecordspertrigger": "maxOffsetsPerTrigger",
    "offsets": "startingOffsets",
}
"""Names that users give, and the ones they mean."""
_AS_BYTES: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_SPARK_DECIDES: Final = {
    "auto.offset.reset": "set startingOffsets to earliest or latest; a query that goes on does so where it left off",
    "key.deserializer": "keys come as bytes: convert the column key, as with cast('string')",
    "value.deserializer": "values come as bytes: convert the column value, as with cast('string') or from_json",
    "enable.auto.commit": "Spark keeps the offsets in the checkpoint of the query",
    "interceptor.classes": "use operations of the data frame",
}
_DECIDED: Final = {
    "key.deserializer": _AS_BYTES,
    "value.deserializer": _AS_BYTES,
    "enable.auto.commit": "false",
}
"""Values that hold anyway, and may be given."""
_UNITS_MS: Final = {
    "": 1.0,
    "us": 0.001,
    "ms": 1.0,
    "s": 1000.0,
    "m": 60_000.0,
    "min": 60_000.0,
    "h": 3_600_000.0,
    "d": 86_400_000.0,
}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """These topics, with all their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """The topics in whose names the pattern is found."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions."""

    partitions: tuple[TopicPartition, ...]


Strategy: TypeAlias = Subscribe | SubscribePattern | Assign


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The settings of a reader."""

    strategy: Strategy
    client: Mapping[str, str]
    """Kafka's keys without `kafka.`."""
    starting: Bound | None = None
    ending: Bound | None = None
    starting_needs_match: bool = True
    """Whether a partition without a record as young as the starting time is an error; otherwise it starts at its end."""
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    min_records_per_partition: int = MIN_RECORDS_PER_PARTITION
    """Where there are many partitions with little in them, a task reads several until it has so many offsets; 0: one each."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    include_headers: bool = False
    poll_timeout_ms: int = 120_000
    """How long a task waits for records that must be there."""
    fetch_offset_num_retries: int = 3
    fetch_offset_retry_interval_ms: int = 1_000
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES
    push_filters: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """The options a user gave; raises `IllegalArgumentException` or `ConfigException` with the name, the value and the way out."""
        given = _known(options)
        found = cls(
            strategy=_strategy(given),
            client=_client(options, given),
            starting=_bound(given, "starting"),
            ending=_bound(given, "ending"),
            starting_needs_match=given.get("startingOffsetsByTimestampStrategy", _needs_match, default=True),
            fail_on_data_loss=given.get("failOnDataLoss", _boolean, default=True),
            min_partitions=given.get("minPartitions", _positive(_TASKS_MAX), default=None),
            max_records_per_partition=given.get("maxRecordsPerPartition", _positive(_LONG_MAX), default=None),
            min_records_per_partition=given.get(
                "minRecordsPerPartition", _whole(0, _LONG_MAX), default=MIN_RECORDS_PER_PARTITION
            ),
            max_offsets_per_trigger=given.get("maxOffsetsPerTrigger", _positive(_LONG_MAX), default=None),
            min_offsets_per_trigger=given.get("minOffsetsPerTrigger", _positive(_LONG_MAX), default=None),
            max_trigger_delay_ms=given.get("maxTriggerDelay", _duration_ms, default=15 * 60_000),
            include_headers=given.get("includeHeaders", _boolean, default=False),
            poll_timeout_ms=given.get("kafkaConsumer.pollTimeoutMs", _positive(_INT_MAX), default=120_000),
            fetch_offset_num_retries=given.get("fetchOffset.numRetries", _positive(_INT_MAX), default=3),
            fetch_offset_retry_interval_ms=given.get(
                "fetchOffset.retryIntervalMs", _whole(0, _INT_MAX), default=1_000
            ),
            batch_rows=given.get("batchRows", _positive(_INT_MAX), default=BATCH_ROWS),
            batch_bytes=given.get("batchBytes", _positive(_BATCH_BYTES_MAX), default=BATCH_BYTES),
            push_filters=given.get("pushFilters", _boolean, default=False),
        )
        low, high = found.min_offsets_per_trigger, found.max_offsets_per_trigger
        if low is not None and high is not None and low > high:
            raise IllegalArgumentException(
                f"minOffsetsPerTrigger={low} is higher than maxOffsetsPerTrigger={high}: lower the first or raise the second"
            )
        return found

    def for_batch(self) -> Self:
        """The same for a batch query, which reads from earliest to latest unless it is told otherwise."""
        starting, ending = self.starting or Edge.EARLIEST, self.ending or Edge.LATEST
        _check_no_edge("startingOffsets", starting, LATEST_OFFSET, "latest", "a batch would be empty")
        _check_no_edge("endingOffsets", ending, EARLIEST_OFFSET, "earliest", "a batch would be empty")
        _check_order(starting, ending)
        return replace(self, starting=starting, ending=ending)

    def for_stream(self) -> Self:
        """The same for a streaming query, which starts at latest unless it is told otherwise, and has no end."""
        if self.ending is not None:
            raise IllegalArgumentException(
                "endingOffsets, endingOffsetsByTimestamp and endingTimestamp are not valid in streaming queries: leave them out, "
                "or read with spark.read"
            )
        return replace(self, starting=self.starting or Edge.LATEST)

    def client_config(self) -> ConsumerConfig:
        """The client's settings, typed."""
        return ConsumerConfig.of(self.client)


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The `kafka.*` options, without the prefix."""
    return {
        name.lower().removeprefix(CLIENT_PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(CLIENT_PREFIX)
    }


class _Given:
    """Options by their right names, read once each."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        return self._values[name].strip()

    def get(self, name: str, read: Callable[[str, str], T], *, default: T) -> T:
        return read(name, self.text(name)) if name in self._values else default


def _known(options: Mapping[str, str]) -> _Given:
    values: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in _BY_LOWER:
            values[_BY_LOWER[lower]] = value
        elif not _is_clients(lower):
            raise IllegalArgumentException(_unknown(name))
    return _Given(values)


def _is_clients(lower: str) -> bool:
    """Whether it is the client's to accept or to refuse."""
    key = lower.removeprefix(CLIENT_PREFIX).replace("_", ".")
    return lower.startswith(CLIENT_PREFIX) and (
        key in ALL_KEYS or key.startswith(("ssl.", "sasl.", "security."))
    )


def _unknown(name: str) -> str:
    lower = name.lower()
    if lower == "path":
        return (
            'load() takes no path for format("semel"): name topics with subscribe, subscribePattern or assign'
        )
    dotted = lower.replace("_", ".")
    meant = _MEANT.get(lower) or (CLIENT_PREFIX + dotted if dotted in CONSUMER_KEYS else None)
    if meant is None:
        near = nearest(lower, [*_BY_LOWER, *(CLIENT_PREFIX + key for key in CONSUMER_KEYS)])
        meant = None if near is None else _BY_LOWER.get(near, near)
    hint = f"did you mean {meant}?" if meant else f"there are {', '.join(READ_OPTIONS)} and kafka.*"
    return f'{name} is not an option for reading format("semel"): {hint}'


def _strategy(given: _Given) -> Strategy:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if len(names) != 1:
        what = (
            f"{' and '.join(names)} exclude each other: keep one" if names else "name what to read with one"
        )
        raise IllegalArgumentException(f"{what} of the options subscribe, subscribePattern and assign")
    name = names[0]
    content = given.text(name)
    match name:
        case "subscribe":
            topics = tuple(dict.fromkeys(one.strip() for one in content.split(",") if one.strip()))
            if not topics:
                raise IllegalArgumentException(
                    f"subscribe={content!r} names no topic: use 'orders' or 'orders,payments'"
                )
            return Subscribe(topics)
        case "subscribePattern":
            if not content:
                raise IllegalArgumentException(
                    "subscribePattern is empty: use a regular expression, as orders-.*"
                )
            try:
                re.compile(content)
            except re.error as error:
                raise IllegalArgumentException(
                    f"subscribePattern={content!r} is not a regular expression: {error}"
                ) from None
            return SubscribePattern(content)
        case _:
            return Assign(parse_partitions(name, content))


def _client(options: Mapping[str, str], given: _Given) -> dict[str, str]:
    settings = client_settings(options)
    for name, way_out in _SPARK_DECIDES.items():
        if name in settings and settings[name].strip() != _DECIDED.get(name):
            raise IllegalArgumentException(f"kafka.{name}={settings[name]} is not supported: {way_out}")
    if not settings.get("bootstrap.servers", "").strip():
        raise IllegalArgumentException(
            "the option kafka.bootstrap.servers must name the brokers, as localhost:9092"
        )
    prefix = given.get("groupIdPrefix", lambda _, content: content, default="")
    settings.setdefault("client.id", settings.get("group.id") or prefix or DEFAULT_CLIENT_ID)
    try:
        config = ConsumerConfig.of(
            settings
        )  # Settings that cannot be are refused here, before anything is read.
    except ConfigException as error:
        raise IllegalArgumentException(f"a kafka.* option cannot be: {error}") from None
    settings.setdefault("max.partition.fetch.bytes", str(min(FETCH_BYTES, config.fetch_max_bytes)))
    return settings


def _bound(given: _Given, side: str) -> Bound | None:
    """The connector's order: one time for all, times, offsets."""
    one_time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if one_time in given:
        timestamp_ms = _whole(0, _LONG_MAX)(one_time, given.text(one_time))
        check_timestamp(one_time, timestamp_ms)
        return AtTimestamp(timestamp_ms)
    if times in given:
        return parse_timestamps(times, given.text(times))
    if offsets not in given:
        return None
    content = given.text(offsets)
    match content.lower():
        case "earliest":
            return Edge.EARLIEST
        case "latest":
            return Edge.LATEST
        case _:
            return parse_offsets(offsets, content)


def _check_no_edge(name: str, bound: Bound, offset: int, word: str, why: str) -> None:
    if isinstance(bound, Edge) and bound.value == offset:
        raise IllegalArgumentException(f"{name} can't be {word} for batch queries: {why}")
    if isinstance(bound, AtOffsets):
        for where, wanted in bound.offsets.items():
            if wanted == offset:
                raise IllegalArgumentException(
                    f"{name} of {where} can't be {word} ({offset}) for batch queries: {why}"
                )


def _check_order(starting: Bound, ending: Bound) -> None:
    """Two ends of the same kind must fit each other before any broker is asked."""
    match starting, ending:
        case AtOffsets(begins), AtOffsets(ends):
            what = "offset"
        case AtTimestamps(begins), AtTimestamps(ends):
            what = "time"
        case _:
            return
    if set(begins) != set(ends):
        one_sided = ", ".join(map(str, sorted(set(begins) ^ set(ends))[:10]))
        raise IllegalArgumentException(
            f"the start and the end must name the same partitions; only one of them names {one_sided}"
        )
    for where, begin in begins.items():
        if begin > ends[where] >= 0:
            raise IllegalArgumentException(
                f"the starting {what} {begin} of {where} is greater than the ending {what} {ends[where]}"
            )


# Values


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(name: str, content: str) -> int:
        try:
            value = int(content)
        except ValueError:
            raise IllegalArgumentException(f"{name}={content!r} is not a whole number") from None
        if not low <= value <= high:
            raise IllegalArgumentException(f"{name}={value} is out of range: use {low} to {high}")
        return value

    return read


def _positive(high: int) -> Callable[[str, str], int]:
    return _whole(1, high)


def _boolean(name: str, content: str) -> bool:
    if content.lower() not in ("true", "false"):
        raise IllegalArgumentException(f"{name}={content!r}: use true or false")
    return content.lower() == "true"


def _needs_match(name: str, content: str) -> bool:
    if content.lower() not in ("error", "latest"):
        raise IllegalArgumentException(f"{name}={content!r}: use error or latest")
    return content.lower() == "error"


def _duration_ms(name: str, content: str) -> int:
    """Spark's times: 15m, 30s, 500ms, 1h; a number alone is milliseconds."""
    found = _DURATION.fullmatch(content.lower())
    unit = _UNITS_MS.get(found[2]) if found else None
    if found is None or unit is None:
        raise IllegalArgumentException(f"{name}={content!r} is not a time: use 15m, 30s, 500ms, 1h or 1d")
    return int(int(found[1]) * unit)
