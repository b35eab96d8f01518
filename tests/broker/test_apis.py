"""The table of APIs says of each what a listener serves, and what it needs.

Method: every row against the registry, the handlers there are, and the operations resources have; the versions shown are those
that are answered, on listeners for clients, for brokers, and for both.
"""

import pkgutil
from typing import Any

import pytest

from semel.broker import handlers
from semel.broker.apis import SERVED, Row, Versions, advertised, row_of
from semel.broker.config import BrokerConfig
from semel.broker.dispatch import Dispatch
from semel.core.security.identity import ANONYMOUS, PLAINTEXT, Identities, ListenerName
from semel.core.security.operations import SUPPORTED, AclOperation, Need
from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.message import Request
from semel.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import WireError
from semel.net.reply import Exclusive
from support.broker.admin_kit import Client, told

INTERNAL = ListenerName("INTERNAL", is_inter_broker=True)
FREE = {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}
"""Nobody needs a right to ask for these."""
BY_ALL_ALONE = {
    Need(resource, operation) for resource, operations in SUPPORTED.items() for operation in operations
}


def test_every_handler_has_one_row_and_every_row_a_handler() -> None:
    keys = [row.key for row in SERVED]
    assert sorted(keys) == keys, "a reader looks for a key at its place"
    assert len(set(keys)) == len(keys)
    assert {row.module.rpartition(".")[2] for row in SERVED} == {
        module.name for module in pkgutil.iter_modules(handlers.__path__)
    }
    for row in SERVED:
        assert callable(row.handler()), row.key.name
        assert row_of(row.key) is row


def test_every_row_names_operations_its_resources_have() -> None:
    for row in SERVED:
        assert set(row.needs) <= BY_ALL_ALONE, row.key.name
        assert len(set(row.needs)) == len(row.needs), row.key.name
        assert bool(row.needs) != (row.key in FREE), row.key.name


@pytest.mark.parametrize(
    ("key", "operations"),
    [
        (ApiKey.PRODUCE, [AclOperation.WRITE, AclOperation.WRITE]),
        (ApiKey.FETCH, [AclOperation.READ, AclOperation.CLUSTER_ACTION]),
        (ApiKey.OFFSET_DELETE, [AclOperation.DELETE, AclOperation.READ]),
        (ApiKey.DELETE_TOPICS, [AclOperation.DELETE, AclOperation.DESCRIBE]),
        (ApiKey.DESCRIBE_PRODUCERS, [AclOperation.READ]),
    ],
)
def test_needs_are_those_of_kafka(key: ApiKey, operations: list[AclOperation]) -> None:
    row = row_of(key)
    assert row is not None
    assert [need.operation for need in row.needs] == operations


@pytest.mark.parametrize("two_phase", ["true", "false"])
def test_clients_are_shown_what_the_registry_shows(two_phase: str) -> None:
    config = BrokerConfig.of({"transaction.two.phase.commit.enable": two_phase})
    for served in advertised(PLAINTEXT, config.values):
        unstable = served.key == ApiKey.INIT_PRODUCER_ID and two_phase == "true"
        assert (served.first, served.last) == BY_KEY[served.key].advertised(unstable=unstable)


def test_a_row_may_be_for_one_kind_of_listener() -> None:
    settings = BrokerConfig.of({}).values
    for_brokers = Row(ApiKey.END_TXN, clients=None)
    assert for_brokers.advertised(PLAINTEXT, settings) is None
    assert not for_brokers.serves(1, PLAINTEXT)
    assert for_brokers.serves(1, INTERNAL)
    for_clients = Row(ApiKey.END_TXN, brokers=None)
    assert for_clients.serves(1, PLAINTEXT)
    assert for_clients.serves(1, INTERNAL), "clients may come through the brokers' listener"


def test_bounds_narrow_what_is_served_and_shown() -> None:
    settings = BrokerConfig.of({}).values
    row = Row(ApiKey.END_TXN, clients=Versions(1, 3), brokers=Versions(4, 99))
    assert [version for version in range(-1, 9) if row.serves(version, PLAINTEXT)] == [1, 2, 3]
    assert [version for version in range(-1, 9) if row.serves(version, INTERNAL)] == [1, 2, 3, 4, 5]
    shown = row.advertised(PLAINTEXT, settings)
    assert shown is not None
    assert (shown.first, shown.last) == (1, 3)
    shown = row.advertised(INTERNAL, settings)
    assert shown is not None
    assert (shown.first, shown.last) == (1, 5)


class Peer:
    """A connection as far as the dispatch looks at it."""

    peer = "a tester"
    identity = Identities(PLAINTEXT).of(ANONYMOUS, "a tester")


def frame_of(key: ApiKey, version: int, request: Request[Any]) -> bytearray:
    return bytearray(framing.request_frame(RequestHeader(key, version, 1, "tester"), request)[4:])


def test_settings_of_more_than_four_mebibytes_end_the_connection() -> None:
    """A value may be a list, and a list of any length is looked at element by element."""
    long = AlterableConfig(name="cleanup.policy", config_operation=0, value=",".join(["delete"] * 4_500))
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=f"t{n}", configs=[long]) for n in range(150)
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)

    async def tell(client: Client) -> None:
        dispatch = Dispatch(client.broker.parts)
        with pytest.raises(
            WireError, match=r"IncrementalAlterConfigs of .* bytes, the most a broker takes is 4194304"
        ):
            dispatch(frame_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request), Peer())  # type: ignore[arg-type]

    told(tell)


def test_more_credentials_than_five_thousand_end_the_connection() -> None:
    one = ScramCredentialUpsertion(
        name="u", mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"p" * 32
    )

    async def tell(client: Client) -> None:
        dispatch = Dispatch(client.broker.parts)
        for count, is_taken in ((5_001, False), (4_999, True)):
            request = AlterUserScramCredentialsRequest(upsertions=[one] * count)
            answer = dispatch(frame_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request), Peer())  # type: ignore[arg-type]
            assert isinstance(answer, Exclusive)
            if is_taken:
                assert await answer.answer
            else:
                with pytest.raises(WireError, match="ask in several requests"):
                    await answer.answer

    told(tell)
