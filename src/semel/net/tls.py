"""TLS of the settings a link is given: `ssl.*` as an `ssl.SSLContext`.

Role.   `client_context` makes the context of the end that connects, once, and says which setting is wrong.
Flow.   `net.security` calls it for a security.protocol with TLS; `net.connection` connects with it.
Rules.  * A broker's certificate is always checked, its name unless `ssl.endpoint.identification.algorithm` is empty. Without
          a truststore the certificate authorities of this machine count.
        * Files are read when the context is made: a file that is missing or has the wrong format is an error then.
        * No secret is in an error.
"""

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from semel.exceptions import ConfigException

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM: Final = b"-----BEGIN "
_CONVERT: Final = {
    "truststore": "keytool -exportcert -rfc -keystore STORE -alias NAME > trusted.pem",
    "keystore": "openssl pkcs12 -in STORE.p12 -out key.pem (from JKS first: keytool -importkeystore -deststoretype pkcs12)",
}


def client_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    """The context these settings ask for; raises `ConfigException`. A setting that is not in `values` was not given."""
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
