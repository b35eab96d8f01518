"""Records of a topic for one member of a group: the small group consumer behind `semel consume --group`.

Role.   `GroupReader` is the shell around `core.groups.member`: it finds the coordinator, sends what the member says, tells
        it what came back, fetches what the member owns, and commits.
Flow.   One task lives through `records`: what happened elsewhere (an answer, a fetch) comes to it as an event; it tells
        the member, does what the member says, and yields records.
Rules.  * What is committed is what the caller said it is done with: after a crash something may come again, nothing is
          left out.
        * Offsets are committed when partitions are given up, every `auto.commit.interval.ms`, and at the end. What was lost
          is not committed: somebody else may have gone on from there.
        * The coordinator has a connection of its own, because a JoinGroup holds up what is sent behind it.
Elsewhere. Many topics, seeking, callbacks: the public consumer.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from semel.client import reader
from semel.client.admin_groups import find_coordinator
from semel.client.admin_offsets import committed_offsets
from semel.client.cluster import Cluster, TopicView, error_code
from semel.client.config import ClientConfig, command_config
from semel.client.reader import Fetched, Lane
from semel.core.groups.assignors.members import Racks
from semel.core.groups.member import Member
from semel.core.groups.member_words import (
    Fail,
    FindCoordinator,
    GroupRequest,
    Instruction,
    LookAtTopics,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
    Send,
)
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.errors import DisconnectedError, RefusedError
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.core.groups.member_words import GroupResponse

_NO_COORDINATOR: Final = -1
_BY_NAME_VERSION: Final = 9  # OffsetCommit 10 names topics by their ids.
_IDLE_MS: Final = 200
_LEAVE_MS: Final = 5_000

Event: TypeAlias = Callable[[int], list[Instruction]]
"""What has happened, as a call of the member's; it is given the time."""


def member_config(config: ClientConfig, group_id: str) -> MemberConfig:
    """The settings of a member in a client's."""
    return MemberConfig(
        group_id=group_id,
        partition_assignment_strategy=tuple(
            name.strip() for name in config.partition_assignment_strategy.split(",") if name.strip()
        ),
        group_instance_id=config.group_instance_id or None,
        client_rack=config.client_rack or None,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
    )


class GroupReader:
    """One member of a group, reading one topic; `start` is where a partition begins that nothing is committed for."""

    def __init__(
        self, cluster: Cluster, topic: TopicView, group_id: str, *, start: int = reader.EARLIEST
    ) -> None:
        self._cluster = cluster
        self._coordination = Cluster(cluster.runtime, cluster.config)
        self._topic = topic
        self._start = start
        self.member = Member(member_config(command_config(cluster.config), group_id))
        self.member.subscribe([topic.name])
        self._coordinator = _NO_COORDINATOR
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._lanes: dict[int, Lane] = {}
        self._taken: dict[int, int] = {}
        self._handed: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_at_ms = 0
        self._follow = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.has_left = asyncio.Event()

    async def records(self, *, follow: bool) -> AsyncGenerator[Fetched, None]:
        """What the member owns, as it comes; without `follow`, up to where its partitions ended when it got them."""
        fetching: asyncio.Task[list[Fetched]] | None = None
        self._follow = follow
        try:
            while True:
                await self._tell(self.member.polled)
                await self._catch_up()
                if not follow and self._is_at_the_end:
                    return
                if fetching is None and (wanted := self._open_lanes()):
                    fetching = asyncio.create_task(self._fetch(wanted))
                if not await self._something(fetching):
                    continue
                if fetching is not None and fetching.done():
                    done, fetching = fetching, None
                    for fetched in done.result():
                        self._handed[fetched.partition] = fetched.record.offset + 1
                        yield fetched
                    self._read_past_what_is_hidden()
        finally:
            if fetching is not None:
                fetching.cancel()
            await self._close()

    def done(self, fetched: Fetched) -> None:
        """The caller has done what it wanted with this record and those before it: they may be committed."""
        if fetched.partition in self._lanes:
            self._taken[fetched.partition] = fetched.record.offset + 1

    @property
    def _is_at_the_end(self) -> bool:
        return self.member.phase is Phase.STABLE and all(lane.is_done for lane in self._lanes.values())

    def _open_lanes(self) -> dict[int, Lane]:
        return {index: lane for index, lane in self._lanes.items() if not lane.is_done}

    async def _something(self, fetching: "asyncio.Task[list[Fetched]] | None") -> bool:
        """Wait for an event, a fetch or a deadline; whether there is anything to look at."""
        deadline = self.member.next_deadline_ms()
        wait_ms = _IDLE_MS if deadline is None else min(_IDLE_MS, max(0, deadline - self._now_ms()))
        event = asyncio.create_task(self._events.get())
        waiting: set[asyncio.Task[Any]] = {event} if fetching is None else {event, fetching}
        done, _ = await asyncio.wait(waiting, timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        if event in done:
            await self._tell(event.result())
        else:
            event.cancel()
        return bool(done)

    async def _catch_up(self) -> None:
        """What has happened meanwhile, and what time asks for."""
        while not self._events.empty():
            await self._tell(self._events.get_nowait())
        deadline = self.member.next_deadline_ms()
        if deadline is not None and deadline <= self._now_ms():
            await self._tell(self.member.due)
        if self._now_ms() >= self._commit_at_ms:
            self._commit_at_ms = self._now_ms() + command_config(self._cluster.config).auto_commit_interval_ms
            await self._commit(self._lanes)

    # Records

    async def _fetch(self, lanes: dict[int, Lane]) -> list[Fetched]:
        """The next records of these lanes, but for those that were given up while they were on their way."""
        try:
            answers = await self._cluster.patiently(
                lambda: reader.fetch_round(self._cluster, self._topic.name, lanes)
            )
        except DisconnectedError:
            return []  # Membership does not end with a broker that is away; it is asked again.
        found = []
        for data in answers:
            lane = lanes[data.partition_index]
            if self._lanes.get(data.partition_index) is lane:
                records = reader.records_in(data, lane, command_config(self._cluster.config).isolation_level)
                found += [Fetched(data.partition_index, record) for record in records]
                lane.is_done = lane.end is not None and lane.offset >= lane.end
        return found

    def _read_past_what_is_hidden(self) -> None:
        """Where the caller is done with everything, markers and aborted records behind it are read too."""
        for index, lane in self._lanes.items():
            if self._taken[index] == self._handed[index]:
                self._taken[index] = self._handed[index] = lane.offset

    # What the member says

    async def _tell(self, event: Event) -> None:
        """Tell the member what happened and do what it says."""
        for instruction in event(self._now_ms()):
            await self._do(instruction)

    async def _do(self, instruction: Instruction) -> None:
        member = self.member
        match instruction:
            case FindCoordinator():
                self._in_background(self._find())
            case Send(request, wait_ms):
                self._in_background(self._send(request, wait_ms))
            case LookAtTopics(topics):
                self._in_background(self._look(topics))
            case Revoke(partitions):
                await self._commit([one.partition for one in partitions])
                self._drop(partitions)
                await self._tell(member.revoked)
            case Lose(partitions):
                self._drop(partitions)
            case Own(partitions):
                await self._begin(partitions)
            case Fail(code, reason):
                raise RefusedError(code, f"{self._cluster.where}: {reason}")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What goes wrong there is raised here."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._events.put_nowait(partial(_raise, error))

    async def _find(self) -> None:
        try:
            self._coordinator = await find_coordinator(self._coordination, self.member.config.group_id)
        except (DisconnectedError, RefusedError) as error:
            if isinstance(error, RefusedError) and not error.code.retriable:
                raise
            self._events.put_nowait(self.member.coordinator_lost)
        else:
            self._events.put_nowait(self.member.coordinator_found)

    async def _send(self, request: GroupRequest, wait_ms: int) -> None:
        member = self.member
        try:
            answer = await self._coordination.send(request, node_id=self._coordinator, timeout_ms=wait_ms)
        except (DisconnectedError, RefusedError):
            self._events.put_nowait(lambda now_ms: member.unanswered(request, now_ms))
        else:
            response = cast("GroupResponse", answer)  # A request of a group has an answer of one.
            self._events.put_nowait(lambda now_ms: member.answered(request, response, now_ms))

    async def _look(self, topics: Sequence[str]) -> None:
        """The partitions of these topics with the racks of their replicas; asked until somebody answers."""
        cluster = self._coordination

        async def ask() -> dict[str, list[Racks]]:
            answer = await cluster.metadata(topics)
            racks = {node_id: node.rack for node_id, node in cluster.nodes.items()}
            found: dict[str, list[Racks]] = {topic: [] for topic in topics}
            for topic in answer.topics:
                found[topic.name or ""] = [
                    frozenset(rack for node in one.replica_nodes if (rack := racks.get(node)) is not None)
                    for one in sorted(topic.partitions, key=lambda one: one.partition_index)
                ]
            return found

        known = await cluster.patiently(
            ask, timeout_ms=command_config(self._cluster.config).max_poll_interval_ms
        )
        self._events.put_nowait(lambda now_ms: self.member.topics_known(known, now_ms))

    # Partitions

    async def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        indexes = [one.partition for one in partitions]
        if not indexes:
            return
        stored = await committed_offsets(self._cluster, self.member.config.group_id, require_stable=True)
        known = {one.partition: stored[one].offset for one in partitions if one in stored}
        unknown = [index for index in indexes if index not in known]
        starts = known | await reader.offsets_at(self._cluster, self._topic, unknown, self._start)
        ends = (
            {}
            if self._follow
            else await reader.offsets_at(self._cluster, self._topic, indexes, reader.LATEST)
        )
        for index in indexes:
            end = ends.get(index)
            self._lanes[index] = Lane(starts[index], end, is_done=end is not None and starts[index] >= end)
            self._taken[index] = self._handed[index] = self._committed[index] = starts[index]

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        for one in partitions:
            for kept in (self._lanes, self._taken, self._handed, self._committed):
                kept.pop(one.partition, None)

    async def _commit(self, indexes: "Sequence[int] | dict[int, Lane]") -> None:
        """Commit what the caller has taken of these partitions, if that is news."""
        news = {
            index: self._taken[index]
            for index in indexes
            if index in self._taken and self._taken[index] != self._committed.get(index)
        }
        if not news:
            return
        identity = self.member.identity
        request = OffsetCommitRequest(
            group_id=identity.group_id,
            generation_id_or_member_epoch=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=self._topic.name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for index, offset in news.items()
                    ],
                )
            ],
        )
        try:
            answer = await self._cluster.send(
                request, node_id=self._coordinator, version_max=_BY_NAME_VERSION
            )
        except (DisconnectedError, RefusedError):
            return  # The coordinator is away; the next commit says the same and more.
        codes = [error_code(one.error_code) for topic in answer.topics for one in topic.partitions]
        if code := next((code for code in codes if code), None):
            self._events.put_nowait(lambda now_ms: self.member.committed(code, now_ms))
            return
        self._committed.update(news)

    async def _close(self) -> None:
        """Commit, leave, and end what is under way."""
        try:
            await asyncio.wait_for(self._leave(), _LEAVE_MS / 1000)
        except (TimeoutError, DisconnectedError, RefusedError):
            pass  # The coordinator notices by itself, when the session ends.
        finally:
            for task in self._tasks:
                task.cancel()
            self._coordination.close()
            self.has_left.set()

    async def _leave(self) -> None:
        await self._tell(self.member.leave)
        while self.member.phase not in (Phase.OUT, Phase.FAILED):
            await self._tell(await self._events.get())

    def _now_ms(self) -> int:
        return self._cluster.runtime.clock.monotonic_ms()


def _raise(error: BaseException, _now_ms: int) -> list[Instruction]:
    raise error
