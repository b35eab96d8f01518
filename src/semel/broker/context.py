"""One request, beside its content: the version, the client, and the identity behind it.

Role.   Handlers are functions of (broker, request, context); they hold no state of their own.
Elsewhere. The broker, as a handler sees it: `parts`.
"""

from typing import NamedTuple

from semel.core.security.identity import Identity, ListenerName, Principal
from semel.net.inbound import InboundConnection


class RequestContext(NamedTuple):
    """One request, beside its content."""

    version: int
    client_id: str | None
    connection: InboundConnection
    identity: Identity
    """The connection's when the request came: a later login changes nothing about it."""

    @property
    def principal(self) -> Principal:
        return self.identity.principal

    @property
    def listener(self) -> ListenerName:
        return self.identity.listener
