"""TLS and SASL with Apache Kafka: every way in works for all three clients, and nobody gets in who should not.

Method: one Kafka with a listener for each security protocol and one that asks clients for certificates; certificates made for this
run. Each way in writes, reads with a group and asks; each wrong password, mechanism, certificate and name is refused at once, under
Java's exception, and not tried until a timeout.
"""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from semel import Admin, Consumer, Producer, aio
from semel.client.values.administration import ScramMechanism, UserScramCredentialUpsertion
from semel.exceptions import (
    IllegalSaslStateException,
    KafkaException,
    NetworkException,
    SaslAuthenticationException,
    SslAuthenticationException,
    UnsupportedSaslMechanismException,
)
from semel.peers.kafka import KafkaBroker, KafkaHome, java

pytestmark = pytest.mark.java

PASSWORD: Final = "the-store's"
PROGRAM: Final = str(Path(__file__).parents[1] / "java" / "Certificates.java")
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")


@dataclass(frozen=True)
class World:
    """A Kafka with all kinds of listeners."""

    ports: dict[str, int]
    pems: Path

    def settings(self, listener: str, **settings: Any) -> dict[str, Any]:
        """What it takes to get in there."""
        found: dict[str, Any] = {
            "bootstrap_servers": f"127.0.0.1:{self.ports[listener]}",
            "security_protocol": "SSL" if listener == "MUTUAL" else listener,
        }
        if "SSL" in found["security_protocol"]:
            name = "elsewhere" if listener == "MUTUAL" else "broker"
            found["ssl_truststore_location"] = str(self.pems / f"{name}.crt.pem")
        return found | settings


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def pems(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pems")
    store = directory / "store.p12"
    keytool = shutil.which("keytool") or str(Path(java()).resolve().with_name("keytool"))
    for name, names in (
        ("broker", "dns:localhost,ip:127.0.0.1"),
        ("client", "dns:client"),
        ("elsewhere", "dns:elsewhere"),
    ):
        subprocess.run(
            [keytool, "-genkeypair", "-alias", name, "-keyalg", "EC", "-groupname", "secp256r1", "-dname", f"CN={name}",
             "-ext", f"san={names}", "-validity", "30", "-storetype", "PKCS12", "-keystore", str(store),
             "-storepass", PASSWORD],
            check=True, capture_output=True,
        )  # fmt: skip
    kafka_home.run(PROGRAM, str(store), PASSWORD, str(directory))
    return directory


@pytest.fixture(scope="module")
def world(kafka_home: KafkaHome, pems: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    numbers = free_ports(len(LISTENERS) + 1)
    ports, controller = dict(zip(LISTENERS, numbers, strict=False)), numbers[-1]
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    settings = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": ",".join(
            [
                "CONTROLLER:PLAINTEXT",
                "MUTUAL:SSL",
                *(f"{name}:{name}" for name in LISTENERS if name != "MUTUAL"),
            ]
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pems / "broker.key.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pems / "client.crt.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.keystore.type": "PEM",
        "listener.name.mutual.ssl.keystore.location": str(pems / "elsewhere.key.pem"),
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{name}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f'{PLAIN_MODULE} required user_alice="al,ice=s";'
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    settings["listener.name.sasl_ssl.connections.max.reauth.ms"] = (
        "1000"  # Logins are believed for a second there.
    )
    broker = KafkaBroker(
        kafka_home, tmp_path_factory.mktemp("secured"), settings=settings, port=ports["PLAINTEXT"]
    )
    broker.start()
    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(["t"])
            for scram in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                given = UserScramCredentialUpsertion("bob=,", "sé,cret=", scram)
                admin.alter_user_scram_credentials([given])
        yield World(ports, pems)
    finally:
        broker.stop()


PLAIN: Final = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "al,ice=s"}
SCRAM: Final = {"sasl_username": "bob=,", "sasl_password": "sé,cret="}
WAYS: Final[list[tuple[str, dict[str, str]]]] = [
    ("SSL", {}),
    ("SASL_PLAINTEXT", PLAIN),
    ("SASL_PLAINTEXT", {"sasl_mechanism": "SCRAM-SHA-256", **SCRAM}),
    (
        "SASL_PLAINTEXT",
        {
            "sasl_mechanism": "PLAIN",
            "sasl_jaas_config": f'{PLAIN_MODULE} required username="alice" password="al,ice=s";',
        },
    ),
    ("SASL_SSL", {"sasl_mechanism": "SCRAM-SHA-512", **SCRAM}),
]


@pytest.mark.parametrize(("listener", "login"), WAYS)
def test_a_way_in(world: World, listener: str, login: dict[str, str], request: pytest.FixtureRequest) -> None:
    settings, name = world.settings(listener, **login), request.node.name
    sent = [f"{name}-{number}".encode() for number in range(3)]
    with Producer(settings, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            places = [producer.send("t", value) for value in sent]
        first = places[0].result(60).offset
    with Admin(settings) as admin:
        assert "t" in [one.name for one in admin.list_topics()]
        admin.alter_consumer_group_offsets(name, {("t", 0): first})
    with Consumer(settings, group_id=name) as consumer:
        consumer.subscribe(["t"])
        got: list[bytes] = []
        while len(got) < len(sent):
            got += [record.value for record in consumer.poll(1000)]
    assert got == sent


def test_a_certificate_of_ones_own(world: World, pems: Path) -> None:
    """From a file, or as text; without one the listener lets nobody in. Its own certificate is for another name."""
    any_name = {"ssl_endpoint_identification_algorithm": ""}
    whole = (pems / "client.key.pem").read_text()
    key, begin, chain = whole.partition("-----BEGIN CERTIFICATE")
    in_a_file = {"ssl_keystore_location": str(pems / "client.key.pem")}
    as_text = {"ssl_keystore_key": key, "ssl_keystore_certificate_chain": begin + chain}
    for own in (in_a_file, as_text):
        with Producer(world.settings("MUTUAL", **any_name, **own)) as producer:
            assert producer.send("t", b"x").result(60).topic == "t"
        with (
            Producer(world.settings("MUTUAL", **own)) as producer,
            pytest.raises(SslAuthenticationException, match=r"mismatch|not valid"),
        ):
            producer.send("t", b"x")
    with (
        Admin(world.settings("MUTUAL", **any_name)) as admin,
        pytest.raises(SslAuthenticationException, match=r"(?i)cert"),
    ):
        admin.list_topics()


def test_asyncio_too(world: World) -> None:
    async def story() -> int:
        settings = world.settings("SASL_SSL", sasl_mechanism="SCRAM-SHA-256", **SCRAM)
        async with aio.Producer(settings) as producer:
            return (await (await producer.send("t", b"x"))).offset

    assert asyncio.run(story()) >= 0


def test_logins_that_are_believed_for_a_second(world: World) -> None:
    """Questions are asked for three; who waits for an answer when time is up is cut off, and asks again."""
    settings = world.settings("SASL_SSL", sasl_mechanism="SCRAM-SHA-512", **SCRAM)
    with Admin(settings) as admin:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert admin.describe_cluster().cluster_id


REFUSED: Final[list[tuple[str, dict[str, str], type[KafkaException], str]]] = [
    ("SASL_PLAINTEXT", {**PLAIN, "sasl_password": "guessed"}, SaslAuthenticationException, "refuses the login of 'alice'"),
    (
        "SASL_PLAINTEXT",
        {"sasl_mechanism": "SCRAM-SHA-256", **SCRAM, "sasl_password": "guessed"},
        SaslAuthenticationException,
        "by SCRAM-SHA-256",
    ),
    ("SSL", {"ssl_truststore_location": "elsewhere.crt.pem"}, SslAuthenticationException, "self.signed certificate"),
]  # fmt: skip


@pytest.mark.parametrize(("listener", "login", "kind", "said"), REFUSED)
def test_who_does_not_get_in_hears_it_at_once(
    world: World, listener: str, login: dict[str, str], kind: type[KafkaException], said: str
) -> None:
    if "ssl_truststore_location" in login:
        login = {"ssl_truststore_location": str(world.pems / login["ssl_truststore_location"])}
    settings = world.settings(listener, **login)
    with Producer(settings) as producer, pytest.raises(kind, match=said) as caught:
        producer.send("t", b"x").result(60)
    assert caught.value.fatal
    assert not caught.value.retriable
    with Admin(settings) as admin, pytest.raises(kind, match=said):
        admin.list_topics()
    with Consumer(settings, group_id="g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(kind, match=said):
            consumer.poll(60_000)
    with Consumer(settings) as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(kind, match=said):
            consumer.poll(60_000)


def test_protocols_and_mechanisms_that_do_not_fit(world: World, semel_broker: Any) -> None:
    def refused(kind: type[KafkaException], said: str, settings: dict[str, Any]) -> None:
        with Admin(settings) as admin, pytest.raises(kind, match=said):
            admin.list_topics()

    refused(
        UnsupportedSaslMechanismException,
        "does not take sasl.mechanism=SCRAM-SHA-512, only .*PLAIN",
        world.settings("SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", **SCRAM),
    )
    refused(NetworkException, "handshake|no TLS", {**world.settings("PLAINTEXT"), "security_protocol": "SSL"})
    for address in (f"127.0.0.1:{world.ports['PLAINTEXT']}", semel_broker.bootstrap):
        refused(
            IllegalSaslStateException,
            "security.protocol",
            {**PLAIN, "security_protocol": "SASL_PLAINTEXT", "bootstrap_servers": address},
        )
