"""Which partitions lack a leader or a replica, and what each broker carries.

Role.   `placed` judges every partition of a cluster's metadata, `burdens` adds up by broker. `semel cluster` prints them.
Rules.  * A partition has the worst of its states: offline (no leader), under its min.insync.replicas, at it (one more broker lost
          and acks=all is refused), under-replicated, ok. Kafka's tools use the same words.
        * A topic with one replica is as it was made: it is neither at its minimum nor under-replicated while it is led.
        * Leaders that are not the first replica are counted: a preferred election would move them back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from semel.client.cluster import TopicView


class Health(StrEnum):
    """From the worst to the best."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    UNDER_REPLICATED = "under-replicated"
    OK = "ok"


class Placed(NamedTuple):
    """A partition, its replicas, and its state."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    health: Health

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas that are not in sync."""
        return tuple(one for one in self.replicas if one not in self.isr)

    @property
    def is_preferred(self) -> bool:
        """Whether its first replica leads it."""
        return self.leader == self.replicas[0] if self.replicas else True


@dataclass(slots=True)
class Burden:
    """The partitions on one broker."""

    leaders: int = 0
    replicas: int = 0
    not_in_sync: int = 0
    """Replicas here that their leaders do not count."""
    not_preferred: int = 0
    """Partitions led here whose first replica is elsewhere."""


def placed(topics: "Iterable[TopicView]", min_isr: Mapping[str, int]) -> list[Placed]:
    """Every partition by topic and number; `min_isr` has the topics whose min.insync.replicas is known."""
    return [
        Placed(
            topic.name,
            one.partition,
            one.leader,
            one.leader_epoch,
            one.replicas,
            one.isr,
            _health(one.leader, len(one.replicas), len(one.isr), min_isr.get(topic.name, 1)),
        )
        for topic in topics
        for one in topic.partitions
    ]


def _health(leader: int, replicas: int, in_sync: int, min_isr: int) -> Health:
    if leader < 0:
        return Health.OFFLINE
    enough = min(min_isr, replicas)  # As brokers do: more than all is not asked for.
    if in_sync < enough:
        return Health.UNDER_MIN_ISR
    if in_sync == replicas:
        return Health.OK
    return Health.AT_MIN_ISR if in_sync == enough else Health.UNDER_REPLICATED


def burdens(partitions: Iterable[Placed], brokers: Iterable[int]) -> dict[int, Burden]:
    """By broker: those that are alive, and those that partitions name."""
    found = {broker: Burden() for broker in sorted(brokers)}
    for one in partitions:
        for broker in one.replicas:
            burden = found.setdefault(broker, Burden())
            burden.replicas += 1
            burden.not_in_sync += broker not in one.isr
        if one.leader >= 0:
            burden = found.setdefault(one.leader, Burden())
            burden.leaders += 1
            burden.not_preferred += not one.is_preferred
    return found
