"""What a user gives a broker must become what the broker runs with, or a message that names the way out.

Method: settings of every kind and origin, the values they come to, and every mistake with its message. A broker's defaults
must give its topics exactly the log's own defaults.
"""

import dataclasses
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.config import BrokerConfig
from semel.core.metadata.broker_configs import BROKER_CONFIGS
from semel.core.records.batch import TimestampType
from semel.core.records.codecs import Compression
from semel.errors import ConfigError
from semel.log.config import LogConfig


def test_without_settings_everything_is_kafkas_default() -> None:
    config = BrokerConfig.of({})
    assert (config.node_id, config.host, config.port, config.data_dir) == (1, "127.0.0.1", 9092, "data")
    assert (config.advertised_host, config.advertised_port) == (None, None)
    assert (config.num_partitions, config.auto_create_topics_enable, config.delete_topic_enable) == (
        1,
        True,
        True,
    )
    assert (config.message_max_bytes, config.socket_request_max_bytes) == (
        1024 * 1024 + 12,
        100 * 1024 * 1024,
    )
    assert config.value("transaction.state.log.num.partitions") == 50
    assert config.value("zookeeper.session.timeout.ms") == 18000
    assert config.log_config() == LogConfig()


def test_every_attribute_is_a_setting_of_its_type() -> None:
    config = BrokerConfig.of({})
    hints = typing.get_type_hints(BrokerConfig)
    own = {"host", "port", "advertised_host", "advertised_port", "data_dir"}
    for attribute in dataclasses.fields(config):
        if hints[attribute.name] in (int, bool, str):
            assert attribute.name in own or attribute.name.replace("_", ".") in BROKER_CONFIGS
            assert type(getattr(config, attribute.name)) is hints[attribute.name], attribute.name


def test_dots_underscores_numbers_and_texts_mean_the_same() -> None:
    for settings in ({"num.partitions": "3"}, {"num_partitions": 3}, {"num.partitions": 3}):
        assert BrokerConfig.of(settings).num_partitions == 3
    assert BrokerConfig.of({"auto_create_topics_enable": False}).auto_create_topics_enable is False


def test_the_older_name_of_the_node_is_understood() -> None:
    assert BrokerConfig.of({"broker.id": 7}).node_id == 7
    assert BrokerConfig.of({"node.id": 7}).value("broker.id") == 7
    with pytest.raises(ConfigError, match=r"node\.id=8 and broker\.id=7 name one thing"):
        BrokerConfig.of({"broker.id": 7, "node.id": 8})


@pytest.mark.parametrize(
    ("listeners", "host", "port"),
    [
        ("PLAINTEXT://127.0.0.1:0", "127.0.0.1", 0),
        ("PLAINTEXT://:9092", "", 9092),
        ("PLAINTEXT://[::1]:19092", "::1", 19092),
        ("plaintext://localhost:65535", "localhost", 65535),
        ("PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093", "0.0.0.0", 9092),
    ],
)
def test_where_to_listen(listeners: str, host: str, port: int) -> None:
    config = BrokerConfig.of({"listeners": listeners})
    assert (config.host, config.port) == (host, port)


def test_what_clients_are_told() -> None:
    config = BrokerConfig.of(
        {
            "listeners": "CLIENTS://:9092",
            "advertised.listeners": "CLIENTS://events.example:443",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT",
        }
    )
    assert (config.advertised_host, config.advertised_port) == ("events.example", 443)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num.partition": 3}, "num.partition is not a setting of a broker: did you mean num.partitions?"),
        ({"auto_create_topic_enable": 1}, "did you mean auto.create.topics.enable?"),
        ({"qqqq": 3}, "qqqq is not a setting of a broker"),
        ({"num.partitions": 0}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        (
            {"num.partitions": "few"},
            "Invalid value few for configuration num.partitions: Not a number of type INT",
        ),
        (
            {"log.retention.hours": 0},
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ({"log.roll.ms": 0}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": -1}, "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            {"retention.ms": 1, "log.retention.ms": 2},
            "log.retention.ms=2 and retention.ms=1 say different things",
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": 5, "log.cleaner.max.compaction.lag.ms": 4},
            "min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        ({"log.dirs": "a,b"}, "log.dirs=a,b: one directory is served"),
        ({"listeners": "9092"}, "expected PLAINTEXT://HOST:PORT with a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://h:65536"}, "expected PLAINTEXT://HOST:PORT with a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "expected PLAINTEXT://HOST:PORT with a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "one listener is served"),
        ({"listeners": "CONTROLLER://:9093"}, "one listener is served"),
        ({"listeners": "SSL://:9092"}, "its protocol SSL is not served"),
        ({"listeners": "INSIDE://:9092"}, "it has no security protocol"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to that; name a host"),
        ({"advertised.listeners": "PLAINTEXT://:9092"}, "clients cannot connect to that; name a host"),
        ({"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:1"}, "one listener is served"),
        ({"authorizer.class.name": "org.example.A"}, "authorizers are not served"),
        ({"remote.log.storage.system.enable": True}, "tiered storage is not served"),
        ({"process.roles": "controller"}, "this is a broker"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(settings: dict[str, str | int | bool], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.of(settings)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 2 * 3_600_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"retention.ms": "5"}, 5),  # A topic's name for the broker's default of it.
    ],
)
def test_the_finest_unit_wins(settings: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig.of(settings).log_config().retention_ms == retention_ms


def test_a_topics_own_settings_win_over_the_brokers() -> None:
    config = BrokerConfig.of(
        {
            "log.segment.bytes": 2**20,
            "message.max.bytes": 100,
            "compression.type": "zstd",
            "flush.messages": 10,
        }
    )
    broker_wide = config.log_config()
    assert (broker_wide.segment_bytes, broker_wide.max_message_bytes) == (2**20, 100)
    assert (broker_wide.compression_type, broker_wide.flush_messages) == (Compression.ZSTD, 10)
    own = config.log_config(
        {
            "max.message.bytes": "200",
            "compression.type": "producer",
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "internal.segment.bytes": "1000",
            "flush.messages": "1",
        }
    )
    assert (own.segment_bytes, own.max_message_bytes, own.flush_messages) == (1000, 200, 1)
    assert own.compression_type is None
    assert (own.cleanup_compact, own.cleanup_delete) == (True, True)
    assert own.message_timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        ({"retention.msx": "1"}, "Unknown topic config name: retention.msx, did you mean retention.ms?"),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "conflict topic config setting"),
    ],
)
def test_a_topics_mistake_is_named(own: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.of({}).log_config(own)
    assert message in str(refused.value)


def test_settings_in_force_survive_a_broker_that_contradicts_them() -> None:
    own = {"min.compaction.lag.ms": "5"}
    config = BrokerConfig.of({"log.cleaner.max.compaction.lag.ms": 4})
    with pytest.raises(ConfigError):
        config.log_config(own)
    assert config.log_config(own, checked=True) == LogConfig(min_compaction_lag_ms=5, max_compaction_lag_ms=4)


def test_what_is_changed_while_running_wins_until_it_is_taken_back() -> None:
    config = BrokerConfig.of({"log.retention.minutes": 3, "message.max.bytes": 100})
    changed = config.with_dynamic({"log.retention.ms": "7", "message.max.bytes": "200"})
    assert changed.log_config().retention_ms == 7
    assert changed.message_max_bytes == 200
    assert changed.value("log.retention.minutes") is None
    assert changed.with_dynamic({}).log_config() == config.log_config()
    with pytest.raises(ConfigError, match="cannot be changed while the broker runs"):
        config.with_dynamic({"num.partitions": "3"})
    with pytest.raises(ConfigError, match=r"log\.retention\.ms must be unlimited"):
        config.with_dynamic({"log.retention.ms": "0"})


def test_secrets_are_not_printed() -> None:
    config = BrokerConfig.of({"ssl.key.password": "open sesame"})
    assert config.value("ssl.key.password") == "open sesame"
    assert "sesame" not in repr(config)


@given(st.dictionaries(st.sampled_from(sorted(BROKER_CONFIGS)), st.text(max_size=12), max_size=3))
def test_any_settings_become_a_configuration_or_a_clear_refusal(settings: dict[str, str]) -> None:
    refusal, static = "", {}
    try:
        static = dict(BrokerConfig.of(settings).static)
    except ConfigError as refused:
        refusal = str(refused)
    named = [
        name for name in (*settings, "log.retention.ms", "log.roll", "compaction.lag") if name in refusal
    ]
    assert named or static.items() >= settings.items()
