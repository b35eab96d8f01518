"""The settings of TLS and SASL, which every client has: Kafka's names, types and defaults.

Role.   The table `SECURITY_KEYS`, part of those in `config_keys`, and why other settings of Kafka's are refused.
Rules.  * Certificates and keys are PEM, in files or as text: Java's stores (JKS, PKCS12) are refused with the way to convert them.
        * `sasl.username` and `sasl.password` are no keys of Java's: they stand for a `sasl.jaas.config` with the same in it.
        * A refused setting is never passed over: nobody is to believe to be safe who is not.
"""

from typing import Final

from semel.core.metadata.config_types import (
    HIGH,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    ConfigKey,
    Items,
    OneOf,
)

PROTOCOLS: Final = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
OWN_KEYS: Final = frozenset({"sasl.username", "sasl.password"})
"""Of this client's, beside Kafka's."""

SECURITY_KEYS: Final = (
    ConfigKey("security.protocol", STRING, "PLAINTEXT", OneOf(PROTOCOLS, any_case=True), MEDIUM),
    ConfigKey("sasl.jaas.config", PASSWORD, None, None, MEDIUM),
    ConfigKey("sasl.mechanism", STRING, "GSSAPI", None, MEDIUM),
    ConfigKey("sasl.password", PASSWORD, None, None, MEDIUM),
    ConfigKey("sasl.username", STRING, None, None, MEDIUM),
    ConfigKey("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", Items(), MEDIUM),
    ConfigKey("ssl.endpoint.identification.algorithm", STRING, "https", None, LOW),
    ConfigKey("ssl.key.password", PASSWORD, None, None, HIGH),
    ConfigKey("ssl.keystore.certificate.chain", PASSWORD, None, None, HIGH),
    ConfigKey("ssl.keystore.key", PASSWORD, None, None, HIGH),
    ConfigKey("ssl.keystore.location", STRING, None, None, HIGH),
    ConfigKey("ssl.keystore.type", STRING, "PEM", None, MEDIUM),
    ConfigKey("ssl.truststore.certificates", PASSWORD, None, None, HIGH),
    ConfigKey("ssl.truststore.location", STRING, None, None, HIGH),
    ConfigKey("ssl.truststore.type", STRING, "PEM", None, MEDIUM),
)
"""`ssl.*.type` is JKS in Java, where that is the only other thing it can be."""

_INSTEAD: Final = {
    "ssl.truststore.password": "certificates in PEM have none",
    "ssl.keystore.password": "PEM has none for the whole; ssl.key.password is that of the private key",
    "ssl.cipher.suites": "Python's own choice is used",
    "ssl.protocol": "ssl.enabled.protocols says which versions of TLS are used",
}


def is_security(dotted: str) -> bool:
    """Whether a name can only be a setting of TLS or SASL."""
    return dotted.startswith(("ssl.", "sasl.", "security."))


def why_refused(name: str, dotted: str) -> str:
    """The refusal of a setting of TLS or SASL that is not in the table."""
    instead = _INSTEAD.get(dotted)
    if instead is not None:
        return f"{name}: not there; {instead}"
    part = "sasl." if dotted.startswith("sasl.") else "ssl."
    there = ", ".join(key.name for key in SECURITY_KEYS if key.name.startswith(part))
    return f"{name} is not a setting: those that begin with {part} are {there}"
