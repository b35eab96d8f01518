"""The client's end of SCRAM (RFC 5802, RFC 7677): proves that it knows a password, and that the broker does.

Role.   `ScramClient` makes the three messages of one login and checks the broker's two. Pure: the nonce is handed in.
Flow.   `net.sasl` sends `first()`, hands the answer to `final(…)`, sends that, and hands the last answer to `check(…)`.
Rules.  * A broker that does not prove that it knows the password is not believed.
        * Fewer iterations than 4,096 are refused, as Java's client does: the password would be easy to guess from them. So
          many that they only keep this process busy are refused too.
        * Names and passwords are UTF-8 as they are, without SASLprep, as in Kafka.
Elsewhere. The credential a broker keeps of a password: `core.security.scram_credentials`.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from semel.errors import ErrorCode, RefusedError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 1_000_000
_HEADER: Final = "n,,"  # No channel binding, nobody's name but the own.


class ScramClient:
    """One login."""

    def __init__(self, mechanism: str, *, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """The first message: the user who wants to log in."""
        return f"{_HEADER}{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The proof, made with what the broker said first."""
        said = _parts(server_first)
        nonce, salt = said.get("r", ""), _decoded(said.get("s", ""))
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise _distrusted("it answers another login's nonce")
        iterations = int(said["i"]) if said.get("i", "").isdecimal() else 0
        if not ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            raise _distrusted(
                f"it asks for {said.get('i')} iterations: {ITERATIONS_MIN} to {_ITERATIONS_MAX} are accepted"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        without_proof = f"c={_encoded(_HEADER.encode())},r={nonce}"
        signed = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={_encoded(proof)}".encode()

    def check(self, server_final: bytes) -> None:
        """Believe the broker, or raise."""
        said = _parts(server_final)
        if "e" in said:
            raise RefusedError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"the login is refused: {said['e']}")
        if not hmac.compare_digest(_decoded(said.get("v", "")), self._server_signature):
            raise _distrusted("it does not prove that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _parts(message: bytes) -> dict[str, str]:
    try:
        words = message.decode().split(",")
    except UnicodeDecodeError:
        raise _distrusted("its message is not UTF-8 text") from None
    return dict(word.split("=", 1) for word in words if "=" in word)


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise _distrusted(f"{content!r} is not base64") from None


def _distrusted(why: str) -> RefusedError:
    return RefusedError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"the broker cannot be trusted with a login: {why}"
    )
