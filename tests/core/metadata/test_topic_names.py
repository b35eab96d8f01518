"""Topic names are good or bad as in Kafka, and two that metrics could not tell apart do not both exist.

Method: names by hand at every limit, and all characters one by one.
"""

import string
from uuid import UUID

import pytest

from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import TopicGoneRow, TopicRow
from semel.core.metadata.topic_names import NAME_LENGTH_MAX, flaw


@pytest.mark.parametrize(
    "name", ["orders", "a", "0", "-", "_", "...", "a.b", ".a", "..a", "Ab-9_.", "x" * NAME_LENGTH_MAX]
)
def test_good_names(name: str) -> None:
    assert flaw(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty string"),
        (".", "'.' or '..'"),
        ("..", "'.' or '..'"),
        ("x" * (NAME_LENGTH_MAX + 1), "longer than the max allowed length 249"),
        ("a b", "contains one or more characters"),
        ("orders\n", "contains one or more characters"),
        ("a/b", "contains one or more characters"),
        ("naïve", "contains one or more characters"),
        ("٣", "contains one or more characters"),
    ],
)
def test_bad_names_and_why(name: str, why: str) -> None:
    found = flaw(name)
    assert found is not None
    assert why in found


def test_every_character_of_ascii() -> None:
    legal = {*string.ascii_letters, *string.digits, ".", "_", "-"}
    for code in range(256):
        name = f"a{chr(code)}a"
        assert (flaw(name) is None) == (chr(code) in legal), name


@pytest.mark.parametrize(
    ("name", "existing", "found"),
    [
        ("a.b", ["a_b"], "a_b"),
        ("a_b", ["a.b"], "a.b"),
        ("a.b_c", ["x", "a_b.c"], "a_b.c"),
        ("a.b", ["a.b"], None),
        ("a.b", ["ab", "a-b"], None),
        ("ab", ["a.b", "a_b"], None),
        ("a.b", [], None),
    ],
)
def test_dots_and_underscores_collide(name: str, existing: list[str], found: str | None) -> None:
    image = MetadataImage()
    for number, other in enumerate(existing):
        image.apply(TopicRow(other, UUID(int=number + 1), alone(1, 1)))
    assert image.collision(name) == found
    for other in existing:
        image.apply(TopicGoneRow(other))
    assert image.collision(name) is None
