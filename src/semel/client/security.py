"""What a connection needs before it may be used: TLS, and a login.

Role.   `Security.of` makes an `ssl.SSLContext` and a `Login` of a client's settings, once, and says what is wrong with them.
Flow.   `settings` and `config` call it for `security.protocol` other than PLAINTEXT; `cluster` uses it for each connection.
Rules.  * A broker's certificate is always checked, its name unless `ssl.endpoint.identification.algorithm` is empty. Without
          a truststore those count whom this machine trusts.
        * Files are read when the client is made: one that is not there, or is not what it should be, is an error then.
        * No secret is in an error, a repr or the effective settings.
"""

import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from semel.exceptions import ConfigException
from semel.net.sasl import MECHANISMS, Login

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM: Final = b"-----BEGIN "
_CONVERT: Final = {
    "truststore": "keytool -exportcert -rfc -keystore STORE -alias NAME > trusted.pem",
    "keystore": "openssl pkcs12 -in STORE.p12 -out key.pem (from JKS first: keytool -importkeystore -deststoretype pkcs12)",
}
_JAAS: Final = re.compile(
    r"""\s*(?P<module>[\w.$]+)\s+\w+(?P<options>(?:\s+[\w.]+\s*=\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+))*)\s*;?\s*"""
)
_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")


@dataclass(frozen=True, slots=True)
class Security:
    """Of one client's connections."""

    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    login: Login | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """What these settings ask for; raises `ConfigException`. What is not in `values` was not given."""
        protocol = str(values.get("security.protocol") or "PLAINTEXT").upper()
        return cls(
            tls=_context(values) if protocol in ("SSL", "SASL_SSL") else None,
            login=_login(values) if protocol.startswith("SASL_") else None,
        )


PLAINTEXT: Final = Security()


# TLS


def _context(values: Mapping[str, Any]) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        kind = values.get(f"ssl.{store}.type") or "PEM"
        if kind.upper() != "PEM":
            raise ConfigException(
                f"ssl.{store}.type={kind}: only PEM is there; convert it: {_CONVERT[store]}"
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions(context, values)
    wanted = values.get("ssl.endpoint.identification.algorithm", "https") or ""
    if wanted.lower() not in ("https", ""):
        raise ConfigException(
            f"ssl.endpoint.identification.algorithm={wanted}: use https, or nothing to accept any name"
        )
    context.check_hostname = bool(wanted)
    _trust(context, values)
    _identify(context, values)
    return context


def _set_versions(context: ssl.SSLContext, values: Mapping[str, Any]) -> None:
    names = values.get("ssl.enabled.protocols") or tuple(_VERSIONS)
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        raise ConfigException(
            f"ssl.enabled.protocols={','.join(names)}: use {' and '.join(_VERSIONS)}, or one of them"
        )
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _trust(context: ssl.SSLContext, values: Mapping[str, Any]) -> None:
    location, content = values.get("ssl.truststore.location"), values.get("ssl.truststore.certificates")
    if location and content:
        raise ConfigException(
            "ssl.truststore.location and ssl.truststore.certificates are both given: keep one"
        )
    if not location and not content:
        context.load_default_certs()
        return
    name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
    pem = _read(name, location, "truststore") if location else str(content)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigException(f"{name}: no certificates in PEM: {_reason(error)}") from None


def _identify(context: ssl.SSLContext, values: Mapping[str, Any]) -> None:
    """The client's own certificate, where the broker asks for one."""
    location = values.get("ssl.keystore.location")
    chain, key = values.get("ssl.keystore.certificate.chain"), values.get("ssl.keystore.key")
    if location and (chain or key):
        raise ConfigException("ssl.keystore.location is given beside ssl.keystore.key: keep one")
    if bool(chain) != bool(key):
        missing = "ssl.keystore.key" if chain else "ssl.keystore.certificate.chain"
        raise ConfigException(f"{missing} is missing: a certificate and its private key belong together")
    password = values.get("ssl.key.password") or ""  # Never asked for at the terminal.
    try:
        if location:
            _read("ssl.keystore.location", location, "keystore")
            context.load_cert_chain(location, password=password)
        elif chain and key:
            with tempfile.NamedTemporaryFile(
                "w", suffix=".pem"
            ) as together:  # Made for its owner's eyes alone.
                together.write(f"{key}\n{chain}\n")
                together.flush()
                context.load_cert_chain(together.name, password=password)
    except (ssl.SSLError, ValueError) as error:
        where = f"ssl.keystore.location={location}" if location else "ssl.keystore.key"
        raise ConfigException(
            f"{where}: no private key in PEM with its certificates behind it, or ssl.key.password is wrong: {_reason(error)}"
        ) from None


def _read(name: str, location: str, store: str) -> str:
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigException(f"{name}={location}: cannot be read: {error.strerror}") from None
    if _PEM not in content:
        raise ConfigException(f"{name}={location}: no PEM; if it is one of Java's stores: {_CONVERT[store]}")
    return content.decode("ascii", errors="replace")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


# SASL


def _login(values: Mapping[str, Any]) -> Login:
    mechanism = values.get("sasl.mechanism") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise ConfigException(f"sasl.mechanism={mechanism}: not there; use {', '.join(MECHANISMS)}")
    jaas = values.get("sasl.jaas.config")
    username, password = values.get("sasl.username"), values.get("sasl.password")
    if jaas and (username or password):
        raise ConfigException("sasl.jaas.config is given beside sasl.username and sasl.password: keep one")
    if jaas:
        username, password = _of_jaas(jaas)
    if not username or password is None:
        raise ConfigException(
            f"sasl.mechanism={mechanism} needs a name and a password: set sasl.username and sasl.password, or sasl.jaas.config"
        )
    return Login(mechanism, username, password)


def _of_jaas(content: str) -> tuple[str | None, str | None]:
    """Name and password in Java's words: `…PlainLoginModule required username="me" password="secret";`."""
    found = _JAAS.fullmatch(content)
    if found is None or not found["module"].endswith(_MODULES):
        raise ConfigException(
            'sasl.jaas.config is not of the form ...ScramLoginModule required username="..." password="..."; '
            "(or PlainLoginModule): sasl.username and sasl.password do as well"
        )
    options = {
        one[1]: re.sub(r"\\(.)", r"\1", next(part for part in one.groups()[1:] if part is not None))
        for one in _OPTION.finditer(found["options"])
    }
    return options.get("username"), options.get("password")
