"""The image is the sum of its rows: the newest row of a subject counts, and a topic made again is another one.

Method: rows by hand, and random ones against the plainest model, a dictionary.
"""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import (
    BrokerConfigRow,
    ClusterRow,
    ProducerIdsRow,
    Row,
    TopicGoneRow,
    TopicRow,
)

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def image_of(*rows: Row) -> MetadataImage:
    image = MetadataImage()
    for row in rows:
        image.apply(row)
    return image


def test_nothing_is_known_at_first() -> None:
    image = MetadataImage()
    assert image.cluster_id is None
    assert image.next_producer_id_block == 0
    assert list(image) == []
    assert image.topic("orders") is None
    assert image.topic_by_id(FIRST.bytes) is None
    assert image.broker_configs() == {}


def test_a_topic_is_found_by_name_and_by_id() -> None:
    row = TopicRow("orders", FIRST, alone(1, 3), {"retention.ms": "1"})
    image = image_of(row)
    assert image.topic("orders") is row
    assert image.topic_by_id(FIRST.bytes) is row
    assert image.topics == {"orders": row}


def test_a_changed_topic_is_the_same_topic() -> None:
    grown = TopicRow("orders", FIRST, alone(1, 5))
    image = image_of(TopicRow("orders", FIRST, alone(1, 3)), grown)
    assert image.topic_by_id(FIRST.bytes) is grown
    assert list(image) == [grown]


def test_a_topic_made_again_is_not_found_by_its_old_id() -> None:
    again = TopicRow("orders", SECOND, alone(1, 3))
    with_goodbye = image_of(TopicRow("orders", FIRST, alone(1, 3)), TopicGoneRow("orders"), again)
    without = image_of(TopicRow("orders", FIRST, alone(1, 3)), again)
    for image in (with_goodbye, without):
        assert image.topic_by_id(FIRST.bytes) is None
        assert image.topic_by_id(SECOND.bytes) is again
        assert image.topic("orders") is again


def test_a_topic_that_never_was_can_be_gone() -> None:
    assert image_of(TopicGoneRow("orders")) == MetadataImage()


def test_topics_come_by_name() -> None:
    rows = [TopicRow(name, uuid.UUID(int=n), alone(1, 1)) for n, name in enumerate(["b", "c", "a"])]
    assert [row.name for row in image_of(*rows)] == ["a", "b", "c"]


def test_settings_of_one_broker_are_not_those_of_all() -> None:
    image = image_of(BrokerConfigRow("", {"a": "1"}), BrokerConfigRow("7", {"b": "2"}))
    assert image.broker_configs() == {"a": "1"}
    assert image.broker_configs("7") == {"b": "2"}
    assert image.broker_configs("8") == {}
    image.apply(BrokerConfigRow("7", {}))
    assert image.broker_configs("7") == {}


def test_the_last_word_counts() -> None:
    image = image_of(ClusterRow("a"), ClusterRow("b"), ProducerIdsRow(1000), ProducerIdsRow(2000))
    assert image.cluster_id == "b"
    assert image.next_producer_id_block == 2000


topics = st.builds(
    TopicRow,
    st.sampled_from("abc"),
    st.integers(1, 6).map(lambda n: uuid.UUID(int=n)),
    st.integers(1, 9).map(lambda n: alone(1, n)),
)


@given(st.lists(topics | st.builds(TopicGoneRow, st.sampled_from("abc"))))
def test_names_and_ids_always_agree(rows: list[TopicRow | TopicGoneRow]) -> None:
    """An id belongs to one topic only: a row that takes another topic's id over is not made by any broker."""
    image, model = MetadataImage(), dict[str, TopicRow]()
    for row in rows:
        if isinstance(row, TopicRow):
            if any(one.topic_id == row.topic_id and one.name != row.name for one in model.values()):
                continue
            model[row.name] = row
        else:
            model.pop(row.name, None)
        image.apply(row)
    assert image.topics == model
    for n in range(1, 7):
        found = image.topic_by_id(uuid.UUID(int=n).bytes)
        assert found == next((one for one in model.values() if one.topic_id.int == n), None)
