"""The leader of a classic group: the other members' subscriptions, and the assignment.

Role.   `Leadership` is the part of a `Member` that only a leader needs: the group's topics, and the assignment.
Flow.   JoinGroup names it leader (`begin`) -> the shell looks at the topics -> `divide` -> SyncGroup. While it leads,
        it watches the topics: `have_changed` is a reason to rejoin. The next JoinGroup ends the leadership.
Rules.  A member with unreadable metadata has no subscriptions and gets no partitions; the other members are unaffected.
Elsewhere. The assignment itself: `assignors`.
"""

from collections.abc import Iterable, Sequence

from semel.core.groups.assignors import ASSIGNORS
from semel.core.groups.assignors import members as assigning
from semel.core.groups.assignors.protocol import MemberAssignment, decode_subscription, encode_assignment
from semel.core.wire.messages.join_group import JoinGroupResponseMember
from semel.core.wire.messages.sync_group import SyncGroupRequestAssignment
from semel.errors import WireError


class Leadership:
    """One member's leadership of one generation; empty while another member leads."""

    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ()
        """The group's subscribed topics."""
        self._members: Sequence[assigning.Member] = ()
        self._counts: dict[str, int] | None = None

    def begin(self, members: Iterable[JoinGroupResponseMember]) -> None:
        """The member leads these members, itself included."""
        self._members = [_understood(one) for one in members]
        self.topics = tuple(sorted({topic for one in self._members for topic in one.topics}))

    def end(self) -> None:
        self.topics = self._members = ()
        self._counts = None

    def asked_for(self, topics: assigning.Topics) -> bool:
        """Whether these are all the group's topics."""
        return topics.keys() >= set(self.topics)

    def have_changed(self, topics: assigning.Topics) -> bool:
        """Whether partition counts differ from the first ones it saw of these topics."""
        counts = {topic: len(topics[topic]) for topic in self.topics}
        if self._counts is None:
            self._counts = counts
        return counts != self._counts

    def divide(self, assignor: str, topics: assigning.Topics) -> list[SyncGroupRequestAssignment]:
        """The assignment of every member."""
        divided = ASSIGNORS[assignor].assign(topics, self._members)
        self._members = ()
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(MemberAssignment(partitions))
            )
            for member_id, partitions in divided.items()
        ]


def _understood(one: JoinGroupResponseMember) -> assigning.Member:
    try:
        return decode_subscription(one.member_id, one.metadata, one.group_instance_id)
    except WireError:
        return assigning.Member(one.member_id, (), one.group_instance_id)
