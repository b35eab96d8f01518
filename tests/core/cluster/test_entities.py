"""Settings in ZooKeeper are read into rows and written from them without losing what only others understand.

Method: nodes as Kafka's tools write them; what is written from a row is read again.
"""

import random

import pytest

from semel.core.cluster import entities
from semel.core.cluster.entities import Changed, applied, changed, quota_path, rows
from semel.core.metadata.client_quotas import Entity
from semel.core.metadata.image import DEFAULT_BROKER, MetadataImage
from semel.core.metadata.rows import BrokerConfigRow, ClientQuotaRow, ScramRow, TopicConfigRow
from semel.core.security.scram_credentials import Mechanism
from semel.errors import Refuse

CREDENTIAL = "salt=YWI=,stored_key=Y2Q=,server_key=ZWY=,iterations=4096"


def test_what_cannot_be_read_is_named_and_the_rest_is_taken() -> None:
    found = rows(
        "topics/orders",
        {"retention.ms": "1", "retention.bytes": "many", "made.up": "x", "message.format.version": "2.8"},
    )
    assert found.rows == [TopicConfigRow("orders", {"retention.ms": "1"})]
    assert len(found.flaws) == 2
    found = rows(
        "brokers/<default>",
        {
            "log.cleaner.threads": "2",
            "zookeeper.connect": "x",
            "ssl.key.password": "encrypted",
            "plugin.key": "1",
        },
    )
    assert found.rows == [BrokerConfigRow(DEFAULT_BROKER, {"log.cleaner.threads": "2"})]
    assert found.flaws == ["zookeeper.connect cannot be changed while a broker runs"]
    found = rows(
        "users/ann", {"producer_byte_rate": "NaN", "request_percentage": "1.5", "SCRAM-SHA-256": "salt=?"}
    )
    assert found.rows[0] == ClientQuotaRow((("user", "ann"),), {"request_percentage": 1.5})
    assert len(found.flaws) == 2
    assert "salt" not in "".join(found.flaws)  # Of a credential nothing is shown.


@pytest.mark.parametrize(
    "path", ["topics", "topics/", "brokers/x", "users/a/clients", "users/a/topics/b", "x/y", ""]
)
def test_what_is_no_entity(path: str) -> None:
    with pytest.raises(ValueError, match="no entity"):
        rows(path, {})


def test_an_entity_that_is_gone_has_nothing_left() -> None:
    assert rows("users/ann%40b", {}).rows == [
        ClientQuotaRow((("user", "ann@b"),)),
        ScramRow("ann@b", Mechanism.SHA_256, None),
        ScramRow("ann@b", Mechanism.SHA_512, None),
    ]


@pytest.mark.parametrize("seed", range(50))
def test_quotas_are_read_as_they_were_written(seed: int) -> None:
    dice = random.Random(seed)

    def name() -> str | None:
        return dice.choice([None, "".join(dice.choices("aZ0 /%~*ü<>.-_", k=5))])

    entity: Entity = dice.choice(
        [
            (("user", name()),),
            (("client-id", name()),),
            (("client-id", name()), ("user", name())),
            (("ip", dice.choice([None, "10.0.0.1", "::1"])),),
        ]
    )
    keys = (
        ["connection_creation_rate"] if entity[0][0] == "ip" else ["producer_byte_rate", "request_percentage"]
    )
    values = {
        key: float(dice.randrange(1, 1 << 30)) if key != "request_percentage" else dice.uniform(0, 1e8)
        for key in keys
    }
    change = changed(ClientQuotaRow(entity, values), MetadataImage())
    assert isinstance(change, Changed)
    assert change.entity == quota_path(entity)
    again = rows(change.entity, applied({}, [change]))
    assert again.rows[0] == ClientQuotaRow(entity, values)
    assert again.flaws == []


def test_a_change_is_what_differs_from_the_image() -> None:
    image = MetadataImage()
    for row in rows(
        "users/ann", {"producer_byte_rate": "5", "request_percentage": "2.0", "SCRAM-SHA-256": CREDENTIAL}
    ).rows:
        image.apply(row)
    change = changed(
        ClientQuotaRow((("user", "ann"),), {"request_percentage": 2.0, "consumer_byte_rate": 7.0}), image
    )
    assert change == Changed("users/ann", {"producer_byte_rate": None, "consumer_byte_rate": "7"})
    kept = applied({"SCRAM-SHA-256": CREDENTIAL, "new": "of others", "producer_byte_rate": "6"}, [change])
    assert kept == {"SCRAM-SHA-256": CREDENTIAL, "new": "of others", "consumer_byte_rate": "7"}
    assert isinstance(changed(BrokerConfigRow("1", {"ssl.key.password": "x"}), image), Refuse)
    assert entities.decode_credential(CREDENTIAL) == image.scram["ann", Mechanism.SHA_256]


def test_a_credential_is_written_as_it_was_read() -> None:
    image = MetadataImage()
    row = rows("users/ann%40b", {"SCRAM-SHA-256": CREDENTIAL}).rows[1]
    assert isinstance(row, ScramRow)
    assert changed(row, image) == Changed("users/ann%40b", {"SCRAM-SHA-256": CREDENTIAL})
    gone = ScramRow("ann@b", Mechanism.SHA_256, None)
    assert changed(gone, image) == Changed("users/ann%40b", {"SCRAM-SHA-256": None})
