"""The keys the mission's texts name (CFG rows): each is taken under that name by the client, by commands and by Spark's options.

Method: one table of keys with the values the texts give them. The client shows what it made of each; commands write and read with it;
the options of Spark's source and sink hand it on. What a source or sink decides by itself may be said with the value that holds: bytes
for keys and values there, `false` for automatic commits; `kafka.transactional.id` is the name of the sink.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from click.testing import CliRunner

from semel import Admin, Broker, ConfigResource, ConfigResourceType, NewTopic
from semel.cli.main import cli
from semel.client.settings import ConsumerConfig, ProducerConfig
from semel.spark.sink.dropin.sink_options import SinkOptions
from semel.spark.source.options import SourceOptions

_CLASSES: Final = "org.apache.kafka.common.serialization."
_SERIALIZER, _DESERIALIZER = f"{_CLASSES}StringSerializer", f"{_CLASSES}StringDeserializer"


class Key(NamedTuple):
    """A key with a text's value; what the client shows of it; what Spark's options take where that differs."""

    name: str
    value: str
    shown: object
    for_spark: str | None = None


PRODUCER: Final = (
    Key("enable.idempotence", "true", True),
    Key("retries", "3", 3),
    Key("acks", "all", "-1"),
    Key("max.in.flight.requests.per.connection", "5", 5),
    Key("transactional.id", "first-transactional", "first-transactional"),
    Key("key.serializer", _SERIALIZER, _SERIALIZER, f"{_CLASSES}ByteArraySerializer"),
    Key("value.serializer", _SERIALIZER, _SERIALIZER, f"{_CLASSES}ByteArraySerializer"),
    Key("linger.ms", "10", 10),
    Key("buffer.memory", "67108864", 67108864),
    Key("batch.size", "32768", 32768),
    Key("compression.type", "lz4", "lz4"),
)
CONSUMER: Final = (
    Key("group.id", "group0323", "group0323"),
    Key("isolation.level", "read_committed", "read_committed"),
    Key("enable.auto.commit", "false", False),
    Key("auto.commit.interval.ms", "1000", 1000),
    Key("session.timeout.ms", "30000", 30000),
    Key("key.deserializer", _DESERIALIZER, _DESERIALIZER, f"{_CLASSES}ByteArrayDeserializer"),
    Key("value.deserializer", _DESERIALIZER, _DESERIALIZER, f"{_CLASSES}ByteArrayDeserializer"),
)
SERVERS: Final = {"bootstrap.servers": "localhost:9092"}
DECIDED_BY_THE_SINK: Final = {
    "enable.idempotence",
    "acks",
    "transactional.id",
    "key.serializer",
    "value.serializer",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.mission("CFG-29")
@pytest.mark.parametrize("key", PRODUCER, ids=lambda key: key.name)
def test_a_producers_key(key: Key) -> None:
    for settings in ({key.name: key.value}, {key.name.replace(".", "_"): key.value}):
        assert ProducerConfig.of({**SERVERS, **settings}).effective()[key.name] == key.shown
    sink = SinkOptions.of({"kafka.bootstrap.servers": "b:1", f"kafka.{key.name}": key.for_spark or key.value})
    if key.name == "transactional.id":
        assert sink.sink_name == key.value
    elif key.name not in DECIDED_BY_THE_SINK:
        assert sink.producer_config("id").effective()[key.name] == key.shown


@pytest.mark.mission("CFG-29")
@pytest.mark.parametrize("key", CONSUMER, ids=lambda key: key.name)
def test_a_consumers_key(key: Key) -> None:
    together = {"group.id": "g", key.name: key.value}
    for settings in (together, {name.replace(".", "_"): value for name, value in together.items()}):
        assert ConsumerConfig.of({**SERVERS, **settings}).effective()[key.name] == key.shown
    given = key.for_spark or key.value
    source = SourceOptions.of(
        {
            "kafka.bootstrap.servers": "b:1",
            "subscribe": "t",
            "kafka.group.id": "g",
            f"kafka.{key.name}": given,
        }
    )
    assert source.client[key.name] == given


@pytest.mark.mission("CFG-29")
def test_commands_write_and_read_with_all_of_them(broker: Broker) -> None:
    def run(*arguments: str, stdin: str | None = None, keys: tuple[Key, ...] = ()) -> str:
        settings = [part for key in keys for part in ("-X", f"{key.name}={key.value}")]
        done = CliRunner().invoke(cli, [*arguments, "-b", broker.bootstrap, *settings], input=stdin)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    run("topics", "create", "bought")
    assert "1 record stored" in run("produce", "bought", "--key-separator", ":", stdin="k:v\n", keys=PRODUCER)
    assert run("consume", "bought", keys=CONSUMER) == "v\n"
    for name in (
        "enable.idempotence",
        "isolation.level",
        "group.id",
    ):  # A command that has no use for a key takes it, too.
        value = next(key.value for key in (*PRODUCER, *CONSUMER) if key.name == name)
        assert "bought" in run("topics", "list", keys=(Key(name, value, None),))


@pytest.mark.mission("CFG-29")
def test_the_brokers_two(broker: Broker) -> None:
    """CFG-26 and CFG-27: of the internal topics."""
    orders = ConfigResource(ConfigResourceType.TOPIC, "orders")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        (node,) = admin.describe_cluster().nodes
        transactions = ConfigResource(ConfigResourceType.BROKER, str(node.id))
        admin.create_topics([NewTopic("orders", configs={"cleanup.policy": "compact"})])
        told = admin.describe_configs([transactions, orders])
    assert told[transactions]["transaction.state.log.num.partitions"].value == "50"
    assert told[orders]["cleanup.policy"].value == "compact"
