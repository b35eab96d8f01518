"""Options of the drop-in sink: the connector's names, and an answer that helps where one is wrong."""

import pytest

from semel.exceptions import ConfigException, IllegalArgumentException
from semel.spark.sink.dropin.sink_options import SinkOptions

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_in_any_case_and_what_spark_passes_on() -> None:
    found = SinkOptions.of(
        {
            "KAFKA.Bootstrap.Servers": "a:1,b:2",
            "TOPIC": "orders",
            "sinkname": "totals",
            "LedgerTopic": "notes",
            "kafka.compression.type": "zstd",
            "checkpointlocation": "somewhere",
            "path": "x",
        }
    )
    assert (found.topic, found.sink_name, found.ledger_topic) == ("orders", "totals", "notes")
    assert found.producer_config("id").compression_type == "zstd"
    assert found.producer_config("id").transaction_timeout_ms == 900_000
    assert "compression.type" not in found.consumer_settings()


def test_a_timeout_of_the_users_own() -> None:
    found = SinkOptions.of({**BROKER, "kafka.transaction.timeout.ms": "1000"})
    assert found.producer_config("id").transaction_timeout_ms == 1000


def test_what_it_is_anyway_may_be_said() -> None:
    said = {"kafka.acks": "ALL", "kafka.enable.idempotence": "true", "kafka.transactional.id": "totals"}
    found = SinkOptions.of({**BROKER, **said})
    assert found.sink_name == "totals"
    assert (found.producer_config("id").transactional_id, found.producer_config("id").acks) == ("id", -1)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "kafka.bootstrap.servers"),
        ({**BROKER, "subscribe": "t"}, "did you mean topic?"),
        ({**BROKER, "sinkNam": "t"}, "did you mean sinkName?"),
        ({**BROKER, "linger.ms": "5"}, "kafka.linger.ms"),
        ({**BROKER, "kafka.acks": "1"}, "kafka.acks cannot be set"),
        ({**BROKER, "kafka.key.serializer": "StringSerializer"}, "give the column key as text or bytes"),
        ({**BROKER, "kafka.transactional.id": "x", "sinkName": "y"}, "both name the sink: keep one"),
        ({**BROKER, "kafka.transactional.id": "a:b"}, "sinkName='a:b': use 1 to 150 letters"),
        ({**BROKER, "sinkName": "a:b"}, "sinkName='a:b': use 1 to 150 letters"),
        ({**BROKER, "sinkName": ""}, "sinkName='': use"),
        ({**BROKER, "zebra": "1"}, "the sink knows kafka.* and topic"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], problem: str) -> None:
    with pytest.raises(IllegalArgumentException) as caught:
        SinkOptions.of(given)
    assert problem in str(caught.value)


def test_settings_of_the_client_are_checked_at_once() -> None:
    with pytest.raises(ConfigException, match=r"linger\.ms"):
        SinkOptions.of({**BROKER, "kafka.linger.ms": "soon"})
