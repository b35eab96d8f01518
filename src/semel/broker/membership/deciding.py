"""Requests that only the controller of a cluster decides: carried out while this broker is it, refused otherwise.

Role.   `dispatch` has one `Deciding` for each version of such an API.
Rules.  * A broker that does not stand for election refuses with NOT_CONTROLLER, as does one that is not elected now.
        * CreateTopics, DeleteTopics and CreatePartitions have the handlers of a broker alone: the store makes the difference.
"""

from collections.abc import Awaitable
from typing import Final

from semel.broker.apis import Row
from semel.broker.context import RequestContext
from semel.broker.membership import elsewhere
from semel.broker.parts import Administration, Membership
from semel.core.wire.message import Request, Response
from semel.core.wire.registry import ApiKey

_BY_STORE: Final = (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS)


class Deciding:
    """The handler of one API."""

    def __init__(self, membership: Membership, row: Row) -> None:
        self._membership = membership
        self._by_store = row.handler() if row.key in _BY_STORE else None

    def handle(
        self, broker: Administration, request: Request[Response], context: RequestContext
    ) -> Response | Awaitable[Response]:
        """Decide, or say who does."""
        controller = self._membership.controller
        if controller is None or not controller.is_active or self._by_store is None:
            return elsewhere.handle(broker, request, context)
        answer: Response | Awaitable[Response] = self._by_store(broker, request, context)
        return answer
