"""Every setting that may change while the broker runs, and that Semel acts on, takes effect at once and survives.

Method: a table of all of them, each with another value and with the place that acts on it, looked at before and after the change, and
again after a restart. The table is held against the settings' own: a new one without a row here fails.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from semel.core.metadata.broker_configs import BROKER_CONFIGS, changes_while_running
from semel.core.metadata.config_types import ResourceType
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.core.records.batch import TimestampType
from semel.core.records.codecs import Compression
from semel.core.wire.messages import incremental_alter_configs
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told

Look = Callable[[Client], Any]


def log(attribute: str) -> Look:
    """What the log of a partition runs with."""
    return lambda client: getattr(client.partition("orders").log.config, attribute)


def listener(attribute: str) -> Look:
    return lambda client: getattr(_listener(client).config, attribute)


def _listener(client: Client) -> Any:
    return client.broker._listener


def cleaner(name: str) -> Look:
    return lambda client: client.broker.parts.cleaner.config().value(name)


def groups(attribute: str) -> Look:
    return lambda client: getattr(client.broker.parts.groups.settings, attribute)


BY_TOPIC: Final[dict[str, tuple[str, Look, Any]]] = {
    "cleanup.policy": ("compact", log("cleanup_compact"), True),
    "compression.type": ("zstd", log("compression_type"), Compression.ZSTD),
    "delete.retention.ms": ("11", log("delete_retention_ms"), 11),
    "file.delete.delay.ms": ("12", log("file_delete_delay_ms"), 12),
    "flush.messages": ("13", log("flush_messages"), 13),
    "flush.ms": ("14", log("flush_ms"), 14),
    "index.interval.bytes": ("15", log("index_interval_bytes"), 15),
    "internal.segment.bytes": ("1600", log("segment_bytes"), 1600),
    "max.compaction.lag.ms": ("17", log("max_compaction_lag_ms"), 17),
    "max.message.bytes": ("18", log("max_message_bytes"), 18),
    "message.timestamp.after.max.ms": ("19", log("message_timestamp_after_max_ms"), 19),
    "message.timestamp.before.max.ms": ("20", log("message_timestamp_before_max_ms"), 20),
    "message.timestamp.type": ("LogAppendTime", log("message_timestamp_type"), TimestampType.LOG_APPEND_TIME),
    "min.cleanable.dirty.ratio": ("0.25", log("min_cleanable_dirty_ratio"), 0.25),
    "min.compaction.lag.ms": ("22", log("min_compaction_lag_ms"), 22),
    "retention.bytes": ("23", log("retention_bytes"), 23),
    "retention.ms": ("24", log("retention_ms"), 24),
    "segment.bytes": ("2500000", log("segment_bytes"), 2_500_000),
    "segment.index.bytes": ("26", log("segment_index_bytes"), 26),
    "segment.jitter.ms": ("27", log("segment_jitter_ms"), 27),
    "segment.ms": ("28", log("segment_ms"), 28),
}
LEVELS: Final = {"compression.gzip.level": "7", "compression.lz4.level": "11", "compression.zstd.level": "12"}
BY_BROKER: Final[dict[str, tuple[str, Look, Any]]] = {
    "group.consumer.assignment.interval.ms": ("31", groups("group_consumer_assignment_interval_ms"), 31),
    "log.cleaner.backoff.ms": ("32", cleaner("log.cleaner.backoff.ms"), 32),
    "log.cleaner.dedupe.buffer.size": ("3300000", cleaner("log.cleaner.dedupe.buffer.size"), 3_300_000),
    "log.cleaner.io.buffer.load.factor": ("0.5", cleaner("log.cleaner.io.buffer.load.factor"), 0.5),
    "log.cleaner.io.buffer.size": ("35000", cleaner("log.cleaner.io.buffer.size"), 35_000),
    "log.cleaner.io.max.bytes.per.second": ("36.5", cleaner("log.cleaner.io.max.bytes.per.second"), 36.5),
    "log.cleaner.threads": ("2", cleaner("log.cleaner.threads"), 2),
    "max.connections": ("38", listener("connections_max"), 38),
    "max.connections.per.ip": ("39", listener("connections_per_ip_max"), 39),
    "max.connections.per.ip.overrides": (
        "192.0.2.1:40",
        listener("connections_per_ip_overrides"),
        {"192.0.2.1": 40},
    ),
    "transaction.partition.verification.enable": (
        "false",
        lambda client: client.partition("orders").log.producers.verification_required,
        False,
    ),
    "producer.id.expiration.ms": (
        "41",
        lambda client: client.partition("orders").log.producers.producer_id_expiration_ms,
        41,
    ),
}


async def change(client: Client, kind: int, name: str, settings: dict[str, str | None]) -> None:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=0 if value is not None else 1, value=value
                    )
                    for key, value in settings.items()
                ],
            )
        ]
    )
    [answer] = (await client.ask(request)).responses
    assert answer.error_code == ErrorCode.NONE, (settings, answer.error_message)


def tried(kind: int, resource: str, settings: dict[str, str], look: Look, expected: Any) -> None:
    """Change it, look, put it back, look, change it again, and look after a restart."""

    async def make(client: Client) -> None:
        await client.create("orders")
        before = look(client)
        assert before != expected
        await change(client, kind, resource, dict(settings))
        assert look(client) == expected
        await change(client, kind, resource, dict.fromkeys(settings))
        assert look(client) == before
        await change(client, kind, resource, dict(settings))

    async def again(client: Client) -> None:
        assert look(client) == expected

    told(make, again)


@pytest.mark.parametrize("name", sorted(BY_TOPIC))
def test_a_topics_setting(name: str) -> None:
    value, look, expected = BY_TOPIC[name]
    tried(ResourceType.TOPIC, "orders", {name: value}, look, expected)


@pytest.mark.parametrize("name", sorted(LEVELS))
def test_how_hard_a_topic_is_compressed(name: str) -> None:
    settings = {"compression.type": name.split(".")[1], name: LEVELS[name]}
    tried(ResourceType.TOPIC, "orders", settings, log("compression_level"), int(LEVELS[name]))


def behind() -> dict[str, tuple[str, Look, Any]]:
    """The broker's settings that stand behind a topic's, with the topic's row."""
    return {
        TOPIC_CONFIGS[name].synonyms[0]: row for name, row in BY_TOPIC.items() if TOPIC_CONFIGS[name].synonyms
    }


@pytest.mark.parametrize("every", [True, False], ids=["of every broker", "of one broker"])
@pytest.mark.parametrize("name", sorted(behind() | BY_BROKER))
def test_a_brokers_setting(name: str, every: bool) -> None:
    value, look, expected = (behind() | BY_BROKER)[name]
    tried(ResourceType.BROKER, "" if every else "1", {name: value}, look, expected)


OF_MEMBERS = {"min.insync.replicas", "num.replica.fetchers", "unclean.leader.election.enable"}
"""Leaders and followers act on these: `test_acknowledging` and `replicas/`."""


def test_the_tables_have_every_setting_that_is_acted_on() -> None:
    topics = {name for name, key in TOPIC_CONFIGS.items() if key.documentation is not None}
    assert topics == BY_TOPIC.keys() | LEVELS.keys()
    brokers = {
        name
        for name, key in BROKER_CONFIGS.items()
        if key.documentation is not None and changes_while_running(key)
    }
    assert brokers == (behind() | BY_BROKER).keys() | LEVELS.keys() | OF_MEMBERS
