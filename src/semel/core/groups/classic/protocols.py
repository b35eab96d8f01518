"""Which way of assigning a group takes, and which topics its members want.

Role.   Questions `ClassicGroup` asks about what its members said when they joined.
Rules.  * A protocol every member knows is a candidate. Each member votes for the candidate it likes best, the most
          votes win; of equals the one Kafka would take, which is the first in the order of a Java map.
        * What members say to each other means nothing to a coordinator, with one exception: consumers name their
          topics in it, and offsets of those topics must not expire. All versions of that begin like version 0. Where
          it cannot be read, nothing is known.
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
    """The topics of all these subscriptions, or None if one of them is none."""
    topics: set[str] = set()
    for one in metadata:
        found = _topics_of(one)
        if found is None:
            return None
        topics.update(found)
    return frozenset(topics)


@lru_cache(maxsize=_SUBSCRIPTIONS_REMEMBERED)
def _topics_of(metadata: bytes) -> tuple[str, ...] | None:
    """Most members of a group say the same, and again in every rebalance."""
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
