"""The topics a group subscribes to, by name and by regular expression, with the change of one request.

Role.   `Subscriptions` holds a group's subscriptions after one member has changed, the input of the metadata hash and
        the next target. `topic_ids` resolves one member's.
Rules.  * An unresolved expression matches no topics.
        * A topic that does not exist yet is ignored; when it is created, the hash changes.
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
    """The hashes of topics, cached until the topic changes."""

    __slots__ = ("_known", "_topics")

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[str, tuple[bytes, int, int]] = {}

    def of(self, names: Iterable[str]) -> int:
        """The hash of a group that subscribes to these topics."""
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
    """A group's subscriptions with one member replaced or added."""

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
        """Every subscribed topic. A set for membership tests only; its order is not deterministic."""
        names = set(self._names)
        for regex in self._regexes:
            names.update(self._resolved[regex].topics if regex in self._resolved else ())
        return names

    @property
    def regexes(self) -> list[str]:
        """Every subscribed expression."""
        return list(self._regexes)

    def are_alike(self) -> bool:
        """Whether all members have the same subscriptions, judged by counts."""
        if not self._regexes:
            return all(count == self._size for count in self._names.values())
        return not self._names and next(iter(self._regexes.values())) == self._size


def topic_ids(member: Member, resolved: Mapping[str, ResolvedRegex], topics: Topics) -> tuple[bytes, ...]:
    """Ids of a member's subscribed topics that exist, in Kafka's iteration order."""
    names = in_table_order(
        member.subscribed_topic_names, string_hash, copied_capacity(len(member.subscribed_topic_names))
    )
    regex = resolved.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
    if regex is not None:
        more = in_table_order(regex.topics, string_hash, copied_capacity(len(regex.topics)))
        names = list(dict.fromkeys([*names, *more]))
    found = (topics.topic(name) for name in names)
    return tuple(topic.topic_id.bytes for topic in found if topic is not None)
