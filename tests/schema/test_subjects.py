"""The name a schema is kept under, by each strategy, given as a function, a Java name or nothing."""

import pytest

from semel.exceptions import ConfigException, SerializationException
from semel.schema import (
    SerializationContext,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from semel.schema.rules.subjects import strategy

KEY = SerializationContext("orders", "key")
VALUE = SerializationContext("orders")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "orders-key"),
        ("TopicNameStrategy", "orders-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "orders-shop.Order"),
        (topic_subject_name_strategy, "orders-key"),
        (record_subject_name_strategy, "shop.Order"),
        (topic_record_subject_name_strategy, "orders-shop.Order"),
        (lambda context, name: f"{name}/{context.field}", "shop.Order/key"),
    ],
)
def test_a_strategy_names_the_subject(given: object, expected: str) -> None:
    assert strategy(given)(KEY, "shop.Order") == expected


def test_the_value_has_a_subject_of_its_own() -> None:
    assert topic_subject_name_strategy(VALUE, None) == "orders-value"


@pytest.mark.parametrize("given", ["TopicStrategy", 7])
def test_another_word_is_no_strategy(given: object) -> None:
    with pytest.raises(ConfigException, match="RecordNameStrategy"):
        strategy(given)


def test_a_strategy_without_what_it_needs_says_so() -> None:
    with pytest.raises(SerializationException, match="needs the record's topic"):
        topic_subject_name_strategy(SerializationContext(None), None)
    with pytest.raises(SerializationException, match="no named record; use TopicNameStrategy"):
        record_subject_name_strategy(VALUE, None)
