"""The settings of TLS and SASL: what is made of them, what is refused and in which words, and that no secret is shown.

Method: settings given to a client's configuration, without a broker. Logins and handshakes with a real one:
tests/compat/test_security.py.
"""

import ssl
from pathlib import Path
from typing import Any

import pytest

from semel.client.config import ClientConfig
from semel.client.settings import AdminConfig, ConsumerConfig, ProducerConfig
from semel.core.security.login import Login
from semel.exceptions import ConfigException

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="al\\"ice" password=\'s e,c;ret\';'


def security(**settings: Any) -> Any:
    return ProducerConfig.of({"bootstrap.servers": "b:9093"}, **settings).security


def test_nothing_is_asked_for_by_default() -> None:
    for kind in (ProducerConfig, ConsumerConfig, AdminConfig):
        made = kind.of(bootstrap_servers="b:9092").security
        assert (made.tls, made.login) == (None, None)
    assert ClientConfig.of({}).security.tls is None


def test_tls_checks_who_the_broker_is() -> None:
    made = security(security_protocol="ssl")
    assert made.tls.verify_mode is ssl.CERT_REQUIRED
    assert made.tls.check_hostname
    assert (made.tls.minimum_version, made.tls.maximum_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    assert made.login is None


def test_a_name_that_does_not_matter() -> None:
    made = security(security_protocol="SSL", ssl_endpoint_identification_algorithm="")
    assert not made.tls.check_hostname
    assert made.tls.verify_mode is ssl.CERT_REQUIRED  # Whoever signed it still does.


def test_versions() -> None:
    made = security(security_protocol="SSL", ssl_enabled_protocols="TLSv1.3")
    assert made.tls.minimum_version == made.tls.maximum_version == ssl.TLSVersion.TLSv1_3


def test_a_login_in_our_words_and_in_javas() -> None:
    plain = security(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="me", sasl_password="secret"
    )
    assert plain.login == Login("PLAIN", "me", "secret")
    assert plain.tls is None
    java = security(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=JAAS)
    assert java.login == Login("SCRAM-SHA-512", 'al"ice', "s e,c;ret")
    assert java.tls is not None


def test_commands_take_the_same_settings() -> None:
    made = ClientConfig.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "me",
            "sasl.password": "secret",
        }
    )
    assert made.security.login == Login("SCRAM-SHA-256", "me", "secret")


def test_no_secret_is_shown() -> None:
    made = ProducerConfig.of(
        bootstrap_servers="b:1", security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="me",
        sasl_password="secret",
    )  # fmt: skip
    assert made.effective()["sasl.password"] == "[hidden]"
    assert made.effective()["sasl.jaas.config"] is None
    assert made.effective()["sasl.username"] == "me"
    assert "secret" not in repr(made) + repr(made.security)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security_protocol": "TLS"}, "String must be one of"),
        ({"security_protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI: not there; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "set sasl.username and sasl.password"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS, "sasl_username": "x"},
            "keep one",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "secret nonsense"},
            "sasl.jaas.config is not of the form",
        ),
        ({"security_protocol": "SSL", "ssl_truststore_type": "JKS"}, "only PEM is there; convert it: keytool"),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/not/there"}, "cannot be read: No such file"),
        ({"security_protocol": "SSL", "ssl_truststore_certificates": "nonsense"}, "no certificates in PEM"),
        ({"security_protocol": "SSL", "ssl_keystore_key": "x"}, "ssl.keystore.certificate.chain is missing"),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": "SSLv3"}, "use TLSv1.2 and TLSv1.3, or one of them"),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "ldap"},
            "use https, or nothing to accept any name",
        ),
        ({"ssl_truststore_password": "x"}, "certificates in PEM have none"),
        ({"sasl_kerberos_service_name": "kafka"}, "begin with sasl. are sasl.jaas.config, sasl.mechanism"),
        ({"ssl_provider": "x"}, "begin with ssl. are ssl.enabled.protocols"),
    ],
)  # fmt: skip
def test_what_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigException) as caught:
        security(**settings)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_store_of_javas_is_named_with_the_way_out(tmp_path: Path) -> None:
    store = tmp_path / "keys.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    for name, command in (("truststore", "keytool -exportcert"), ("keystore", "openssl pkcs12")):
        with pytest.raises(ConfigException, match=f"no PEM; if it is one of Java's stores: {command}"):
            security(**{"security_protocol": "SSL", f"ssl_{name}_location": str(store)})
