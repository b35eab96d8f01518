"""SCRAM credentials: what is kept proves a password, as RFC 7677's own example shows, and is not one.

Method: the example's client proof and server signature are recomputed from what is kept.
"""

import base64
import hashlib
import hmac

import pytest

from semel.core.security.scram_credentials import Credential, credential, flaw
from semel.errors import ErrorCode, Refuse

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
MESSAGE = (
    f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={NONCE}".encode()
)
PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_standards_example() -> None:
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    kept = credential(1, iterations=4096, salt=SALT, salted_password=salted)
    assert isinstance(kept, Credential)
    assert hmac.digest(kept.server_key, MESSAGE, "sha256") == SIGNATURE
    client_signature = hmac.digest(kept.stored_key, MESSAGE, "sha256")
    client_key = bytes(one ^ other for one, other in zip(PROOF, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    assert salted not in kept


@pytest.mark.parametrize(("mechanism", "size"), [(1, 32), (2, 64)])
def test_keys_have_the_size_of_their_hash(mechanism: int, size: int) -> None:
    kept = credential(mechanism, iterations=4096, salt=b"s", salted_password=b"p" * size)
    assert isinstance(kept, Credential)
    assert (len(kept.stored_key), len(kept.server_key)) == (size, size)


def test_what_is_not_accepted() -> None:
    for iterations in (0, 4095, 16385):
        refused = credential(1, iterations=iterations, salt=b"s", salted_password=b"p")
        assert isinstance(refused, Refuse)
        assert refused.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    for salt, password in ((b"", b"p"), (b"s", b"")):
        assert isinstance(credential(1, iterations=4096, salt=salt, salted_password=password), Refuse)
    nameless, unknown = flaw("", 1), flaw("alice", 3)
    assert nameless is not None
    assert nameless.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert unknown is not None
    assert unknown.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert flaw("alice", 2) is None
