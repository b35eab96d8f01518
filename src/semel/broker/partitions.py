"""The partitions this broker has a replica of: which there are, and which of them it leads.

Role.   From a topic's name or id to a partition, and the life of partitions: made, grown, reconfigured, deleted.
Flow.   Handlers ask for a `LedPartition` and append to it or read its log. `assigned` says which replicas are here, in which
        role and epoch. For a broker alone that is the metadata image, and `metadata_applier` says when it has changed. For a member
        of a cluster it is what the controller ordered, and `membership.orders` says when.
Rules.  * A partition is led in the epoch the metadata says. After an unclean stop it is higher, and no lost record ever had it: a
          consumer that read what was lost can tell. The log that was cut back may not remember it.
        * Directories without a topic in the metadata are left-overs of a deletion or creation a crash interrupted: they go. Those of a
          member stay until the controller has them deleted: it may not have told of their topics yet.
        * A partition that cannot be opened has no leader and answers KAFKA_STORAGE_ERROR; every other one is served.
        * A partition the disk refused to make is made later: `complete` tries again.
        * A removed topic is not led any more at once. Its files go when no cleaning is under way, and before a topic of the same
          name is made.
        * New partitions are made on threads, a few at a time, and their names synced together: a topic may have thousands.
          They are led, and taken out, `_AT_ONCE` at a time: other clients have their turns between.
Elsewhere. The work for one partition: `replicas.replica`, and `replicas.led_partition` while it is led here.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias, TypeVar

from semel.broker.config import BrokerConfig
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.led_partition import LedPartition
from semel.broker.replicas.replica import Replica
from semel.broker.replicas.surroundings import Replication, Surroundings
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import PartitionState
from semel.core.metadata.rows import TopicRow
from semel.core.metadata.topic_names import INTERNAL, METADATA_TOPIC
from semel.errors import CorruptBatchError, ErrorCode, LogError, RecoveryHaltedError
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.halt import Halt
from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

T = TypeVar("T")
U = TypeVar("U")
_logger = logging.getLogger(__name__)
_OPENERS: Final = 8  # Threads that open logs after an unclean stop.
_MAKERS: Final = 8  # Threads that make partitions: as many syncs as a disk takes together.
_AT_ONCE: Final = 250
"""Partitions led, or taken out, in one turn of the loop: some milliseconds of work."""


Quiet: TypeAlias = Callable[[Sequence[TopicPartition]], AbstractAsyncContextManager[None]]
"""While it lasts nobody else works on the files of these partitions."""


class Partitions:
    """Every partition of this broker."""

    def __init__(
        self,
        directory: LogDirectory,
        image: MetadataImage,
        config: BrokerConfig,
        runtime: Runtime,
        *,
        assigned: MetadataImage | None = None,
    ) -> None:
        """`assigned`: of a member of a cluster, the topics with the partitions whose replicas are to be here."""
        self._directory = directory
        self._image = image
        self._assigned = image if assigned is None else assigned
        self._is_member = assigned is not None
        self.replication: Replication | None = None
        """A member's way to the other brokers; set before the first role."""
        self._config = config
        self._runtime = runtime
        self._by_topic: dict[str, list[Replica | None]] = {}
        self._making = asyncio.Lock()
        self._removing = asyncio.Lock()
        self._incomplete: dict[str, None] = {}
        self.changes = 0
        """Counts what makes a partition another one: made, deleted, led or not, with other settings."""

    async def load(self) -> None:
        """Open the logs of all topics, and remove directories no topic owns.

        On threads: after an unclean stop every log is read and waits for syncs, and there may be thousands. A caller that is
        cancelled has them leave off, and is let go when they have.
        """
        directory, now_ms = self._directory, self._runtime.clock.now_ms()
        found_here = directory.begin_load()
        configs = {topic: self._log_config(topic) for topic in {one.topic for one in found_here}}
        wanted = [(one, configs[one.topic]) for one in found_here]
        openers = 1 if directory.was_clean else _OPENERS  # Then next to nothing is read.
        parts = [wanted[first::openers] for first in range(min(openers, len(wanted)))]
        halt, tasks = Halt(), self._runtime.tasks
        reading = asyncio.gather(
            *(tasks.in_thread(directory.read_some, part, now_ms, halt) for part in parts),
            return_exceptions=True,
        )
        try:
            pieces = await asyncio.shield(reading)
        except BaseException:
            halt.ask()
            await asyncio.wait([reading])  # Until then the directory is not free.
            raise
        together: dict[TopicPartition, PartitionLog | Exception] = {}
        for piece in pieces:
            if isinstance(piece, BaseException):
                raise piece
            together.update(piece)
        directory.finish_load({one: together[one] for one, _config in wanted})
        if self._is_member:
            return
        found = [*directory.logs, *directory.damaged]
        self._delete_logs([tp for tp in found if tp.topic != METADATA_TOPIC and not self._is_owned(tp)])

    def highest_leader_epoch(self) -> int:
        """The highest epoch any log knows of, whether its topic is made yet or not."""
        return max((log.leader_epochs.latest for log in self._directory.logs.values()), default=-1)

    def leader_epoch_ahead(self) -> int:
        """The highest epoch of a log that knows of a later one than the metadata does; -1 if none does."""
        ahead = -1
        for topic_partition, log in self._directory.logs.items():
            state = self._image.partition(topic_partition)
            if state is not None and state.leader_epoch < log.leader_epochs.latest:
                ahead = max(ahead, log.leader_epochs.latest)
        return ahead

    def _is_owned(self, topic_partition: TopicPartition) -> bool:
        """Whether a directory belongs to a topic there is: same name, same id, and a partition it has."""
        row = self._image.topic(topic_partition.topic)
        known_id = self._directory.topic_ids.get(topic_partition)
        return (
            row is not None
            and topic_partition.partition < row.partitions
            and known_id in (None, row.topic_id)
        )

    def _log_config(self, topic: str) -> LogConfig:
        """Read once for all partitions of a topic: a list in its settings may take a millisecond."""
        return self._config.log_config(self._image.topic_configs(topic), checked=True)

    def get(self, topic: str, index: int) -> LedPartition | None:
        """The partition, if it is led here; else `missing` says what to answer."""
        replica = self.replica(topic, index)
        return None if replica is None else replica.leader

    def replica(self, topic: str, index: int) -> Replica | None:
        """The replica that is here, led or not."""
        replicas = self._by_topic.get(topic)
        return replicas[index] if replicas is not None and 0 <= index < len(replicas) else None

    def find(self, topic: str, topic_id: bytes | None, index: int) -> LedPartition | ErrorCode:
        """The partition that a request names, or the code to answer.

        With an id the name does not count: a topic created again has another id.
        """
        if topic_id is None:
            return self.get(topic, index) or self.missing(topic, index)
        row = self._image.topic_by_id(topic_id) or self._assigned.topic_by_id(topic_id)
        if row is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        found = self.get(row.name, index)
        if found is None:
            return self.missing(row.name, index)
        if found.topic_id.bytes != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID  # The metadata knows a later topic of its name.
        return found

    def find_to_read(
        self, topic: str, topic_id: bytes | None, index: int
    ) -> LedPartition | FollowedPartition | ErrorCode:
        """The same for a consumer that may read from a follower."""
        found = self.find(topic, topic_id, index)
        if found is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return found
        if topic_id is not None:
            row = self._image.topic_by_id(topic_id) or self._assigned.topic_by_id(topic_id)
            topic = topic if row is None else row.name
        replica = self.replica(topic, index)
        if replica is None or replica.follower is None:
            return found
        if topic_id is not None and replica.topic_id.bytes != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return replica.follower

    def where(self, topic_partition: TopicPartition) -> LedPartition | RegisteredBroker | ErrorCode:
        """Where a partition is led: here, by another broker, or nowhere: then the code to answer."""
        partition = self.get(*topic_partition)
        if partition is not None:
            return partition
        state = self._image.partition(topic_partition)
        leader = None if state is None else self._image.brokers.get(state.leader)
        if leader is not None and leader.broker_id != self._config.node_id:
            return leader
        return self.missing(*topic_partition)

    @property
    def offline(self) -> list[TopicPartition]:
        """The partitions that could not be opened."""
        return list(self._directory.damaged)

    @property
    def logs(self) -> list[tuple[PartitionLog, uuid.UUID | None]]:
        """Every log that is open here, with the id of its topic: also those whose replicas have no role yet."""
        known = self._directory.topic_ids
        return [
            (log, known.get(one)) for one, log in self._directory.logs.items() if one.topic != METADATA_TOPIC
        ]

    def topic_id(self, topic_partition: TopicPartition) -> uuid.UUID | None:
        """The id in a replica's directory, whether it has a role or not."""
        return self._directory.topic_ids.get(topic_partition)

    def missing(self, topic: str, index: int) -> ErrorCode:
        """The answer for a partition `get` does not find: it is offline, led elsewhere, or missing."""
        topic_partition = TopicPartition(topic, index)
        if topic_partition in self._directory.damaged and (self._is_member or topic in self._by_topic):
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = self.replica(topic, index)
        if replica is not None and replica.log.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._image.partition(topic_partition)
        if state is not None and (self._is_member or state.leader != self._config.node_id):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if replica is None else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def of_topic(self, topic: str) -> list[LedPartition]:
        """The partitions of a topic that are led here."""
        return [replica.leader for replica in self._here(topic) if replica.leader is not None]

    def _here(self, topic: str) -> list[Replica]:
        return [replica for replica in self._by_topic.get(topic, ()) if replica is not None]

    def places(self, topic: str) -> Sequence[Replica | None]:
        """The replicas of a topic by partition; None where one is offline, elsewhere or not made yet."""
        return self._by_topic.get(topic, ())

    def count(self, topic: str) -> int:
        """How many partitions a topic has that can be asked for."""
        if not self._is_member:
            return len(self._by_topic.get(topic, ()))
        row = self._image.topic(topic)
        return 0 if row is None else row.partitions

    @property
    def topics(self) -> list[str]:
        """Their names, in order."""
        return sorted(self._by_topic)

    def __iter__(self) -> Iterator[Replica]:
        return (replica for topic in sorted(self._by_topic) for replica in self._here(topic))

    def change_roles(self, row: TopicRow, indexes: Sequence[int]) -> None:
        """Have those replicas of a topic that are here lead, follow or neither, as is assigned now."""
        self.changes += 1
        places = self._by_topic.get(row.name, ())
        for index in indexes:
            replica = places[index] if index < len(places) else None
            if replica is not None and replica.topic_id == row.topic_id:
                self._assume(replica, row.states[index])

    async def make(self, rows: Sequence[TopicRow]) -> dict[str, OSError]:
        """Have the replicas of these topics that are to be here, and make those that are not there yet; which topics are not
        complete now, and why.

        One call at a time: a topic that was deleted while it was made, and created again, gets directories of its own.
        """
        failed: dict[str, OSError] = {}
        async with self._making:
            if any(self._lacks(row) for row in rows):
                # Deleted logs are forgotten on disk first: else a log of the same name would inherit their start.
                async with self._removing:
                    await self._on_disk(lambda: None)
            for row in rows:
                current = self._assigned.topic(row.name)
                if current is None or current.topic_id != row.topic_id:
                    continue  # Something has happened to it since.
                try:
                    await self._make(current)
                except OSError as error:
                    failed[row.name] = error
        return failed

    def _lacks(self, row: TopicRow) -> bool:
        """Whether a replica that is to be here has to be made."""
        directory = self._directory
        for index, state in enumerate(row.states):
            if self._is_here(state):
                topic_partition = TopicPartition(row.name, index)
                if topic_partition not in directory.logs and topic_partition not in directory.damaged:
                    return True
                if directory.topic_ids.get(topic_partition, row.topic_id) != row.topic_id:
                    return True
        return False

    def _is_here(self, state: PartitionState) -> bool:
        """Whether a replica of this partition is to be here. A broker alone has those that it leads."""
        here = self._config.node_id
        return state.leader == here or (self._is_member and here in state.replicas)

    async def reopen(self) -> list[PartitionLog]:
        """Try again to open what the disk refused to; the logs that are there now.

        They may be led once the metadata has a new epoch for them, which must come in one step with the return.
        """
        refused = [tp for tp, error in self._directory.damaged.items() if isinstance(error, OSError)]
        reopened: list[PartitionLog] = []
        halt = Halt()
        for topic_partition in refused:
            config, now_ms = self._log_config(topic_partition.topic), self._runtime.clock.now_ms()
            try:
                log = await self._runtime.tasks.in_thread(
                    self._read_again, topic_partition, config, now_ms, halt
                )
                if log is not None:
                    reopened.append(log)
            except asyncio.CancelledError:
                halt.ask()  # The broker stops, and waits for its threads.
                raise
            except OSError as error:
                self._directory.damaged[topic_partition] = error
            except (LogError, CorruptBatchError) as error:
                self._directory.damaged[topic_partition] = error
                _logger.error("%s stays offline: %s", topic_partition, error)
        # Else its topic was deleted meanwhile.
        reopened = [log for log in reopened if log.topic_partition in self._directory.damaged]
        for log in reopened:
            self._directory.take(log)
        return reopened

    def _read_again(
        self, topic_partition: TopicPartition, config: LogConfig, now_ms: int, halt: Halt
    ) -> PartitionLog | None:
        """Open one log on a thread; None if nobody waits for it any more."""
        try:
            return self._directory.read(topic_partition, config, now_ms, halt)
        except RecoveryHaltedError:
            return None

    async def complete(self) -> None:
        """Try again to make what the disk refused to."""
        rows = [row for name in self._incomplete if (row := self._assigned.topic(name)) is not None]
        if rows and not self._making.locked():
            for name, error in (await self.make(rows)).items():
                _logger.error("topic %s is still not complete: %s", name, error)

    async def _make(self, row: TopicRow) -> None:
        now_ms = self._runtime.clock.now_ms()
        missing = self._to_make(row)
        if not missing:
            return
        config = self._log_config(row.name)
        wanted = [(one, config) for one in missing]
        parts = [wanted[first::_MAKERS] for first in range(min(_MAKERS, len(wanted)))]
        tasks = self._runtime.tasks
        outcomes = await asyncio.gather(
            *(tasks.in_thread(self._prepare, part, row.topic_id, now_ms) for part in parts)
        )
        await tasks.in_thread(self._directory.sync_names)
        made = [log for logs, _error in outcomes for log in logs]
        homeless = await self._in_turns(made, lambda some: self._admit(row, some))
        if homeless:
            async with self._removing:
                await self._remove(homeless)
        for _logs, error in outcomes:
            if error is not None:
                raise error

    def _prepare(
        self, wanted: Sequence[tuple[TopicPartition, LogConfig]], topic_id: uuid.UUID, now_ms: int
    ) -> tuple[list[PartitionLog], OSError | None]:
        """On a thread: make partitions one after the other, up to the first the disk refuses."""
        made: list[PartitionLog] = []
        try:
            for topic_partition, config in wanted:
                made.append(self._directory.prepare(topic_partition, topic_id, config, now_ms))
        except OSError as error:
            return made, error
        return made, None

    def _to_make(self, row: TopicRow) -> list[TopicPartition]:
        """Give a role to what is there of a topic and is to be here; what is not there, and can be made."""
        directory = self._directory
        places = self._by_topic.setdefault(row.name, [])
        places.extend([None] * (row.partitions - len(places)))
        self._incomplete[row.name] = None
        self.changes += 1
        wanted: list[TopicPartition] = []
        for index, state in enumerate(row.states):
            if not self._is_here(state) or places[index] is not None:
                continue
            topic_partition = TopicPartition(row.name, index)
            if directory.topic_ids.get(topic_partition, row.topic_id) != row.topic_id:
                # The disk failed when the topic of that name before was deleted.
                self._delete_logs([topic_partition])
            log = directory.logs.get(topic_partition)
            if log is not None:
                if topic_partition not in directory.topic_ids:
                    directory.adopt(topic_partition, row.topic_id)
                places[index] = self._house(log, row, state)
            elif topic_partition not in directory.damaged:
                wanted.append(topic_partition)
        if not wanted:
            self._incomplete.pop(row.name, None)
        return wanted

    def _admit(self, row: TopicRow, made: Sequence[PartitionLog]) -> list[TopicPartition]:
        """Give a role to what was made; what belongs to a topic that is gone by now, and has to go too."""
        self.changes += 1
        for log in made:
            self._directory.admit(log, row.topic_id)
        current = self._assigned.topic(row.name)
        if current is None or current.topic_id != row.topic_id:
            return [log.topic_partition for log in made]
        places = self._by_topic[row.name]
        homeless: list[TopicPartition] = []
        for log in made:
            index = log.topic_partition.partition
            if self._is_here(current.states[index]):
                places[index] = self._house(log, row, current.states[index])
            else:
                homeless.append(log.topic_partition)
        if not self._lacks(current):
            self._incomplete.pop(row.name, None)
        return homeless

    async def _in_turns(
        self, all_of_them: Sequence[T], step: Callable[[Sequence[T]], Sequence[U] | None]
    ) -> list[U]:
        """The results of a step for some after the other; there is no pause where one turn is enough."""
        results: list[U] = []
        for first in range(0, len(all_of_them), _AT_ONCE):
            if first:
                await self._runtime.tasks.sleep(0)
            results += step(all_of_them[first : first + _AT_ONCE]) or ()
        return results

    def _house(self, log: PartitionLog, row: TopicRow, state: PartitionState) -> Replica:
        replica = Replica(log, row.topic_id, self._runtime)
        self._guard(log)
        self._assume(replica, state)
        return replica

    def _assume(self, replica: Replica, state: PartitionState) -> None:
        """Give a replica the role that the state says."""
        if state.leader == self._config.node_id:
            if replica.leader is None:
                replica.log.producers.doubt_all()  # Their coordinator may have decided anything meanwhile.
            replica.lead(
                self._surroundings(),
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
            )
        elif self._is_here(state):
            replica.follow(
                self._surroundings(),
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
            )
        else:
            replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            replica.unfollow(self._surroundings())

    def _surroundings(self) -> Surroundings:
        lag_max_ms = self._config.value("replica.lag.time.max.ms")
        if not isinstance(lag_max_ms, int):
            raise TypeError(f"{lag_max_ms!r} is not a time")
        return Surroundings(self._config.node_id, lag_max_ms, self._image.brokers, self.replication)

    def _guard(self, log: PartitionLog) -> None:
        """Let no transaction be opened that its coordinator does not know. Coordinators see to their own topics.

        Two-phase commit fences by this question, so it is asked wherever two-phase commit is on.
        """
        wanted = bool(
            self._config.value("transaction.partition.verification.enable")
            or self._config.value("transaction.two.phase.commit.enable")
        )
        log.producers.verification_required = wanted and log.topic_partition.topic not in INTERNAL

    def take_out(self, rows: Sequence[TopicRow]) -> list[TopicPartition]:
        """Lead nothing of these topics any more; their partitions, for `remove`, which must follow at once."""
        self.changes += 1
        doomed: list[TopicPartition] = []
        known = self._directory.logs.keys() | self._directory.damaged.keys()
        for row in rows:
            places = self._by_topic.get(row.name, [])
            if any(place is not None and place.topic_id != row.topic_id for place in places):
                continue  # There is a later topic of that name already, which took care of it.
            self._by_topic.pop(row.name, None)
            self._incomplete.pop(row.name, None)
            doomed += [tp for index in range(len(places)) if (tp := TopicPartition(row.name, index)) in known]
            for place in places:
                if place is not None:
                    place.unlead(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return doomed

    def give_up(self, topic_partition: TopicPartition) -> None:
        """Have a replica whose log is offline neither lead nor follow."""
        replica = self.replica(*topic_partition)
        if replica is not None:
            self.changes += 1
            replica.unlead(ErrorCode.KAFKA_STORAGE_ERROR)
            replica.unfollow(self._surroundings())

    def idle(self, topic_partition: TopicPartition, *, is_to_go: bool) -> None:
        """Have a replica follow no more, until it is given a role again; nor lead, if its topic is to go."""
        replica = self.replica(*topic_partition)
        if replica is None:
            return
        self.changes += 1
        replica.unfollow(self._surroundings())
        if is_to_go:
            replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def drop(self, topic: str, indexes: Sequence[int]) -> list[TopicPartition]:
        """Have these replicas no more; the partitions that are on disk, for `remove`, which must follow at once."""
        self.changes += 1
        places = self._by_topic.get(topic, [])
        for index in indexes:
            replica = places[index] if index < len(places) else None
            if replica is not None:
                places[index] = None
                replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                replica.unfollow(self._surroundings())
        if not any(places):
            self._by_topic.pop(topic, None)
            self._incomplete.pop(topic, None)
        known = self._directory.logs.keys() | self._directory.damaged.keys()
        return [tp for index in indexes if (tp := TopicPartition(topic, index)) in known]

    async def remove(self, doomed: Sequence[TopicPartition], quiet: Quiet) -> None:
        """Take partitions out of the directory; done when that survives a power cut. Their files follow."""
        if doomed:
            async with self._removing, quiet(doomed):
                await self._remove(doomed)

    async def _remove(self, doomed: Sequence[TopicPartition]) -> None:
        """The same, under the lock that keeps a topic of the same name from being made before that is done."""
        directory, unique = self._directory, self._unique()
        logs = {topic_partition: directory.logs.get(topic_partition) for topic_partition in doomed}

        def take_out(some: Sequence[TopicPartition]) -> None:
            # Let go of one by one: the last to hold a log closes its file.
            directory.take_out([tp for tp in some if directory.logs.get(tp) is logs.pop(tp)], unique)

        await self._in_turns(doomed, take_out)
        await self._on_disk(directory.begin_forget(doomed))

    def _delete_logs(self, topic_partitions: list[TopicPartition]) -> None:
        if topic_partitions:
            self._directory.delete(topic_partitions, self._unique())

    def _unique(self) -> str:
        return f"{self._runtime.dice.getrandbits(128):032x}"

    async def delete_records(self, log: PartitionLog, offset: int) -> bool:
        """Move a log's start, which is on disk then; False if the partition was deleted meanwhile.

        Everything below `offset` must be synced.
        """
        directory = self._directory
        write = directory.begin_delete_records(log, offset)
        try:
            await self._on_disk(write)
        finally:
            directory.end_delete_records(log, offset)
        if directory.logs.get(log.topic_partition) is not log:
            return False
        # In one step with the line above: a checkpoint would say where it began before.
        log.advance_log_start(offset)
        return True

    async def checkpoint(self) -> None:
        """Write down what the next start wants to know of every log."""
        await self._on_disk(self._directory.begin_checkpoint())

    async def _on_disk(self, write: Callable[[], None]) -> None:
        """On a thread, one after the other: what was true earlier must not be written over what is true now."""
        await self._runtime.tasks.in_thread(write, order=self._directory.path)

    def reconfigure(self, topic: str) -> None:
        """Let a topic's changed settings take effect."""
        self.changes += 1
        config = self._log_config(topic)
        for replica in self._here(topic):
            replica.log.reconfigure(config)
            self._guard(replica.log)

    def use(self, config: BrokerConfig) -> None:
        """Let the broker's changed settings take effect on every topic."""
        self._config = config
        for topic in self._by_topic:
            self.reconfigure(topic)
