"""A link's protection: TLS, and a login.

Role.   `Security.of` makes an `ssl.SSLContext` and a `Login` of settings, once, and says what is wrong with them.
Flow.   A client's `settings` and `config` call it; `net.link` uses it for each connection.
Rules.  No secret is in an error, a repr or the effective settings.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from semel.core.security.login import Login, login_of
from semel.net.tls import client_context


@dataclass(frozen=True, slots=True)
class Security:
    """Of all links of one client, or of one broker to the others."""

    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    login: Login | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The protection these settings ask for; raises `ConfigException`. A setting missing from `values` was not given."""
        protocol = str(values.get("security.protocol") or "PLAINTEXT").upper()
        return cls(
            tls=client_context(values) if protocol in ("SSL", "SASL_SSL") else None,
            login=login_of(values) if protocol.startswith("SASL_") else None,
        )


PLAINTEXT: Final = Security()
