"""The interface behind which metadata lives: standalone in a log, in a cluster in ZooKeeper.

Role.   Handlers read `image` and ask for changes; they do not know where the metadata is kept. The store's
        `Applier` carries the consequences out.
Rules.  * A change is in the image, survives a power cut, and is carried out here, when `commit` returns.
        * The applier is given every delta, in the order of the changes, and everything at first: it cannot tell whether a
          change was decided here, by a controller elsewhere, or read at a start.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.deltas import Delta
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.rows import Row, TopicGoneRow, TopicRow
from semel.errors import ErrorCode, Refuse, SemelError


class ChangeRefusedError(SemelError):
    """A change that this broker cannot make; its code is the one to answer."""


class NotControllerError(ChangeRefusedError):
    """Only the cluster's controller decides this change: clients ask it."""

    code = ErrorCode.NOT_CONTROLLER


class UnservedChangeError(ChangeRefusedError):
    """A change that a cluster of this kind cannot keep."""

    code = ErrorCode.INVALID_REQUEST


class MetadataAwayError(ChangeRefusedError):
    """The metadata is out of reach."""

    code = ErrorCode.REQUEST_TIMED_OUT


class Applier(Protocol):
    """The part of a broker that follows the metadata."""

    async def apply(self, deltas: Sequence[Delta]) -> dict[str, OSError]:
        """Carry out the consequences; returns the topics that the disk refused, and why."""


class MetadataStore(Protocol):
    """Metadata and the way to change it."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_controller(self) -> bool:
        """Whether changes that the controller of a cluster decides are decided here."""

    @property
    def draw(self) -> Callable[[int], int] | None:
        """The dice for placing replicas on the brokers of a cluster: a number below its argument. None: there is one broker."""

    async def feed(self, applier: Applier) -> Mapping[str, OSError]:
        """Give the applier a snapshot now, and every later change; returns the topics that the disk refused."""

    async def register(self, broker: RegisteredBroker) -> None:
        """This broker is there, and can be reached."""

    async def create_topic(
        self,
        name: str,
        *,
        topic_id: uuid.UUID,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> Refuse | None:
        """Have a topic that this broker wants, spread over the brokers there are; why it cannot be.

        It may be asked for on any broker of a cluster, so it has leaders only after a while. Raises as `commit` does, and OSError.
        """

    async def change_topics(
        self, rows: Sequence[TopicRow | TopicGoneRow], *, timeout_ms: int
    ) -> Mapping[str, Refuse]:
        """Make, grow or remove topics; returns those for which that is not done, and why. In a cluster it is asked of the controller,
        and waits for its effect, for `timeout_ms` at most. Raises `LogError`.
        """

    async def commit(self, rows: Sequence[Row]) -> Mapping[str, OSError]:
        """Make the changes, all or none, durably; raises `LogError` or `ChangeRefusedError` if that cannot be.

        Returns the topics that the disk refused here, and why.
        """
