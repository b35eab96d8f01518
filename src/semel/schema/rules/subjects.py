"""The subject under which a registry keeps a schema: Confluent's three strategies.

Role.   `strategy` takes what stands in `subject.name.strategy`: one of the functions here, a callable like them, or a Java name.
Rules.  * TopicNameStrategy: topic and field, as `orders-value`. RecordNameStrategy: the record's full name.
          TopicRecordNameStrategy: both, as `orders-shop.Order`.
        * A strategy that needs a topic or a record's name, and has none, refuses with the way out.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from semel.exceptions import ConfigException, SerializationException
from semel.words import kind, shown


class MessageField:
    """The parts of a record that have a schema."""

    KEY: Final = "key"
    VALUE: Final = "value"


class SerializationContext(NamedTuple):
    """Which record's part is written or read: its topic, key or value, and the record's headers."""

    topic: str | None
    field: str = MessageField.VALUE
    headers: Any = ()


Strategy: TypeAlias = Callable[[Any, str | None], str]
"""(context, full name of the record) -> subject; confluent-kafka's signature."""


def topic_subject_name_strategy(context: Any, _record_name: str | None) -> str:
    """`TOPIC-key` or `TOPIC-value`."""
    return f"{_topic(context)}-{context.field}"


def record_subject_name_strategy(_context: Any, record_name: str | None) -> str:
    """The full name of the record: one schema in many topics."""
    return _name(record_name)


def topic_record_subject_name_strategy(context: Any, record_name: str | None) -> str:
    """`TOPIC-NAME`: several kinds of records in one topic."""
    return f"{_topic(context)}-{_name(record_name)}"


def _topic(context: Any) -> str:
    topic = getattr(context, "topic", None)
    if not topic:
        raise SerializationException(
            "the subject needs the record's topic: give the serializer to a producer, call it with "
            "SerializationContext(topic, MessageField.VALUE), or set subject.name.strategy=RecordNameStrategy"
        )
    return str(topic)


def _name(record_name: str | None) -> str:
    if not record_name:
        raise SerializationException(
            "the schema has no name for the subject: it is no named record; use TopicNameStrategy"
        )
    return record_name


_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
_STRATEGIES: Final[dict[str, Strategy]] = {
    "TopicNameStrategy": topic_subject_name_strategy,
    "RecordNameStrategy": record_subject_name_strategy,
    "TopicRecordNameStrategy": topic_record_subject_name_strategy,
}


def strategy(given: object) -> Strategy:
    """The strategy behind a setting."""
    if given is None:
        return topic_subject_name_strategy
    if isinstance(given, str):
        found = _STRATEGIES.get(given.removeprefix(_PACKAGE))
        if found is not None:
            return found
    elif callable(given):
        return given
    raise ConfigException(
        f"subject.name.strategy={shown(given)}: {kind(given)} is no strategy; use a callable of context and record name, or "
        f"one of {', '.join(_STRATEGIES)}"
    )
