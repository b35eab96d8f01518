"""Client quotas: who may have one, what a change makes of them, which a filter means.

Method: small tables here; Kafka's own answers to many more requests are compared in the differential test.
"""

import pytest

from semel.core.metadata.client_quotas import Entity, Match, Part, after, entity_of, filtered
from semel.errors import ErrorCode, Refuse

ALICE: Entity = (("user", "alice"),)
BOTH: Entity = (("client-id", "app"), ("user", "alice"))
EVERYONE: Entity = (("user", None),)
HOST: Entity = (("ip", "127.0.0.1"),)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([("user", "alice")], ALICE),
        ([("user", "alice"), ("client-id", "app")], BOTH),
        ([("user", None)], EVERYONE),
        ([("ip", "::1")], (("ip", "::1"),)),
        ([], None),
        ([("user", "")], None),
        ([("user", "a"), ("user", "b")], None),
        ([("planet", "mars")], None),
        ([("ip", "127.0.0.1"), ("user", "a")], None),
        ([("ip", "not an address")], None),
    ],
)
def test_who_may_have_a_quota(parts: list[tuple[str, str | None]], expected: Entity | None) -> None:
    found = entity_of(parts)
    if expected is None:
        assert isinstance(found, Refuse)
        assert found.code is ErrorCode.INVALID_REQUEST
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("entity", "changes", "expected"),
    [
        (ALICE, [("producer_byte_rate", 10.0)], {"consumer_byte_rate": 5.0, "producer_byte_rate": 10.0}),
        (ALICE, [("consumer_byte_rate", None)], {}),
        (ALICE, [("request_percentage", 0.5)], {"consumer_byte_rate": 5.0, "request_percentage": 0.5}),
        (ALICE, [("connection_creation_rate", 1.0)], None),
        (
            HOST,
            [("connection_creation_rate", 1.0)],
            {"consumer_byte_rate": 5.0, "connection_creation_rate": 1.0},
        ),
        (HOST, [("producer_byte_rate", 1.0)], None),
        (ALICE, [("producer_byte_rate", 0.0)], None),
        (ALICE, [("producer_byte_rate", float("nan"))], None),
        (ALICE, [("producer_byte_rate", 1.5)], None),
        (ALICE, [("producer_byte_rate", 1e30)], None),
        (HOST, [("connection_creation_rate", 2.0**31)], None),
    ],
)
def test_what_a_change_makes_of_them(
    entity: Entity, changes: list[tuple[str, float | None]], expected: dict[str, float] | None
) -> None:
    found = after(entity, {"consumer_byte_rate": 5.0}, changes)
    assert isinstance(found, Refuse) if expected is None else found == expected


def test_which_a_filter_means() -> None:
    quotas = {entity: {"consumer_byte_rate": 1.0} for entity in (ALICE, BOTH, EVERYONE, HOST)}

    def meant(*parts: Part, strict: bool = False) -> list[Entity]:
        found = filtered(quotas, parts, strict=strict)
        assert not isinstance(found, Refuse)
        return [entity for entity, _values in found]

    assert meant() == [BOTH, HOST, EVERYONE, ALICE]
    assert meant(Part("user", Match.EXACT, "alice")) == [BOTH, ALICE]
    assert meant(Part("user", Match.EXACT, "alice"), strict=True) == [ALICE]
    assert meant(Part("user", Match.DEFAULT, None)) == [EVERYONE]
    assert meant(Part("user", Match.ANY, None), strict=True) == [EVERYONE, ALICE]
    assert meant(strict=True) == []
