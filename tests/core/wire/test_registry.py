"""The registry says what the messages declare, and leads to them.

Method: every row against its two classes; headers by their rules; and the answer to ApiVersions against Kafka's rules.
"""

import pytest

from semel.core.wire import registry
from semel.core.wire.registry import APIS, CLUSTER_APIS, ApiKey, api
from semel.core.wire.schema import VERSION_MAX, Versions
from semel.errors import UnsupportedVersionError
from support.wire.wire_values import api_messages


def test_every_row_matches_its_messages() -> None:
    for row in (*APIS, *CLUSTER_APIS):
        for cls in (row.request, row.response):
            assert cls.schema.api_key == row.key
            assert cls.schema.versions == Versions(row.first, row.last)
            flexible = cls.schema.flexible
            never = flexible.last < flexible.first
            assert row.flexible_since == (registry.NEVER_FLEXIBLE if never else flexible.first)
            assert never or flexible.last == VERSION_MAX


def test_every_message_is_reached_by_a_row() -> None:
    reached = {cls for row in (*APIS, *CLUSTER_APIS) for cls in (row.request, row.response)}
    assert reached == set(api_messages())


def test_every_api_of_the_first_days_has_messages() -> None:
    """PROTOCOL.md, Reading it: day one, next and cluster."""
    day_one = {
        *range(4),
        *range(8, 17),
        *range(18, 27),
        28,
        32,
        33,
        35,
        37,
        42,
        44,
        47,
        60,
        61,
        65,
        66,
        68,
        69,
        75,
    }
    following = {17, 36, 29, 30, 31, 48, 49, 50, 51, 34, 43, 45, 46, 57, 74}
    assert {int(row.key) for row in APIS} == day_one | following | {27}
    assert {int(row.key) for row in CLUSTER_APIS} == {4, 5, 6, 7, 56, 67}


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),  # Its answer is always plain: trap 30.
        (ApiKey.API_VERSIONS, 99, 2, 0),
    ],
)
def test_flexible_versions_have_flexible_headers(
    key: ApiKey, version: int, request_header: int, response_header: int
) -> None:
    row = api(key)
    assert (row.request_header(version), row.response_header(version)) == (request_header, response_header)


def test_advertised_is_not_the_same_as_served() -> None:
    """PROTOCOL trap 29, and KIP-939's InitProducerId 6 only on demand."""
    produce, init = api(ApiKey.PRODUCE), api(ApiKey.INIT_PRODUCER_ID)
    assert produce.advertised() == (0, 13)
    assert [version for version in range(15) if produce.serves(version)] == list(range(3, 14))
    assert (init.advertised(), init.advertised(unstable=True)) == ((0, 5), (0, 6))
    assert init.serves(6)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="API key 4242 is unknown"):
        api(4242)
