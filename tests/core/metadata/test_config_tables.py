"""Our tables of settings must be Kafka's, row by row, and read every value as Kafka does.

Method: a small program prints the definitions Kafka's own classes hold, and what those classes make of a value; both are
compared with our rows for every setting. What is meant to differ is listed here.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from semel.core.metadata.broker_configs import BROKER_CONFIGS, broker_key, broker_synonyms
from semel.core.metadata.config_types import ConfigKey, ConfigType
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.errors import ConfigError
from semel.peers.kafka import KafkaHome

PROGRAM: Final = str(Path(__file__).parents[2] / "java" / "ConfigTables.java")
OUR_DEFAULTS: Final = {
    "node.id": "1",  # Kafka demands the first three.
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092",  # Kafka listens on every interface.
    "log.dir": "data",  # Kafka writes to the machine's temporary directory.
}
FREE_HERE: Final = {"controller.quorum.bootstrap.servers", "controller.quorum.voters"}  # No controllers here.
PROBES: Final = (
    "",
    "0",
    "1",
    "-1",
    "-2",
    "5",
    "100",
    "1048576",
    "2147483648",
    "0.3",
    "1e9",
    "true",
    "x",
    "a,b",
    "a,a",
)
WORDS: Final = (
    "delete",
    "compact,delete",
    "gzip",
    "LogAppendTime",
    "0:1,1:2",
    "*",
    "SSL",
    "Required",
    "none",
    "broker",
)


def ours(scope: str) -> dict[str, ConfigKey]:
    return dict(TOPIC_CONFIGS if scope == "topic" else BROKER_CONFIGS)


@pytest.mark.java
def test_every_row_is_kafkas(kafka_home: KafkaHome) -> None:
    rows: list[dict[str, Any]] = [json.loads(line) for line in kafka_home.run(PROGRAM).splitlines()]
    for scope in ("topic", "broker"):
        theirs = {row["name"]: row for row in rows if row["scope"] == scope}
        assert sorted(ours(scope)) == sorted(theirs)
        for name, key in ours(scope).items():
            row = theirs[name]
            expected = (
                row["type"],
                OUR_DEFAULTS.get(name, row["default"]),
                row["importance"],
                row["internal"],
            )
            assert (key.type.name, key.default, key.importance.value, key.internal) == expected, name
            if scope == "topic":
                assert list(key.synonyms) == row["synonyms"], name
            else:
                assert key.update.value == row["mode"], name
                assert set(broker_synonyms(name)) == {name, *row["synonyms"]}, name


@pytest.mark.java
def test_every_value_is_read_as_kafka_reads_it(kafka_home: KafkaHome) -> None:
    probes = [
        (scope, key, content)
        for scope in ("topic", "broker")
        for key in ours(scope).values()
        if key.type is not ConfigType.CLASS and key.name not in FREE_HERE  # Kafka looks for the class.
        for content in (*PROBES, *(() if isinstance(key.default_value, int) else WORDS))
    ]
    asked = "".join(f"{scope}\t{key.name}\t{content}\n" for scope, key, content in probes)
    answers = kafka_home.run(PROGRAM, "probe", stdin=asked).splitlines()
    differences = [
        (key.name, content, answer, mine)
        for (_, key, content), answer in zip(probes, answers, strict=True)
        if (mine := read(key, content)) != answer
    ]
    assert differences == []


def read(key: ConfigKey, content: str) -> str:
    """What we make of a value, in the program's words."""
    try:
        value = key.parse(content)
    except ConfigError as refused:
        return f"refused\t{refused}"
    return f"ok\t{'[hidden]' if key.sensitive else key.text(value)}"


def test_every_default_may_be() -> None:
    for key in (*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()):
        if key.default is not None:
            assert key.text(key.default_value) == key.default, key.name


def test_a_topics_synonyms_are_settings_of_the_broker() -> None:
    for key in TOPIC_CONFIGS.values():
        assert set(key.synonyms) <= set(BROKER_CONFIGS), key.name


def test_what_semel_acts_on_is_documented_in_one_sentence() -> None:
    documented = [key for key in (*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()) if key.documentation]
    assert {"retention.ms", "cleanup.policy", "num.partitions", "listeners"} <= {
        key.name for key in documented
    }
    for key in documented:
        assert key.documentation is not None
        assert key.documentation.endswith("."), key.name
        assert "\n" not in key.documentation, key.name


def test_a_listeners_own_settings_are_known_under_its_name() -> None:
    own = broker_key("listener.name.internal.ssl.client.auth")
    assert own is not None
    assert own.type is ConfigType.STRING
    assert broker_synonyms(own.name) == ("listener.name.internal.ssl.client.auth", "ssl.client.auth")
    for_mechanism = broker_key("listener.name.internal.plain.sasl.jaas.config")
    assert for_mechanism is not None
    assert for_mechanism.sensitive
    assert broker_synonyms(for_mechanism.name)[1] == "sasl.jaas.config"
    assert broker_key("listener.name.internal.colour") is None
    assert broker_key("listener.name") is None
