"""Which topics a group reads: by name, by regular expression, as of now and as a request would make it.

Role.   `Subscriptions` is a group's subscriptions after one member has changed: what the metadata hash and the next
        target are computed from. `topic_ids` resolves one member's.
Rules.  * An expression that is not resolved yet stands for no topics.
        * Topics nobody has made yet count for nothing until they appear; then the hash changes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from semel.core.groups.assignors.java_order import string_hash
from semel.core.groups.consumer.group import ConsumerGroup, ResolvedRegex, recount
from semel.core.groups.consumer.java_order import copied_capacity, in_table_order
from semel.core.groups.consumer.member import Member
from semel.core.groups.consumer.metadata_hash import group_hash, topic_hash
from semel.core.groups.group import Topic, Topics


class TopicHashes:
    """The hashes of topics, each computed once for as long as the topic is what it was."""

    __slots__ = ("_known", "_topics")

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[str, tuple[bytes, int, int]] = {}

    def of(self, names: Iterable[str]) -> int:
        """The hash of a group that reads these topics."""
        hashes = {}
        for name in names:
            topic = self._topics.topic(name)
            if topic is not None:
                hashes[name] = self._hash(topic)
            else:
                self._known.pop(name, None)
        return group_hash(hashes)

    def _hash(self, topic: Topic) -> int:
        topic_id, partitions = topic.topic_id.bytes, topic.partitions
        known = self._known.get(topic.name)
        if known is None or known[:2] != (topic_id, partitions):
            hashed = topic_hash(topic.name, topic_id, partitions)
            known = self._known[topic.name] = (topic_id, partitions, hashed)
        return known[2]


class Subscriptions:
    """A group's subscriptions with one member in the place of another, or of none."""

    __slots__ = ("_names", "_regexes", "_resolved", "_size")

    def __init__(
        self,
        group: ConsumerGroup,
        *,
        without: Iterable[Member] = (),
        plus: Member | None = None,
        resolved: Mapping[str, ResolvedRegex] | None = None,
    ) -> None:
        names: Counter[str] = Counter(group.name_counts)
        regexes: Counter[str] = Counter(group.regex_counts)
        size = len(group.members)
        for member, by in [*((one, -1) for one in without), *([(plus, 1)] if plus is not None else [])]:
            recount(names, member.subscribed_topic_names, by)
            recount(regexes, [member.subscribed_topic_regex] if member.subscribed_topic_regex else [], by)
            size += by
        self._names = names
        self._regexes = regexes
        self._resolved = group.regexes if resolved is None else resolved
        self._size = size

    def topic_names(self) -> set[str]:
        """Every topic somebody reads. A set: for looking up, never for going through in its order."""
        names = set(self._names)
        for regex in self._regexes:
            names.update(self._resolved[regex].topics if regex in self._resolved else ())
        return names

    @property
    def regexes(self) -> list[str]:
        """Every expression somebody subscribes with."""
        return list(self._regexes)

    def are_alike(self) -> bool:
        """Whether all members read the same topics, as far as counting tells."""
        if not self._regexes:
            return all(count == self._size for count in self._names.values())
        return not self._names and next(iter(self._regexes.values())) == self._size


def topic_ids(member: Member, resolved: Mapping[str, ResolvedRegex], topics: Topics) -> tuple[bytes, ...]:
    """The ids of the topics a member reads that exist, in the order in which Kafka goes through them."""
    names = in_table_order(
        member.subscribed_topic_names, string_hash, copied_capacity(len(member.subscribed_topic_names))
    )
    regex = resolved.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    if regex is not None:
        more = in_table_order(regex.topics, string_hash, copied_capacity(len(regex.topics)))
        names = list(dict.fromkeys([*names, *more]))
    found = (topics.topic(name) for name in names)
    return tuple(topic.topic_id.bytes for topic in found if topic is not None)
