"""The options of Spark's Kafka connector, under its names; what is wrong names what is right.

Method: a table of what is accepted, a table of what is refused with the words a user needs.
"""

import pickle

import pytest

from semel.client.config_keys import CONSUMER_KEYS
from semel.exceptions import IllegalArgumentException
from semel.spark.source.offsets import AtOffsets, AtTimestamp, AtTimestamps, Edge
from semel.spark.source.options import (
    READ_OPTIONS,
    Assign,
    SourceOptions,
    Subscribe,
    SubscribePattern,
    client_settings,
)
from semel.types import TopicPartition

BROKERS = {"kafka.bootstrap.servers": "localhost:9092"}
ORDERS = {**BROKERS, "subscribe": "orders"}
ORDERS_0 = TopicPartition("orders", 0)


def test_defaults_are_the_connectors_but_for_isolation() -> None:
    options = SourceOptions.of(ORDERS)
    assert options.strategy == Subscribe(("orders",))
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert (options.fetch_offset_num_retries, options.fetch_offset_retry_interval_ms) == (3, 1000)
    assert options.for_batch().starting is Edge.EARLIEST
    assert options.for_batch().ending is Edge.LATEST
    assert options.for_stream().starting is Edge.LATEST
    assert options.client_config().isolation_level == "read_committed"


def test_every_option_has_its_place() -> None:
    given = {
        **BROKERS,
        "assign": '{"orders": [0]}',
        "startingOffsets": '{"orders": {"0": 5}}',
        "endingOffsets": '{"orders": {"0": 9}}',
        "startingOffsetsByTimestampStrategy": "latest",
        "failOnDataLoss": "False",
        "minPartitions": "4",
        "maxRecordsPerPartition": "1000",
        "minRecordsPerPartition": "50",
        "maxOffsetsPerTrigger": "100",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "30s",
        "includeHeaders": "true",
        "groupIdPrefix": "nightly",
        "kafkaConsumer.pollTimeoutMs": "5000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "10",
        "batchRows": "1000",
        "batchBytes": "1048576",
        "pushFilters": "true",
        "kafka.isolation.level": "read_uncommitted",
        "kafka.max.partition.fetch.bytes": "1000000",
    }
    options = SourceOptions.of(given)
    assert options == SourceOptions(
        strategy=Assign((ORDERS_0,)),
        client={
            "bootstrap.servers": "localhost:9092",
            "client.id": "nightly",
            "isolation.level": "read_uncommitted",
            "max.partition.fetch.bytes": "1000000",
        },
        starting=AtOffsets({ORDERS_0: 5}),
        ending=AtOffsets({ORDERS_0: 9}),
        starting_needs_match=False,
        fail_on_data_loss=False,
        min_partitions=4,
        max_records_per_partition=1000,
        min_records_per_partition=50,
        max_offsets_per_trigger=100,
        min_offsets_per_trigger=10,
        max_trigger_delay_ms=30_000,
        include_headers=True,
        poll_timeout_ms=5000,
        fetch_offset_num_retries=2,
        fetch_offset_retry_interval_ms=10,
        batch_rows=1000,
        batch_bytes=1_048_576,
        push_filters=True,
    )
    assert {name.lower() for name in READ_OPTIONS} >= {
        name.lower() for name in given if not name.startswith("kafka.")
    }
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_taken_in_any_case() -> None:
    assert SourceOptions.of(
        {**BROKERS, "SUBSCRIBE": "orders", "StartingOffsets": "EARLIEST"}
    ) == SourceOptions.of({**BROKERS, "subscribe": "orders", "startingoffsets": "earliest"})


def test_a_time_wins_over_offsets_as_in_the_connector() -> None:
    options = SourceOptions.of({**ORDERS, "startingTimestamp": "7", "startingOffsets": "earliest"})
    assert options.starting == AtTimestamp(7)
    by_partition = {
        **ORDERS,
        "startingOffsetsByTimestamp": '{"orders": {"0": 5}}',
        "startingOffsets": "latest",
    }
    assert SourceOptions.of(by_partition).starting == AtTimestamps({ORDERS_0: 5})


def test_topics_are_a_list() -> None:
    options = SourceOptions.of({**BROKERS, "subscribe": " orders, payments,,orders "})
    assert options.strategy == Subscribe(("orders", "payments"))
    assert SourceOptions.of({**BROKERS, "subscribePattern": "orders-.*"}).strategy == SubscribePattern(
        "orders-.*"
    )


@pytest.mark.parametrize(
    ("given", "text", "ms"),
    [
        ("5", "5", 5),
        ("10ms", "10ms", 10),
        ("2s", "2s", 2000),
        ("1m", "1m", 60_000),
        ("1min", "", 60_000),
        ("1h", "", 3_600_000),
    ],
)
def test_times_are_written_as_in_spark(given: str, text: str, ms: int) -> None:
    assert SourceOptions.of({**ORDERS, "maxTriggerDelay": given}).max_trigger_delay_ms == ms


@pytest.mark.parametrize(
    ("given", "words"),
    [
        # A wrong name names the right one.
        ({**ORDERS, "startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({**ORDERS, "failOnDataloss ": "true"}, "did you mean failOnDataLoss"),
        ({**ORDERS, "maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
        ({**ORDERS, "minPartition": "1"}, "did you mean minPartitions"),
        ({**BROKERS, "topic": "orders"}, "did you mean subscribe"),
        ({**BROKERS, "topics": "orders"}, "did you mean subscribe"),
        ({"subscribe": "orders", "bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({"subscribe": "orders", "bootstrapServers": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({**ORDERS, "isolation.level": "read_committed"}, "did you mean kafka.isolation.level"),
        ({**ORDERS, "kafka.isolation.levle": "read_committed"}, "did you mean kafka.isolation.level"),
        ({**ORDERS, "group.id": "g"}, "did you mean kafka.group.id"),
        ({**ORDERS, "path": "orders"}, "takes no path"),
        ({**ORDERS, "quux": "1"}, "there are subscribe, subscribePattern"),
        # What must be there, and what excludes each other.
        (BROKERS, "name what to read with one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": "orders"}, "kafka.bootstrap.servers must name the brokers"),
        ({**ORDERS, "subscribePattern": "o.*"}, "exclude each other"),
        ({**BROKERS, "subscribe": " , "}, "names no topic"),
        ({**BROKERS, "subscribePattern": " "}, "is empty"),
        ({**BROKERS, "subscribePattern": "("}, "is not a regular expression"),
        ({**BROKERS, "assign": "orders"}, "expected e.g."),
        # What Spark decides.
        ({**ORDERS, "kafka.auto.offset.reset": "earliest"}, "set startingOffsets"),
        ({**ORDERS, "kafka.key.deserializer": "x"}, "keys come as bytes"),
        ({**ORDERS, "kafka.value.deserializer": "x"}, "values come as bytes"),
        ({**ORDERS, "kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({**ORDERS, "kafka.interceptor.classes": "x"}, "not supported"),
        # Values.
        ({**ORDERS, "kafka.isolation.level": "sloppy"}, "isolation.level"),
        ({**ORDERS, "kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI: not there"),
        ({**ORDERS, "kafka.sasl.login.class": "x"}, "sasl.login.class is not a setting"),
        ({**ORDERS, "kafka.acks": "all"}, "acks is a setting of a producer"),
        ({**ORDERS, "startingOffsets": "earliset"}, "startingOffsets: expected e.g."),
        ({**ORDERS, "startingTimestamp": "yesterday"}, "is not a whole number"),
        ({**ORDERS, "startingTimestamp": "-1"}, "out of range"),
        ({**ORDERS, "startingOffsetsByTimestampStrategy": "first"}, "use error or latest"),
        ({**ORDERS, "failOnDataLoss": "no"}, "use true or false"),
        ({**ORDERS, "minPartitions": "0"}, "minPartitions=0 is out of range"),
        ({**ORDERS, "maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition=-1 is out of range"),
        ({**ORDERS, "maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many' is not a whole number"),
        ({**ORDERS, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is higher than"),
        ({**ORDERS, "maxTriggerDelay": "soon"}, "is not a time"),
        ({**ORDERS, "batchRows": "0"}, "batchRows=0 is out of range"),
        ({**ORDERS, "batchBytes": "99999999999"}, "batchBytes=99999999999 is out of range"),
    ],
)
def test_a_mistake_is_refused_in_words_that_help(given: dict[str, str], words: str) -> None:
    with pytest.raises(IllegalArgumentException) as refusal:
        SourceOptions.of(given)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets of orders-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets of orders-0 can't be earliest"),
        (
            {"startingOffsets": '{"orders": {"0": 9}}', "endingOffsets": '{"orders": {"0": 3}}'},
            "the starting offset 9 of orders-0 is greater than the ending offset 3",
        ),
        (
            {"startingOffsets": '{"orders": {"0": 1}}', "endingOffsets": '{"orders": {"1": 3}}'},
            "must name the same partitions",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"orders": {"0": 9}}',
                "endingOffsetsByTimestamp": '{"orders": {"0": 3}}',
            },
            "the starting time 9 of orders-0 is greater than the ending time 3",
        ),
    ],
)
def test_a_batch_has_two_ends_in_order(given: dict[str, str], words: str) -> None:
    options = SourceOptions.of({**ORDERS, **given})
    with pytest.raises(IllegalArgumentException) as refusal:
        options.for_batch()
    assert words in str(refusal.value)


def test_latest_and_earliest_are_no_numbers_to_compare() -> None:
    starts = {"startingOffsets": '{"orders": {"0": 9}}', "endingOffsets": '{"orders": {"0": -1}}'}
    assert SourceOptions.of({**ORDERS, **starts}).for_batch().ending == AtOffsets({ORDERS_0: -1})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": "5"}.get(name, '{"orders": {"0": 5}}')
    with pytest.raises(IllegalArgumentException, match="not valid in streaming queries"):
        SourceOptions.of({**ORDERS, name: value}).for_stream()


def test_kafkas_keys_of_a_consumer_are_taken_with_the_prefix() -> None:
    """All of them, but for those Spark decides about; values are Kafka's defaults, which every key takes."""
    left_to_spark = {
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
    }
    for name, key in CONSUMER_KEYS.items():
        if name in left_to_spark or name == "bootstrap.servers" or key.default_value in (None, "", ()):
            continue
        value = key.default_value
        text = (
            ",".join(value)
            if isinstance(value, tuple)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        options = SourceOptions.of({**ORDERS, f"kafka.{name}": text})
        assert options.client[name] == text, name


def test_what_spark_decides_may_be_said() -> None:
    in_bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    decided = {
        "kafka.enable.auto.commit": "false",
        "kafka.key.deserializer": in_bytes,
        "kafka.value.deserializer": in_bytes,
    }
    assert SourceOptions.of({**ORDERS, **decided}).client["enable.auto.commit"] == "false"
    for name in decided:
        with pytest.raises(IllegalArgumentException, match=f"{name}=other is not supported"):
            SourceOptions.of({**ORDERS, name: "other"})


def test_nobody_joins_a_group_but_brokers_see_its_name() -> None:
    assert SourceOptions.of({**ORDERS, "kafka.group.id": "g"}).client_config().client_id == "g"
    assert SourceOptions.of({**ORDERS, "groupIdPrefix": "p"}).client_config().client_id == "p"
    assert SourceOptions.of({**ORDERS, "kafka.client.id": "c"}).client_config().client_id == "c"


def test_one_fetch_is_never_more_than_all_fetches_may_be() -> None:
    assert (
        SourceOptions.of({**ORDERS, "kafka.fetch.max.bytes": "1000"}).client["max.partition.fetch.bytes"]
        == "1000"
    )


def test_sinks_take_the_clients_keys_apart_the_same_way() -> None:
    assert client_settings({"Kafka.Linger.ms": "5", "topic": "orders"}) == {"linger.ms": "5"}
