"""SCRAM credentials as they are kept: nothing in them lets anyone log in as the user.

Role.   The rules of AlterUserScramCredentials, and what is kept of a password (RFC 5802). Pure.
Rules.  * A client sends a salted password; kept are the stored key and the server key derived from it.
        * Iterations are bounded as in Kafka: too few are weak, too many let one request cost the broker dearly.
Elsewhere. The proof that a client gives of its password: `scram`.
"""

import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

from semel.errors import ErrorCode, Refuse


class Mechanism(IntEnum):
    """Under the protocol's numbers."""

    SHA_256 = 1
    SHA_512 = 2


ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
_HASHES: Final = {Mechanism.SHA_256: "sha256", Mechanism.SHA_512: "sha512"}


class Credential(NamedTuple):
    """The keys that prove a password without being one."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def flaw(user: str, mechanism: int) -> Refuse | None:
    """Why nobody can have such a credential."""
    if not user:
        return Refuse(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in set(Mechanism):
        return Refuse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def credential(
    mechanism: int, *, iterations: int, salt: bytes, salted_password: bytes
) -> Credential | Refuse:
    """The credential to keep, or why it is not accepted."""
    if iterations < ITERATIONS_MIN:
        return Refuse(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"Too few iterations: {ITERATIONS_MIN} at least, not {iterations}",
        )
    if iterations > ITERATIONS_MAX:
        return Refuse(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"Too many iterations: {ITERATIONS_MAX} at most, not {iterations}",
        )
    if not salt or not salted_password:
        return Refuse(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty")
    name = _HASHES[Mechanism(mechanism)]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return Credential(
        iterations,
        salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", name),
    )
