"""One term of a controller: what it knows, what it was set to, and what it has to have done.

Role.   The parts of the machine share one `Term`.
"""

from dataclasses import dataclass, field

from semel.core.cluster.controller.context import Context
from semel.core.cluster.controller.effects import Effect, Note, Play, PlayNext
from semel.core.cluster.controller.events import Event


@dataclass(frozen=True, slots=True)
class Settings:
    """A controller's settings, under Kafka's names."""

    node_id: int
    listener: str = "PLAINTEXT"
    """The listener through which brokers call each other."""
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10


@dataclass(slots=True)
class Term:
    """Everything of one term."""

    context: Context
    settings: Settings
    outbox: list[Effect] = field(default_factory=list)
    elections: int = 0
    """Leaders that were elected; those of new partitions do not count, as in Kafka."""
    unclean_elections: int = 0
    """Those of them that were not in sync."""

    def note(self, text: str, *, is_warning: bool = True) -> None:
        self.outbox.append(Note(text, is_warning))

    def play(self, event: Event) -> None:
        """An event behind all others."""
        self.outbox.append(Play(event))

    def play_next(self, event: Event) -> None:
        """An event that is played as soon as this one is over."""
        self.outbox.append(PlayNext(event))
