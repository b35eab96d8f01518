"""A consume-transform-produce worker: each input becomes one output, and what it consumed is part of the transaction.

Role.   Reads committed records of its input partitions, writes one record for each to the output topic, and sends its
        position with the same transaction.
Flow.   introduce -> know its partitions -> ask where to begin -> fetch, transform, commit, again and again.
Rules.  * Two ways to know its partitions. Alone: they are its own, and whoever takes over has the same transactional id, so
          the one before is fenced by it. In a group: each generation assigns them, each worker has an id of its own, and
          offsets of an older generation are refused (KIP-447).
        * It asks where to begin after it was introduced, and for stable offsets: a predecessor's transaction is over by then.
        * A worker that is not certain that its transaction was committed asks again where it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from semel.core.transactions.producer import GroupMetadata
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from semel.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.actors.fetched import records_of
from semel.verify.simulation.actors.transactional import Manners, Session
from semel.verify.simulation.actors.transactional_writer import TransactionalActor
from semel.verify.simulation.world import World

_FETCH_VERSION: Final = 11
_OFFSET_FETCH_VERSION: Final = 8
_JOIN_VERSION: Final = 3
_SYNC_VERSION: Final = 2
_HEARTBEAT_VERSION: Final = 2
_BACK_OFF_SECONDS: Final = (0.02, 0.3)
_FETCH_WAIT_MS: Final = 200
_FETCH_BYTES: Final = 2000
_BATCH_RECORDS_MAX: Final = (
    16  # So that a batch fits the smallest segments of any world: else it is refused for ever.
)
_REBALANCE_TIMEOUT_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The inputs, the outputs, and the group whose offsets say how far the work is."""

    inputs: tuple[TopicPartition, ...]
    outputs: tuple[TopicPartition, ...]
    group_id: str
    in_group: bool
    session_timeout_ms: int
    abort_probability: float


class _RejoinError(Exception):
    """The group has moved on."""


class TransactionalWorker(TransactionalActor):
    """The actor."""

    def __init__(
        self, world: World, name: str, transactional_id: str, manners: Manners, pipeline: Pipeline
    ) -> None:
        super().__init__(world, name, transactional_id, manners)
        self._pipeline = pipeline
        self._outputs = 0

    def owes(self) -> str | None:
        """Nothing by itself: whether everything was transformed, the group's offsets say."""
        return None

    async def work(self, session: Session, runtime: Runtime) -> None:
        member_id = ""
        timeout_ms = self.manners.request_timeout_ms + 2 * _REBALANCE_TIMEOUT_MS
        client = Client(runtime, session.name, timeout_ms)
        while not session.is_lost:
            try:
                group, inputs = await self._assignment(client, member_id)
                member_id = group.member_id
                await self._transform(session, client, runtime, group, inputs)
            except DisconnectedError:
                pass
            except _RejoinError as refused:
                if refused.args[0] is ErrorCode.UNKNOWN_MEMBER_ID:
                    member_id = ""
            await runtime.tasks.sleep(runtime.dice.uniform(*_BACK_OFF_SECONDS))
        client.disconnect()

    # Whose partitions

    async def _assignment(self, client: Client, member_id: str) -> tuple[GroupMetadata, list[TopicPartition]]:
        pipeline = self._pipeline
        if not pipeline.in_group:
            return GroupMetadata(pipeline.group_id), list(pipeline.inputs)
        joined = await client.ask(
            JoinGroupRequest(
                group_id=pipeline.group_id,
                session_timeout_ms=pipeline.session_timeout_ms,
                rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="share", metadata=b"")],
            ),
            _JOIN_VERSION,
        )
        await self.pause()
        _check(joined.error_code)
        synced = await client.ask(
            SyncGroupRequest(
                group_id=pipeline.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=self._shares(joined),
            ),
            _SYNC_VERSION,
        )
        await self.pause()
        _check(synced.error_code)
        mine = [pipeline.inputs[int(one)] for one in synced.assignment.decode().split()]
        return GroupMetadata(pipeline.group_id, joined.generation_id, joined.member_id), mine

    def _shares(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader deals the partitions out."""
        if joined.leader != joined.member_id:
            return []
        members = sorted(one.member_id for one in joined.members)
        count = len(self._pipeline.inputs)
        return [
            SyncGroupRequestAssignment(
                member_id=member, assignment=" ".join(map(str, range(at, count, len(members)))).encode()
            )
            for at, member in enumerate(members)
        ]

    # Consume, transform, produce

    async def _transform(
        self,
        session: Session,
        client: Client,
        runtime: Runtime,
        group: GroupMetadata,
        inputs: list[TopicPartition],
    ) -> None:
        """Until the instance is lost, the group moves on, or a connection breaks."""
        positions: dict[TopicPartition, int] | None = None
        while not session.is_lost:
            await self.pause()
            if self._pipeline.in_group:
                await self._heartbeat(client, group)
            if not inputs:
                await runtime.tasks.sleep(_BACK_OFF_SECONDS[1])
                continue
            if positions is None:
                positions = await self._beginnings(client, inputs)
                if positions is None:
                    await runtime.tasks.sleep(runtime.dice.uniform(*_BACK_OFF_SECONDS))
                    continue
            fetched = await self._fetch(client, positions)
            if not any(values for values, _next in fetched.values()):
                # Nothing to transform, but aborted records and markers may have been passed.
                positions |= {one: next_offset for one, (_values, next_offset) in fetched.items()}
                continue
            fate = await self._transaction(session, runtime, group, fetched)
            positions = (
                positions | {one: next_offset for one, (_values, next_offset) in fetched.items()}
                if fate == "committed"
                else None
            )

    async def _transaction(
        self,
        session: Session,
        runtime: Runtime,
        group: GroupMetadata,
        fetched: Mapping[TopicPartition, tuple[list[bytes], int]],
    ) -> str:
        dice = runtime.dice
        batches: dict[TopicPartition, list[bytes]] = {}
        for values, _next in fetched.values():
            for value in values:
                name = value.partition(b" ")[0].decode()
                self._outputs += 1
                output = f"{session.name}:{self._outputs}<{name}".encode()
                batches.setdefault(dice.choice(self._pipeline.outputs), []).append(output)
        aborts = dice.random() < self._pipeline.abort_probability and not self.finishing
        return await session.run(
            [(one, tuple(part)) for one, values in batches.items() for part in _parts(values)],
            commit=not aborts,
            steps=dice.randrange(4) if aborts else None,
            group=group,
            offsets={one: next_offset for one, (values, next_offset) in fetched.items() if values},
        )

    async def _heartbeat(self, client: Client, group: GroupMetadata) -> None:
        request = HeartbeatRequest(
            group_id=group.group_id, generation_id=group.generation_id, member_id=group.member_id
        )
        response = await client.ask(request, _HEARTBEAT_VERSION)
        await self.pause()
        _check(response.error_code)

    async def _beginnings(
        self, client: Client, inputs: list[TopicPartition]
    ) -> dict[TopicPartition, int] | None:
        found = await stable_offsets(client, self._pipeline.group_id, inputs)
        await self.pause()
        return None if found is None else {one: max(offset, 0) for one, offset in found.items()}

    async def _fetch(
        self, client: Client, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[list[bytes], int]]:
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), offset in positions.items():
            topics.setdefault(topic, FetchTopic(topic=topic)).partitions.append(
                FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
            )
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=1,
            topics=list(topics.values()),
        )
        response = await client.ask(request, _FETCH_VERSION)
        await self.pause()
        fetched = {}
        for answer in response.responses:
            for data in answer.partitions:
                one = TopicPartition(answer.topic, data.partition_index)
                if data.error_code:
                    raise DisconnectedError(f"{one}: {ErrorCode(data.error_code).name}")
                records, next_offset = records_of(data, positions[one], committed=True)
                fetched[one] = ([value for _offset, value in records], next_offset)
        return fetched


def _parts(values: list[bytes]) -> list[list[bytes]]:
    return [values[at : at + _BATCH_RECORDS_MAX] for at in range(0, len(values), _BATCH_RECORDS_MAX)]


_GONE: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


def _check(number: int) -> None:
    code = ErrorCode(number)
    if code in _GONE:
        raise _RejoinError(code)
    if code is not ErrorCode.NONE:
        raise DisconnectedError(f"the coordinator says {code.name}")


async def stable_offsets(
    client: Client, group_id: str, partitions: list[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """The committed offsets of a group, -1 where there is none; None while not certain. Raises `DisconnectedError`."""
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, OffsetFetchRequestTopics(name=topic)).partition_indexes.append(partition)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=list(topics.values()))
    response = await client.ask(
        OffsetFetchRequest(groups=[group], require_stable=True), _OFFSET_FETCH_VERSION
    )
    (answer,) = response.groups
    found = {
        TopicPartition(topic.name, one.partition_index): one
        for topic in answer.topics
        for one in topic.partitions
    }
    if answer.error_code or any(one.error_code for one in found.values()):
        return None
    return {one: answered.committed_offset for one, answered in found.items()}
