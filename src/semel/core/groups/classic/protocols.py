"""Choosing a group's protocol, and reading its members' topics.

Role.   Functions of the protocols and metadata in JoinGroup, for `ClassicGroup`.
Rules.  * A protocol every member knows is a candidate. Each member votes for its preferred candidate, and the most
          votes win. A tie goes to the first in the order of a Java map, as in Kafka.
        * Member metadata is opaque to the coordinator, with one exception: consumers name their topics in it, and
          offsets of these topics must not expire. All versions begin like version 0. Topics in unreadable metadata are
          unknown.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

from semel.core.groups.assignors.java_order import map_order
from semel.core.groups.classic.member import Member
from semel.core.wire import plain
from semel.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from semel.errors import InvariantError, WireError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2
_SUBSCRIPTIONS_REMEMBERED: Final = 256


def select_protocol(members: Collection[Member], candidates: Collection[str]) -> str:
    """The protocol of the next generation."""
    votes = Counter(member.vote(candidates) for member in members)
    if not votes:
        raise InvariantError("a group without members has no protocol to choose")
    return max(map_order(votes), key=lambda name: votes[name])  # `max` takes the first of equals.


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions, or None if one cannot be read."""
    topics: set[str] = set()
    for one in metadata:
        found = _topics_of(one)
        if found is None:
            return None
        topics.update(found)
    return frozenset(topics)


@lru_cache(maxsize=_SUBSCRIPTIONS_REMEMBERED)
def _topics_of(metadata: bytes) -> tuple[str, ...] | None:
    """Cached: most members of a group send the same metadata, in every rebalance."""
    version = int.from_bytes(metadata[:_VERSION_BYTES], "big", signed=True)
    if len(metadata) < _VERSION_BYTES or version < 0:
        return None
    try:
        found = plain.read(
            ConsumerProtocolSubscription, metadata, _VERSION_BYTES, version=0, flexible=False, open_end=True
        )
    except WireError:
        return None
    return tuple(found.topics)
