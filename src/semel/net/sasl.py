"""Saying who one is: SASL over a connection that has just been opened.

Role.   `authenticate` carries out one login, by PLAIN or SCRAM, in the messages of the protocol.
Flow.   `net.link` calls it between the first ApiVersions of a connection and everything else.
Rules.  * A refusal is final: the same name and password will not do a moment later. It is a `RefusedError` whose code says
          whether it was the mechanism or the login.
        * A password leaves this process with PLAIN only, and is in no error.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from semel.core.security.login import PLAIN, Login
from semel.core.security.scram import ScramClient
from semel.core.wire import registry
from semel.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.core.wire.messages.sasl_handshake import SaslHandshakeRequest
from semel.errors import ErrorCode, RefusedError
from semel.net.connection import Connection

_HANDSHAKE_KEY: Final = SaslHandshakeRequest.schema.api_key
_AUTHENTICATE_KEY: Final = SaslAuthenticateRequest.schema.api_key
_NONCE_BYTES: Final = 24
_FRAMED: Final = 1  # From this version of the handshake on what follows is in messages of the protocol.


async def authenticate(
    connection: Connection,
    login: Login,
    served: Mapping[int, tuple[int, int]],
    *,
    broker: str,
    timeout_ms: int,
    nonce: Callable[[], str] = lambda: secrets.token_urlsafe(_NONCE_BYTES),
) -> int | None:
    """Log in. For how many milliseconds the broker believes it; None: as long as the connection lives."""
    if _AUTHENTICATE_KEY not in served or served.get(_HANDSHAKE_KEY, (0, 0))[1] < _FRAMED:
        raise RefusedError(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"{broker} knows no SASL: set security.protocol to PLAINTEXT or SSL, or name a listener that has SASL",
        )
    answer = await connection.send(
        SaslHandshakeRequest(mechanism=login.mechanism), _FRAMED, timeout_ms=timeout_ms
    )
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{broker} does not take sasl.mechanism={login.mechanism}, only {', '.join(answer.mechanisms)}",
        )
    if answer.error_code:
        raise RefusedError(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"{broker} takes no login on this listener (error {answer.error_code}): is security.protocol right?",
        )
    version = min(served[_AUTHENTICATE_KEY][1], registry.api(_AUTHENTICATE_KEY).last)
    lifetime_ms = 0

    async def say(words: bytes) -> bytes:
        nonlocal lifetime_ms
        said = await connection.send(
            SaslAuthenticateRequest(auth_bytes=words), version, timeout_ms=timeout_ms
        )
        if said.error_code:
            reason = (said.error_message or "no reason given").rstrip(".")
            raise RefusedError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"{broker} refuses the login of {login.username!r} by {login.mechanism}: {reason}",
            )
        lifetime_ms = said.session_lifetime_ms
        return bytes(said.auth_bytes)

    if login.mechanism == PLAIN:
        await say(f"\0{login.username}\0{login.password}".encode())
    else:
        scram = ScramClient(login.mechanism, username=login.username, password=login.password, nonce=nonce())
        scram.check(await say(scram.final(await say(scram.first()))))
    return lifetime_ms or None
