"""The client's end of SCRAM: the exchanges printed in RFC 5802's successor, and brokers that are not to be believed.

Method: the messages of RFC 7677 with their nonce, byte for byte; a broker's end written here from what Semel keeps of a password
(`core.security.scram_credentials`), for any name and password; and every answer a broker could give that must not be believed.
"""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.security.scram import HASHES, ScramClient
from semel.core.security.scram_credentials import Credential, Mechanism, credential
from semel.errors import ErrorCode, RefusedError

SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_login() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", username="user", password="pencil", nonce="rOprNGfwEbeRWgbNEkqO")


def test_the_exchange_of_rfc_7677() -> None:
    login = rfc_login()
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    login.check(SERVER_FINAL)


@given(
    mechanism=st.sampled_from(sorted(HASHES)),
    username=st.text(min_size=1, max_size=20),
    password=st.text(max_size=20),
    other=st.text(max_size=20),
)
@settings(max_examples=25, deadline=None)
def test_a_broker_that_keeps_no_password_knows_who_knows_it(
    mechanism: str, username: str, password: str, other: str
) -> None:
    name = HASHES[mechanism]
    number = Mechanism.SHA_256 if name == "sha256" else Mechanism.SHA_512
    salt = b"a salt of any length"
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, 4096)
    kept = credential(number, iterations=4096, salt=salt, salted_password=salted)
    assert isinstance(kept, Credential)
    for tried in (password, other):
        login = ScramClient(mechanism, username=username, password=tried, nonce="mine")
        first = login.first().decode()
        assert first.removeprefix("n,,n=").removesuffix(",r=mine").count(",") == 0  # The name is one word.
        server_first = f"r=mineyours,s={base64.b64encode(salt).decode()},i=4096"
        final = login.final(server_first.encode()).decode()
        without_proof, proof = final.rsplit(",p=", 1)
        signed = f"{first.removeprefix('n,,')},{server_first},{without_proof}".encode()
        signature = hmac.digest(kept.stored_key, signed, name)
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        is_known = hashlib.new(name, client_key).digest() == kept.stored_key
        assert is_known == (tried.encode() == password.encode())
        if is_known:
            login.check(b"v=" + base64.b64encode(hmac.digest(kept.server_key, signed, name)))


@pytest.mark.parametrize(
    ("server_first", "why"),
    [
        (b"r=another,s=QQ==,i=4096", "another login's nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=QQ==,i=4096", "another login's nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=QQ==,i=4095", "4095 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=QQ==,i=999999999", "999999999 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=QQ==", "None iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=!,i=4096", "is not base64"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_a_broker_that_is_not_believed(server_first: bytes, why: str) -> None:
    with pytest.raises(RefusedError, match=why) as caught:
        rfc_login().final(server_first)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("server_final", "why"),
    [(b"e=other-error", "other-error"), (b"v=QUFB", "does not prove"), (b"", "does not prove")],
)
def test_a_broker_that_does_not_know_the_password(server_final: bytes, why: str) -> None:
    login = rfc_login()
    login.final(SERVER_FIRST)
    with pytest.raises(RefusedError, match=why):
        login.check(server_final)
