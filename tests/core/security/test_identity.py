"""Identities are shared by equals, told apart otherwise, and forgotten with the last connection that has one."""

import gc

from semel.core.security.identity import ANONYMOUS, PLAINTEXT, USER, Identities, ListenerName, Principal

ALICE = Principal(USER, "alice")


def test_the_same_principal_on_the_same_host_is_one_object() -> None:
    identities = Identities(PLAINTEXT)
    one = identities.of(ALICE, "10.0.0.1")
    assert identities.of(Principal("User", "alice"), "10.0.0.1") is one
    assert one.listener is PLAINTEXT


def test_another_principal_host_or_listener_is_another() -> None:
    here, there = Identities(PLAINTEXT), Identities(ListenerName("INTERNAL", is_inter_broker=True))
    several = [
        here.of(ALICE, "10.0.0.1"),
        here.of(ALICE, "10.0.0.2"),
        here.of(ANONYMOUS, "10.0.0.1"),
        here.of(Principal("Group", "alice"), "10.0.0.1"),
        there.of(ALICE, "10.0.0.1"),
    ]
    assert len({id(one) for one in several}) == len(set(several)) == 5


def test_an_identity_nobody_holds_is_forgotten() -> None:
    identities = Identities(PLAINTEXT)
    held = identities.of(ALICE, "10.0.0.1")
    for number in range(1000):
        identities.of(ALICE, f"10.0.1.{number}")
    gc.collect()
    assert len(identities) == 1
    assert identities.of(ALICE, "10.0.0.1") is held


def test_names_read_as_kafka_writes_them() -> None:
    assert (str(ANONYMOUS), str(ALICE)) == ("User:ANONYMOUS", "User:alice")
    assert repr(Identities(PLAINTEXT).of(ALICE, "::1")) == "Identity(User:alice on PLAINTEXT from ::1)"
