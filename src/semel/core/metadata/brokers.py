"""The brokers of a cluster: where each can be reached, and which life of it that is."""

from dataclasses import dataclass
from typing import Final, NamedTuple

NO_EPOCH: Final = -1
"""The epoch of a broker that registers with nobody: not given, and accepted everywhere."""


class Endpoint(NamedTuple):
    """Where clients, or other brokers, connect to."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker that is alive."""

    broker_id: int
    endpoints: dict[str, Endpoint]
    """By listener name, in the order of the broker's own list."""
    rack: str | None = None
    epoch: int = NO_EPOCH
    """Grows with every registration, so that requests for an earlier life of the broker are told apart."""

    def on(self, listener: str) -> Endpoint | None:
        """Where to reach it for a client that came through this listener; None if the broker has no such listener."""
        return self.endpoints.get(listener)
