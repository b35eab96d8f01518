"""A key of Kafka's means the same everywhere: to the client, on the command line, and as an option in Spark.

Method: a table of the keys the mission's checklist names in its section on settings, each with a value a user gives it. Each goes
unchanged to a real producer or consumer, to `semel produce -X` or `semel consume -X` on a real broker, and, behind `kafka.`, to the
options of the source or the sink. The table is held against the checklist's own text.
"""

import re
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

import checklist
from semel import Consumer, Producer
from semel.cli.main import cli
from semel.client.config_keys import ALL_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from semel.spark.sink.dropin.sink_options import SinkOptions
from semel.spark.source.options import SourceOptions
from support.spark.spark_kit import new_topic

_JAVA: Final = "org.apache.kafka.common.serialization."
OF_PRODUCERS: Final = {
    "acks": "all",
    "batch.size": "32768",
    "buffer.memory": "67108864",
    "compression.type": "lz4",
    "delivery.timeout.ms": "60000",
    "enable.idempotence": "true",
    "key.serializer": f"{_JAVA}StringSerializer",
    "linger.ms": "10",
    "max.block.ms": "30000",
    "max.in.flight.requests.per.connection": "1",
    "retries": "3",
    "transactional.id": "first-transactional",
    "value.serializer": f"{_JAVA}StringSerializer",
}
OF_CONSUMERS: Final = {
    "auto.commit.interval.ms": "1000",
    "enable.auto.commit": "false",
    "group.id": "group0323",
    "isolation.level": "read_uncommitted",
    "key.deserializer": f"{_JAVA}StringDeserializer",
    "session.timeout.ms": "30000",
    "value.deserializer": f"{_JAVA}StringDeserializer",
}
IN_SPARK: Final = {
    "key.serializer": f"{_JAVA}ByteArraySerializer",
    "value.serializer": f"{_JAVA}ByteArraySerializer",
    "key.deserializer": f"{_JAVA}ByteArrayDeserializer",
    "value.deserializer": f"{_JAVA}ByteArrayDeserializer",
}
"""Columns are bytes there; text is made of them, and they of text, by the data frame's own functions."""


def test_the_table_has_every_key_of_the_section() -> None:
    rows = (Path(checklist.__file__).parent / "rows.txt").read_text(encoding="utf-8")
    section = [line for line in rows.splitlines() if line.startswith("CFG-")]
    named = set(re.findall(r"[a-z]+(?:\.[a-z]+)+", " ".join(section)))
    assert named & set(ALL_KEYS) <= {*OF_PRODUCERS, *OF_CONSUMERS, "bootstrap.servers"}


@pytest.mark.mission("CFG-29")
def test_a_key_is_taken_unchanged_everywhere(spark_bootstrap: str) -> None:
    topic = new_topic(spark_bootstrap, partitions=1)
    reached = {"bootstrap.servers": spark_bootstrap}
    for name, value in OF_PRODUCERS.items():
        with Producer({**reached, name: value}) as producer:
            assert name in PRODUCER_KEYS
            assert str(producer.config[name]).lower() in (value.lower(), "-1"), name
        ran = CliRunner().invoke(
            cli, ["produce", topic, "--bootstrap", spark_bootstrap, "-X", f"{name}={value}"], input="a\n"
        )
        assert ran.exit_code == 0, f"{name}: {ran.output}"
        options = SinkOptions.of(
            {f"kafka.{name}": IN_SPARK.get(name, value), "topic": topic, **prefixed(reached)}
        )
        assert options.client["bootstrap.servers"] == spark_bootstrap
    for name, value in OF_CONSUMERS.items():
        with Consumer({**reached, name: value}) as consumer:
            assert name in CONSUMER_KEYS
            assert str(consumer.config[name]).lower() == value.lower(), name
        ran = CliRunner().invoke(
            cli, ["consume", topic, "--bootstrap", spark_bootstrap, "-X", f"{name}={value}", "-n", "1"]
        )
        assert ran.exit_code == 0, f"{name}: {ran.output}"
        source = SourceOptions.of(
            {f"kafka.{name}": IN_SPARK.get(name, value), "subscribe": topic, **prefixed(reached)}
        )
        assert source.client[name] == IN_SPARK.get(name, value)


def prefixed(settings: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}
