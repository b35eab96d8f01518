"""Everything that an event of the controller has its shell do, beside the operations on ZooKeeper.

Role.   The machine appends effects to its outbox; the shell takes them after every batch, and carries them out in their order.
Rules.  * Requests to one broker are sent one after the other, in the order of the effects.
        * `Play` puts an event behind all that wait, `PlayNext` before them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from semel.core.cluster.controller.context import LiveBroker
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrRequest
from semel.core.wire.messages.stop_replica import StopReplicaRequest
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from semel.core.cluster.controller.events import Event


@dataclass(frozen=True, slots=True)
class Connect:
    """A broker has come: a queue for it. One that it has in the same epoch keeps what waits, and has the new address."""

    broker: LiveBroker


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A broker has gone: nothing is sent to it any more."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    broker_id: int
    request: LeaderAndIsrRequest


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    """One request for all of these brokers, in which only the broker epoch differs."""

    broker_epochs: tuple[tuple[int, int], ...]
    request: UpdateMetadataRequest


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    broker_id: int
    request: StopReplicaRequest


@dataclass(frozen=True, slots=True)
class Play:
    event: "Event"


@dataclass(frozen=True, slots=True)
class PlayNext:
    event: "Event"


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the log."""

    text: str
    is_warning: bool = True


Send: TypeAlias = SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica
Effect: TypeAlias = Connect | Disconnect | Send | Play | PlayNext | Note
