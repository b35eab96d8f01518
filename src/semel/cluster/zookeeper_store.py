"""The metadata of a member of a cluster: what the controller tells, and the settings in ZooKeeper.

Role.   `ZooKeeperStore` is the `MetadataStore` of a broker with `zookeeper.connect`.
Flow.   `start` reads features and settings -> `feed` -> `register` -> `tell`, for all that UpdateMetadata says; `commit` for settings
        that a client changes here; `create_topic` for topics nobody created; `change_topics` while this broker is the controller.
Rules.  * Topics, brokers and the controller are what the controller tells. Settings are what ZooKeeper has.
        * A member writes settings and quotas itself, as every broker of Kafka does. What only a controller may decide raises
          `NotControllerError`; credentials are written by the broker that is it.
        * The image changes once ZooKeeper has answered, in the turn of the settings: nothing older comes after it.
        * A change that ZooKeeper did not hear of in time is not made. One that it may have heard of is finished when it is back, and
          its client is told that it may be made.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from semel.cluster import config_writing, topic_administration, topic_creation
from semel.cluster.config_nodes import ConfigNodes
from semel.cluster.finalized_features import FinalizedFeatures
from semel.cluster.member import Member, MemberError
from semel.cluster.registration import Registration
from semel.cluster.store import (
    Applier,
    ChangeRefusedError,
    MetadataAwayError,
    NotControllerError,
    UnservedChangeError,
)
from semel.cluster.zookeeper.client import ZooKeeperUnreachableError
from semel.cluster.zookeeper.recipes import notify
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.cluster import documents, entities, paths
from semel.core.cluster.documents import BrokerNode, ZnodeError
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.deltas import Delta, TopicAdded, TopicRemoved
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.rows import (
    BrokerConfigRow,
    Change,
    ClientQuotaRow,
    GroupConfigRow,
    Row,
    ScramRow,
    TopicConfigRow,
    TopicGoneRow,
    TopicRow,
)
from semel.errors import ConfigError, ErrorCode, Refuse

T = TypeVar("T")
_LATE: Final = Refuse(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
_log: Final = logging.getLogger(__name__)
_CONFIGS_SECONDS: Final = 5.0
"""How long an order waits for a new topic's settings; a controller waits for its answer."""


class ZooKeeperStore:
    """Metadata in ZooKeeper, and in the controller's requests."""

    def __init__(
        self,
        member: Member,
        *,
        broker_id: int,
        protocols: Mapping[str, str],
        supported_features: Mapping[str, tuple[int, int]],
        change_timeout_ms: int = 30_000,
    ) -> None:
        """`protocols`: the security protocol of each listener. `change_timeout_ms`: for how long a change waits."""
        self.member: Final = member
        self.image: Final = MetadataImage(is_told=True)
        self.registration: Final = Registration(member)
        self.features: Final = FinalizedFeatures(member, supported_features)
        self._configs = ConfigNodes(member, broker_id=broker_id, take=self._take)
        self._broker_id = broker_id
        self._protocols = protocols
        self._change_seconds = change_timeout_ms / 1000
        self._applier: Applier | None = None
        self._told = asyncio.Event()
        """Set when the controller has told something, and replaced."""
        self.controls: Callable[[], bool] = lambda: False
        """Whether this broker is the controller now."""

    @property
    def broker_epoch(self) -> int:
        """Of the last registration; -1 before the first."""
        return self.registration.broker_epoch

    @property
    def is_controller(self) -> bool:
        return self.controls()

    @property
    def draw(self) -> Callable[[int], int]:
        return self.member.runtime.dice.randrange

    async def start(self) -> None:
        """Read features and settings, and follow them. Raises `MemberError`."""
        await self.features.start()
        await self._configs.start()

    async def close(self) -> None:
        """Follow nothing any more, and end the session: the broker is registered no more."""
        self.features.stop()
        self._configs.stop()
        self.registration.stop()
        await self.member.close()

    async def feed(self, applier: Applier) -> Mapping[str, OSError]:
        self._applier = applier
        return await applier.apply(self.image.snapshot())

    async def register(self, broker: RegisteredBroker) -> None:
        """Raises `MemberError`. The controller tells of this broker as it does of all others."""
        node = BrokerNode(broker.endpoints, self._protocols, broker.rack)
        await self.registration.register(broker.broker_id, node)

    async def tell(self, changes: Sequence[Change]) -> Mapping[str, OSError]:
        """The controller says so: the image has it, and the applier follows, in the order of the calls."""
        deltas = [delta for change in changes for delta in self.image.apply(change)]
        told, self._told = self._told, asyncio.Event()
        told.set()
        added: list[str] = []
        for delta in deltas:
            match delta:
                case TopicRemoved(topic):
                    self._configs.forget(topic.name)
                case TopicAdded(topic):
                    added.append(topic.name)
        self._configs.owe(added)
        return await self._follow(deltas)

    async def load_topic_configs(self, names: Iterable[str], *, anew: bool = False) -> None:
        """The settings of these topics are in the image, once this returns; those of a topic that was made since are read.

        `anew`: a topic has another id than was known. Without ZooKeeper it returns after a while, and they come later.
        """
        await self._configs.load(names, anew=anew, seconds=min(_CONFIGS_SECONDS, self._change_seconds))

    async def commit(self, rows: Sequence[Row | TopicConfigRow]) -> Mapping[str, OSError]:
        """Raises `NotControllerError` for what is the controller's, `UnservedChangeError`, `MetadataAwayError`."""
        changes = [change for row in rows if (change := self._changed(row)).settings]
        if changes:
            await self._bounded(lambda: self._write(changes))
        return {}

    async def create_topic(
        self,
        name: str,
        *,
        topic_id: uuid.UUID,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> Refuse | None:
        """Create a topic over the living brokers; the controller makes its partitions.

        Raises `NotControllerError`, `MetadataAwayError`.
        """

        async def create() -> uuid.UUID | Refuse:
            return await topic_creation.create_topic(
                self.member.client,
                self.member.runtime,
                self.image,
                name,
                topic_id,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
            )

        made = await self._bounded(create)
        return made if isinstance(made, Refuse) else None

    async def change_topics(
        self, rows: Sequence[TopicRow | TopicGoneRow], *, timeout_ms: int
    ) -> Mapping[str, Refuse]:
        deadline = self.member.runtime.clock.monotonic() + timeout_ms / 1000

        async def change() -> list[Refuse | None]:
            client, runtime = self.member.client, self.member.runtime
            return [await topic_administration.change(client, runtime, self.image, row) for row in rows]

        try:
            outcomes = await self._bounded(change)
        except ChangeRefusedError as error:
            return {row.name: Refuse(error.code, str(error)) for row in rows}
        refused = {row.name: one for row, one in zip(rows, outcomes, strict=True) if one is not None}
        waiting = [row for row in rows if row.name not in refused]
        await self.until(lambda: all(self._shows(row) for row in waiting), deadline)
        late = {row.name: _LATE for row in waiting if not self._shows(row)}
        return refused | late

    def _shows(self, row: TopicRow | TopicGoneRow) -> bool:
        """Whether clients are told of a change here."""
        known = self.image.topic(row.name)
        if isinstance(row, TopicGoneRow):
            return known is None
        return (
            known is not None
            and known.topic_id == row.topic_id
            and known.partitions >= row.partitions
            and all(state.leader >= 0 for state in known.states)
        )

    async def until(self, condition: Callable[[], bool], deadline: float) -> None:
        """Wait until the controller has told so, or the clock shows `deadline`."""
        clock = self.member.runtime.clock
        while not condition() and (left := deadline - clock.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._told.wait()
            except TimeoutError:
                return

    async def tell_of_failed_logs(self) -> None:
        """Have the controller ask which replicas here are offline. Raises `ChangeRefusedError`; it may be told twice."""
        await self._bounded(
            lambda: notify(
                self.member.client,
                paths.LOG_DIR_EVENT_PREFIX,
                documents.encode_log_dir_event(self._broker_id),
            )
        )

    def _changed(self, row: Row | TopicConfigRow) -> entities.Changed:
        match row:
            case TopicRow(name, topic_id, states):
                known = self.image.topic(name)
                if known is None or known.topic_id != topic_id or known.states != states:
                    raise NotControllerError(
                        f"topic {name} is made and grown by the cluster's controller, broker {self.image.controller_id}: ask it"
                    )
                decided = entities.changed(row, self.image)
            case TopicConfigRow() | BrokerConfigRow() | ClientQuotaRow():
                decided = entities.changed(row, self.image)
            case ScramRow() if self.is_controller:
                decided = entities.changed(row, self.image)
            case GroupConfigRow(group):
                raise UnservedChangeError(
                    f"group {group} cannot have settings of its own: a cluster under ZooKeeper keeps none for groups; set the "
                    "broker's group.* settings"
                )
            case TopicGoneRow(name):
                raise NotControllerError(
                    f"topic {name} is deleted by the cluster's controller, broker {self.image.controller_id}: ask it"
                )
            case _:
                raise NotControllerError(
                    f"this is decided by the cluster's controller, broker {self.image.controller_id}: ask it"
                )
        if isinstance(decided, Refuse):
            raise UnservedChangeError(decided.reason)
        return decided

    async def _write(self, changes: Sequence[entities.Changed]) -> None:
        written = await config_writing.write(self.member.client, self.member.runtime, changes)
        rows: list[Change] = []
        for entity, configs in written:
            self._configs.knows(entity, has_settings=bool(configs))
            rows += entities.rows(entity, configs).rows
        await self._take(rows)

    async def _bounded(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` gives, in the turn of the settings, or `MetadataAwayError` in time."""
        turn, servers = self._configs.turn, self.member.settings.servers
        clock = self.member.runtime.clock
        deadline = clock.monotonic() + self._change_seconds
        try:
            async with asyncio.timeout(self._change_seconds):
                await self.member.client.connected()
                await turn.acquire()
        except TimeoutError:
            raise MetadataAwayError(
                f"ZooKeeper at {servers} could not be reached for {self._change_seconds:.0f} s: nothing was changed, try again "
                "when it is back"
            ) from None
        except ZooKeeperUnreachableError as error:
            raise MetadataAwayError(str(error)) from error
        has_left = False

        async def finish() -> T:
            try:
                return await self.member.patiently(call)
            finally:
                turn.release()

        def failed(_name: str, error: BaseException) -> None:
            if has_left:
                _log.error("a change whose client waits no more was not made: %s", error)

        task = self.member.runtime.tasks.spawn(finish(), name="change of metadata", on_failure=failed)
        await asyncio.wait({task}, timeout=max(0.0, deadline - clock.monotonic()))
        if not task.done():
            has_left = True
            raise MetadataAwayError(
                f"ZooKeeper at {servers} did not answer for {self._change_seconds:.0f} s: the change may be made, or will be when it "
                "is back; look before you repeat it"
            )
        try:
            return task.result()
        except (ZooKeeperUnreachableError, ZooKeeperError, MemberError, ZnodeError) as error:
            raise ChangeRefusedError(str(error)) from error

    async def _take(self, rows: Sequence[Change]) -> None:
        try:
            await self._follow([delta for row in rows for delta in self.image.apply(row)])
        except ConfigError as error:
            _log.error("settings in ZooKeeper contradict each other and do not take effect here: %s", error)

    async def _follow(self, deltas: Sequence[Delta]) -> Mapping[str, OSError]:
        return await self._applier.apply(deltas) if deltas and self._applier is not None else {}
