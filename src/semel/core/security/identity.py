"""The principal, listener and host behind a request: everything about its sender that a decision may depend on.

Role.   A connection has an `Identity`; a login replaces it. Access control and quotas ask by it, memories of answers are keyed by it.
Flow.   `net.listener` gives every connection the identity of an anonymous client; requests carry it in their context.
Rules.  * Connections with the same principal, listener and host share one object, from `Identities`: comparing and hashing it costs
          nothing on the hot path.
        * An identity never changes.
"""

import weakref
from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A name that was proved, or `ANONYMOUS`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


class ListenerName(NamedTuple):
    """A listener as requests know it: its name from `listeners`, and whether brokers call each other through it."""

    name: str
    is_inter_broker: bool = False


PLAINTEXT: Final = ListenerName("PLAINTEXT")


class Identity:
    """One principal on one host, come in through one listener. Equal only to itself: see `Identities`."""

    __slots__ = ("__weakref__", "host", "listener", "principal")

    def __init__(self, principal: Principal, listener: ListenerName, host: str) -> None:
        self.principal: Final = principal
        self.listener: Final = listener
        self.host: Final = host

    def __repr__(self) -> str:
        return f"Identity({self.principal} on {self.listener.name} from {self.host})"


class Identities:
    """The identities of one listener's clients, one object each, as long as anybody holds it."""

    def __init__(self, listener: ListenerName) -> None:
        self.listener = listener
        self._known: weakref.WeakValueDictionary[tuple[Principal, str], Identity] = (
            weakref.WeakValueDictionary()
        )

    def __len__(self) -> int:
        return len(self._known)

    def of(self, principal: Principal, host: str) -> Identity:
        """The identity of this principal on this host."""
        found = self._known.get((principal, host))
        if found is None:
            found = self._known[principal, host] = Identity(principal, self.listener, host)
        return found
