"""One link to one leader: what is followed there is fetched by one request after the other.

Role.   A task that asks a leader for the partitions this broker follows it in, and does what the answers mean.
Flow.   `fetchers` makes one per leader and number, adds and removes partitions. In a circle: the questions of all partitions that
        may ask -> Fetch -> each answer: append, or a cut, or a pause -> cuts, syncs -> the next questions.
Rules.  * One request is in flight, in an incremental session. A partition that is added is in the next request; one that waits,
          or is removed, is forgotten by the session.
        * An answer counts for a partition that is still followed here, in the leader epoch it was asked in. That is looked at
          again after every pause, so removing a partition takes effect at once.
        * A session is begun anew after every loss, and where an answer was not used as it came: the leader tells a high watermark
          once.
        * A leader that is not known yet, or has another address, is waited for (`changed`): metadata is on its way.
        * What the settings ask to be on disk is, before the next request says so.
        * A log that has errors of its own disk is given up (`on_failure`); one whose leader sends damaged records is asked for again.
        * The loop is held for some milliseconds at a time, however long an answer is.
        * An error that nobody foresaw is logged with its trace. It costs its partition the fetches of this leader epoch, as in Kafka;
          where it concerns no single one, all is begun again after a second. The task never ends by itself.
Elsewhere. Questions and steps: `core.replication.following`. Messages: `fetch_messages`. Out of range: `leader_ends`. Cuts:
        `log_cuts`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from semel.broker.replicas import fetch_messages, leader_ends
from semel.broker.replicas.fetch_messages import FetchSettings, Wanted
from semel.broker.replicas.followed_partition import Asked, DiskRefusedError, FollowedPartition
from semel.broker.replicas.leader_ends import NO_ANSWER, Question
from semel.broker.replicas.log_cuts import Cut, LogCuts, NewStart
from semel.broker.turns import Turns
from semel.core.client.fetch_session import FetchSession
from semel.core.cluster import versions
from semel.core.replication.following import Append, AskEnds, StartAt, Step, Truncate, Wait
from semel.core.wire.messages.fetch import FetchResponse, PartitionData
from semel.errors import (
    RETRIABLE,
    CorruptBatchError,
    DisconnectedError,
    ErrorCode,
    LogError,
    SemelError,
)
from semel.net.link import Link, open_link
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.runtime.repeats import Repeats
from semel.types import Address, TopicPartition

_logger = logging.getLogger(__name__)
_ERRORS_IN_A_ROW: Final = 2
"""From this one on, an answer that is an error as a whole is followed by a pause."""
_BROKEN_SECONDS: Final = 1.0
"""The pause after an error that nobody foresaw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherConfig:
    """The settings of one fetcher, and of its link."""

    fetch: FetchSettings
    backoff_ms: int
    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    response_max_bytes: int
    security: Security = PLAINTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """One broker, seen by its fetchers."""

    runtime: Runtime
    node_id: int
    broker_epoch: Callable[[], int]
    leader_address: Callable[[int], Address | None]
    """Where a broker listens for others; None if it is not known."""
    config: Callable[[int], FetcherConfig]
    """The settings at the moment, of the fetcher with this number."""
    cuts: LogCuts
    on_failure: Callable[[FollowedPartition, Exception], None]


@dataclass(slots=True)
class _Todo:
    """What is left to do once all rows of an answer were looked at."""

    cuts: list[Cut] = field(default_factory=list)
    out_of_range: dict[TopicPartition, Asked] = field(default_factory=dict)
    to_sync: list[FollowedPartition] = field(default_factory=list)


class Fetcher:
    """The fetches from one leader."""

    def __init__(self, surroundings: Surroundings, leader_id: int, number: int) -> None:
        self._around = surroundings
        self._tasks = surroundings.runtime.tasks
        self.leader_id = leader_id
        self.number = number
        self._partitions: dict[TopicPartition, FollowedPartition] = {}
        self._session: FetchSession[Wanted] = FetchSession()
        self._link: Link | None = None
        self._changed = asyncio.Event()
        self._is_ended = False
        self._may_be_cancelled = True
        self._errors = 0
        self._breaks = Repeats()
        self._is_unreachable = False
        self._starts: dict[TopicPartition, NewStart] = {}
        self._starting: asyncio.Task[None] | None = None
        self._task = self._tasks.spawn(self._run(), name=f"fetcher {number} from broker {leader_id}")

    # From outside

    @property
    def partitions(self) -> Mapping[TopicPartition, FollowedPartition]:
        return self._partitions

    def add(self, partition: FollowedPartition) -> None:
        """Fetch it from now on, in the epoch it is in at the moment."""
        self._partitions[partition.topic_partition] = partition
        self._changed.set()

    def remove(self, partition: FollowedPartition) -> None:
        """Fetch it no more; nothing happens to it after this."""
        if self._partitions.get(partition.topic_partition) is partition:
            del self._partitions[partition.topic_partition]

    def changed(self) -> None:
        """Something it may have waited for is another: look again."""
        link = self._link
        if link is not None and link.address != self._around.leader_address(self.leader_id):
            link.close()  # The leader is another process, or gone: no need to wait until it does not answer.
        self._changed.set()

    def end(self) -> None:
        """Fetch nothing any more. A cut under way comes to its end, and nothing else."""
        self._is_ended = True
        self._partitions.clear()
        self._changed.set()
        if self._link is not None:
            self._link.close()
        if self._may_be_cancelled:
            self._task.cancel()

    @property
    def is_done(self) -> bool:
        """Whether its tasks have ended."""
        return self._task.done() and self._starting is None

    async def ended(self) -> None:
        """Return once its tasks have."""
        waiting = [one for one in (self._task, self._starting) if one is not None]
        if waiting:
            await asyncio.wait(waiting)

    # The task

    async def _run(self) -> None:
        try:
            while not self._is_ended:
                try:
                    await self._round()
                except Exception as error:
                    self._may_be_cancelled = True
                    await self._broke(error)
        finally:
            self._drop_link()

    async def _broke(self, error: Exception) -> None:
        """Nobody foresaw this error, and it is of no single partition: begin again after a while."""
        self._drop_link()
        if times := self._breaks.due(self._around.runtime.clock.monotonic()):
            _logger.error(
                "%d partitions are not fetched from broker %d, which is tried again: this broker failed at it (%d times since the last "
                "such line)",
                len(self._partitions),
                self.leader_id,
                times,
                exc_info=error,
            )
        await self._pause(_BROKEN_SECONDS)

    async def _round(self) -> None:
        """Ask once, and do what the answers mean."""
        asked = await self._questions()
        if not asked:
            await self._pause(self._seconds_to_next())
            return
        try:
            answer = await self._fetch(asked)
        except NO_ANSWER as error:
            await self._lost(error)
            return
        if self._is_unreachable:
            self._is_unreachable = False
            _logger.info("broker %d is fetched from again", self.leader_id)
        self._may_be_cancelled = False
        await self._take(asked, answer)
        self._may_be_cancelled = True

    async def _questions(self) -> dict[TopicPartition, Asked]:
        """The next question of every partition that may ask now."""
        backoff_ms = self._around.config(self.number).backoff_ms
        turns = Turns(self._around.runtime, f"broker {self.leader_id}")
        asked: dict[TopicPartition, Asked] = {}
        for topic_partition, partition in list(self._partitions.items()):
            if self._partitions.get(topic_partition) is not partition:
                continue  # It was removed in a pause.
            partition.following.backoff_ms = backoff_ms
            ask = partition.ask()
            if ask is not None:
                asked[topic_partition] = Asked(partition, ask)
            await turns.breathe()
        return asked

    def _seconds_to_next(self) -> float | None:
        """When a partition may ask again; None if each waits for metadata."""
        due = [one.following.retry_at_ms for one in self._partitions.values() if not one.following.has_failed]
        if not due:
            return None
        return max(0.001, (min(due) - self._around.runtime.clock.monotonic_ms()) / 1000)

    async def _pause(self, seconds: float | None) -> None:
        """Wait so long, or until something changes."""
        self._changed.clear()
        if self._is_ended:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    # The link

    async def _fetch(self, asked: Mapping[TopicPartition, Asked]) -> FetchResponse:
        around = self._around
        config = around.config(self.number)
        link = await self._connected(config)
        wanted = {tp: Wanted(one.partition.topic_id.bytes, one.ask) for tp, one in asked.items()}
        by_id = all(one.has_id for one in wanted.values())
        plan = self._session.plan(wanted, by_id=by_id)
        request = fetch_messages.fetch_request(
            plan, config.fetch, node_id=around.node_id, broker_epoch=around.broker_epoch()
        )
        version_max = None if by_id else versions.FETCH_WITHOUT_IDS
        return await link.send(request, timeout_ms=config.request_timeout_ms, version_max=version_max)

    async def _connected(self, config: FetcherConfig) -> Link:
        link = self._link
        if link is not None and link.is_open:
            return link
        self._session.failed()
        address = self._around.leader_address(self.leader_id)
        if address is None:
            raise DisconnectedError(
                f"broker {self.leader_id} is not among the living brokers of the metadata"
            )
        link = await open_link(self._around.runtime, address, config, served=versions.BETWEEN_BROKERS)
        self._link = link
        return link

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self._session.failed()

    async def _lost(self, error: SemelError) -> None:
        """Nothing was learned: another link after a while, or when the metadata has changed."""
        self._drop_link()
        if not self._is_unreachable:
            self._is_unreachable = True
            _logger.warning(
                "%d partitions cannot be fetched from broker %d and are tried again: %s",
                len(self._partitions),
                self.leader_id,
                error,
            )
        await self._pause(self._around.config(self.number).backoff_ms / 1000)

    # Answers

    async def _take(self, asked: Mapping[TopicPartition, Asked], answer: FetchResponse) -> None:
        code = fetch_messages.code_of(answer.error_code)
        self._session.answered(answer.session_id, code)
        if code:
            self._errors += 1
            _logger.info("broker %d ended the fetch session: %s", self.leader_id, code.name)
            if self._errors >= _ERRORS_IN_A_ROW:
                await self._pause(self._around.config(self.number).backoff_ms / 1000)
            return
        self._errors = 0
        turns = Turns(self._around.runtime, f"broker {self.leader_id}")
        by_id = {(one.partition.topic_id.bytes, tp.partition): tp for tp, one in asked.items()}
        todo = _Todo()
        for topic in answer.responses:
            for row in topic.partitions:
                where = (
                    TopicPartition(topic.topic, row.partition_index)
                    if topic.topic
                    else by_id.get((topic.topic_id, row.partition_index))
                )
                question = None if where is None else asked.get(where)
                if where is None or question is None:
                    _logger.warning(
                        "broker %d answers for partition %d of topic %r, which it was not asked for",
                        self.leader_id,
                        row.partition_index,
                        topic.topic or topic.topic_id.hex(),
                    )
                    continue
                await turns.breathe()
                try:
                    await self._take_row(question, row, turns, todo)
                except Exception as error:
                    self._broken(question, error)
        if todo.out_of_range:
            todo.cuts += await self._out_of_range(todo.out_of_range)
        if todo.cuts:
            self._session.failed()
            await self._carry_out(todo.cuts)
        if todo.to_sync:
            await asyncio.gather(*(self._sync(partition) for partition in todo.to_sync))
        self._begin_starts()

    async def _take_row(self, question: Asked, row: PartitionData, turns: Turns, todo: "_Todo") -> None:
        match self._step(question, row):
            case Append() as step:
                if await self._append(question, row, step, turns) and question.partition.is_flush_due:
                    todo.to_sync.append(question.partition)
            case Truncate(offset=offset):
                todo.cuts.append(self._cut(question, offset, is_whole=False))
            case AskEnds():
                todo.out_of_range[question.partition.topic_partition] = question
            case Wait():
                self._report(question, row)
            case _:
                self._session.failed()

    def _broken(self, asked: Asked, error: Exception) -> None:
        """Nobody foresaw this error: the others go on without this partition."""
        _logger.error(
            "%s is not fetched until it has another leader epoch: this broker failed at the answer of broker %d to a fetch at offset %d",
            asked.partition.topic_partition,
            self.leader_id,
            asked.ask.fetch_offset,
            exc_info=error,
        )
        self._session.failed()
        if self._is_current(asked):
            asked.partition.following.fail()

    def _is_current(self, asked: Asked) -> bool:
        """Whether the partition is still followed as it was when the question was asked."""
        partition = asked.partition
        return (
            self._partitions.get(partition.topic_partition) is partition
            and partition.following.leader_epoch == asked.ask.leader_epoch
        )

    def _step(self, asked: Asked, row: PartitionData) -> Step:
        if not self._is_current(asked):
            return None
        return asked.partition.told(asked.ask, fetch_messages.told(row))

    def _report(self, asked: Asked, row: PartitionData) -> None:
        """The leader has an error for a partition. Most come while metadata is on its way."""
        code = fetch_messages.code_of(row.error_code)
        level = logging.INFO if code in RETRIABLE else logging.ERROR
        fenced = code is ErrorCode.FENCED_LEADER_EPOCH
        what = "waits for the controller, it is led in a newer epoch" if fenced else "is asked for again"
        _logger.log(
            level,
            "%s %s: broker %d answered %s to a fetch at offset %d in epoch %d",
            asked.partition.topic_partition,
            what,
            self.leader_id,
            code.name,
            asked.ask.fetch_offset,
            asked.ask.leader_epoch,
        )

    # Records

    async def _append(self, asked: Asked, row: PartitionData, step: Append, turns: Turns) -> bool:
        """Append an answer's records; whether there were any, and all of them are here."""
        partition = asked.partition
        records = memoryview(row.records or b"")
        try:
            begin = partition.begins_below(records)
            if begin is not None and not await self._begin_at(asked, begin):
                return False
            is_first = True
            for piece in partition.pieces(records):
                if not is_first:
                    await turns.breathe()
                    if not self._is_current(asked):
                        self._session.failed()
                        return False
                is_first = False
                partition.append(piece)
        except CorruptBatchError as error:
            _logger.error(
                "%s: broker %d sent a damaged batch in epoch %d, to a fetch at offset %d; nothing of it is stored and it is "
                "asked for again: %s",
                partition.topic_partition,
                self.leader_id,
                asked.ask.leader_epoch,
                asked.ask.fetch_offset,
                error,
            )
            partition.wait()
            return False
        except (DiskRefusedError, OSError) as error:
            self._fail(partition, error)
            return False
        except LogError as error:
            _logger.error(
                "%s is not fetched until it has another leader epoch: %s", partition.topic_partition, error
            )
            partition.following.fail()
            return False
        partition.show(step.high_watermark)
        if records:
            # The others have their turn first, at a leader without sessions too.
            self._partitions[partition.topic_partition] = self._partitions.pop(partition.topic_partition)
        if step.log_start_offset > partition.log.log_start_offset:
            self._starts[partition.topic_partition] = NewStart(
                partition, step.log_start_offset, partial(self._is_current, asked)
            )
        return len(records) > 0

    async def _begin_at(self, asked: Asked, offset: int) -> bool:
        """An empty log begins with the whole of a batch; whether it does, and may be appended to."""
        self._session.failed()
        await self._carry_out([self._cut(asked, offset, is_whole=True)])
        return self._is_current(asked) and asked.partition.log.log_end_offset == offset

    def _fail(self, partition: FollowedPartition, error: Exception) -> None:
        """The disk of this broker does not do."""
        self.remove(partition)
        _logger.error("%s is not followed any more: %s", partition.topic_partition, error)
        self._around.on_failure(partition, error)

    async def _sync(self, partition: FollowedPartition) -> None:
        try:
            await partition.commits.durable(partition.log.log_end_offset)
        except LogError as error:
            if self._partitions.get(partition.topic_partition) is partition:
                self._fail(partition, error)

    # Cuts and starts

    def _cut(self, asked: Asked, offset: int, *, is_whole: bool) -> Cut:
        return Cut(asked.partition, offset, is_whole, partial(self._is_current, asked))

    async def _carry_out(self, cuts: Sequence[Cut]) -> None:
        for cut, error in await self._around.cuts.cut(cuts):
            if cut.is_wanted():
                self._fail(cut.partition, error)

    async def _out_of_range(self, asked: Mapping[TopicPartition, Asked]) -> list[Cut]:
        """The cuts that follow from where the leader's logs end and begin."""
        around = self._around
        question = Question(
            self._link, around.node_id, self.leader_id, around.config(self.number).request_timeout_ms
        )
        cuts: list[Cut] = []
        for where, step in (await leader_ends.learn(question, asked, self._is_current)).items():
            match step:
                case Truncate(offset=offset):
                    cuts.append(self._cut(asked[where], offset, is_whole=False))
                case StartAt(offset=offset):
                    cuts.append(self._cut(asked[where], offset, is_whole=True))
                case _:
                    pass
        return cuts

    def _begin_starts(self) -> None:
        """Move the beginnings of logs, beside the fetches: one task at a time."""
        if self._starts and self._starting is None:
            self._starting = self._tasks.spawn(
                self._start_logs(), name=f"log starts of broker {self.leader_id}"
            )

    async def _start_logs(self) -> None:
        try:
            while self._starts and not self._is_ended:
                starts, self._starts = list(self._starts.values()), {}
                await self._around.cuts.start_at(starts)
        except OSError as error:
            _logger.error("the new beginnings of logs could not be written down: %s", error)
        finally:
            self._starting = None
