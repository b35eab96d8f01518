"""ListGroups: every broker's groups, because every broker coordinates some."""

import asyncio
from collections.abc import Sequence
from typing import Final

from semel.client.cluster import Cluster
from semel.client.values.administration import GroupListing
from semel.core.groups.listing import STATES, TYPES
from semel.core.wire.messages.list_groups import ListGroupsRequest
from semel.errors import UnsupportedVersionError, refused
from semel.exceptions import IllegalArgumentException

_STATES_VERSION: Final = 4
_TYPES_VERSION: Final = 5
_LIST_GROUPS: Final = ListGroupsRequest.schema.api_key


def _check(name: str, given: Sequence[str], known: Sequence[str]) -> None:
    """A broker answers a word it does not know with an empty list: a wrong one is refused here."""
    if isinstance(given, str):
        raise IllegalArgumentException(f"{name}={given!r} is a str: it must be a list of {', '.join(known)}")
    for one in given:
        if str(one).lower() not in {word.lower() for word in known}:
            raise IllegalArgumentException(f"{name}: {one!r} is none of {', '.join(known)}")


async def list_groups(
    cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """The groups of all brokers, by name; only those in one of these states and of one of these types, if any are named."""

    _check("states", states, STATES)
    _check("types", types, TYPES)

    async def ask_one(node_id: int) -> list[GroupListing]:
        last = (await cluster.served(node_id)).get(_LIST_GROUPS, (0, 0))[1]
        for given, needed, what in ((states, _STATES_VERSION, "state"), (types, _TYPES_VERSION, "type")):
            if given and last < needed:
                raise UnsupportedVersionError(
                    f"broker {node_id} of {cluster.where} does not tell the {what} of its groups "
                    f"(ListGroups {last}, {needed} is needed): leave the filter out or use a newer broker"
                )
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = await cluster.send(request, node_id=node_id)
        if answer.error_code:
            raise refused(answer.error_code, "to list its groups", by=cluster.where)
        return [
            GroupListing(
                one.group_id, one.group_type or None, one.protocol_type, one.group_state or None, node_id
            )
            for one in answer.groups
        ]

    async def ask() -> list[GroupListing]:
        await cluster.metadata([])
        answers = await asyncio.gather(*(ask_one(node_id) for node_id in cluster.nodes))
        return sorted((one for answer in answers for one in answer), key=lambda one: one.group_id)

    return await cluster.patiently(ask)
