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
Elsewhere. Questions and steps: `core.replication.following`. Messages: `fetch_messages`. Cuts: `log_cuts`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from semel.broker.replicas import fetch_messages
from semel.broker.replicas.fetch_messages import FetchSettings, Wanted
from semel.broker.replicas.followed_partition import DiskRefusedError, FollowedPartition
from semel.broker.replicas.log_cuts import Cut, LogCuts, NewStart
from semel.broker.turns import Turns
from semel.core.client.fetch_session import FetchSession
from semel.core.cluster import versions
from semel.core.replication.following import Append, Ask, AskEnds, StartAt, Step, Truncate, Wait
from semel.core.wire.messages.fetch import FetchResponse, PartitionData
from semel.errors import (
    RETRIABLE,
    CorruptBatchError,
    DisconnectedError,
    ErrorCode,
    LogError,
    RefusedError,
    SemelError,
    UnsupportedVersionError,
    WireError,
)
from semel.net.link import Link, open_link
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.types import Address, TopicPartition

_logger = logging.getLogger(__name__)
_NO_LINK: Final = (DisconnectedError, RefusedError, UnsupportedVersionError, WireError)
_ERRORS_IN_A_ROW: Final = 2
"""From this one on, an answer that is an error as a whole is followed by a pause."""


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


class _Asked(NamedTuple):
    """A question, and the partition it was asked for."""

    partition: FollowedPartition
    ask: Ask


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
                asked = await self._questions()
                if not asked:
                    await self._pause(self._seconds_to_next())
                    continue
                try:
                    answer = await self._fetch(asked)
                except _NO_LINK as error:
                    await self._lost(error)
                    continue
                if self._is_unreachable:
                    self._is_unreachable = False
                    _logger.info("broker %d is fetched from again", self.leader_id)
                self._may_be_cancelled = False
                await self._take(asked, answer)
                self._may_be_cancelled = True
        finally:
            if self._link is not None:
                self._link.close()

    async def _questions(self) -> dict[TopicPartition, _Asked]:
        """The next question of every partition that may ask now."""
        backoff_ms = self._around.config(self.number).backoff_ms
        turns = Turns(self._around.runtime, f"broker {self.leader_id}")
        asked: dict[TopicPartition, _Asked] = {}
        for topic_partition, partition in list(self._partitions.items()):
            if self._partitions.get(topic_partition) is not partition:
                continue  # It was removed in a pause.
            partition.following.backoff_ms = backoff_ms
            ask = partition.ask()
            if ask is not None:
                asked[topic_partition] = _Asked(partition, ask)
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

    async def _fetch(self, asked: Mapping[TopicPartition, _Asked]) -> FetchResponse:
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

    async def _lost(self, error: SemelError) -> None:
        """Nothing was learned: another link after a while, or when the metadata has changed."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._session.failed()
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

    async def _take(self, asked: Mapping[TopicPartition, _Asked], answer: FetchResponse) -> None:
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
        cuts: list[Cut] = []
        out_of_range: dict[TopicPartition, _Asked] = {}
        to_sync: list[FollowedPartition] = []
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
                step = self._step(question, row)
                match step:
                    case Append():
                        if await self._append(question, row, step, turns) and question.partition.is_flush_due:
                            to_sync.append(question.partition)
                    case Truncate(offset=offset):
                        cuts.append(self._cut(question, offset, is_whole=False))
                    case AskEnds():
                        out_of_range[where] = question
                    case Wait():
                        self._report(question, row)
                    case _:
                        self._session.failed()
        if out_of_range:
            cuts += await self._out_of_range(out_of_range)
        if cuts:
            self._session.failed()
            await self._carry_out(cuts)
        if to_sync:
            await asyncio.gather(*(self._sync(partition) for partition in to_sync))
        self._begin_starts()

    def _is_current(self, asked: _Asked) -> bool:
        """Whether the partition is still followed as it was when the question was asked."""
        partition = asked.partition
        return (
            self._partitions.get(partition.topic_partition) is partition
            and partition.following.leader_epoch == asked.ask.leader_epoch
        )

    def _step(self, asked: _Asked, row: PartitionData) -> Step:
        if not self._is_current(asked):
            return None
        return asked.partition.told(asked.ask, fetch_messages.told(row))

    def _report(self, asked: _Asked, row: PartitionData) -> None:
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

    async def _append(self, asked: _Asked, row: PartitionData, step: Append, turns: Turns) -> bool:
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

    async def _begin_at(self, asked: _Asked, offset: int) -> bool:
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
            await partition.commits.flush()
        except LogError as error:
            if self._partitions.get(partition.topic_partition) is partition:
                self._fail(partition, error)

    # Cuts and starts

    def _cut(self, asked: _Asked, offset: int, *, is_whole: bool) -> Cut:
        return Cut(asked.partition, offset, is_whole, partial(self._is_current, asked))

    async def _carry_out(self, cuts: Sequence[Cut]) -> None:
        for cut, error in await self._around.cuts.cut(cuts):
            if cut.is_wanted():
                self._fail(cut.partition, error)

    async def _out_of_range(self, asked: Mapping[TopicPartition, _Asked]) -> list[Cut]:
        """Learn where the leader's logs end and begin; the cuts that follow."""
        cuts: list[Cut] = []
        latest = await self._offsets(asked, fetch_messages.LATEST)
        later = {
            where: one
            for where, one in asked.items()
            if where in latest and latest[where] >= one.ask.fetch_offset
        }
        earliest = await self._offsets(later, fetch_messages.EARLIEST) if later else {}
        for where, end_offset in latest.items():
            question = asked[where]
            partition = question.partition
            if not self._is_current(question) or partition.log.log_end_offset != question.ask.fetch_offset:
                continue
            if where in later and where not in earliest:
                continue
            step = partition.following.ends(
                leader_start_offset=earliest.get(where, 0),
                leader_end_offset=end_offset,
                log_end_offset=partition.log.log_end_offset,
            )
            match step:
                case Truncate(offset=offset):
                    cuts.append(self._cut(question, offset, is_whole=False))
                case StartAt(offset=offset):
                    cuts.append(self._cut(question, offset, is_whole=True))
                case _:
                    partition.wait()  # In range again: not at once, or the two might never agree.
            _logger.warning(
                "%s: offset %d is out of range at broker %d, whose log goes from %s to %d",
                where,
                question.ask.fetch_offset,
                self.leader_id,
                earliest.get(where, "somewhere below"),
                end_offset,
            )
        return cuts

    async def _offsets(
        self, asked: Mapping[TopicPartition, _Asked], timestamp: int
    ) -> dict[TopicPartition, int]:
        """The leader's answers; who has none waits, or has failed."""
        around, link = self._around, self._link
        epochs = {where: one.ask.leader_epoch for where, one in asked.items()}
        request = fetch_messages.offsets_request(epochs, timestamp, node_id=around.node_id)
        found: dict[TopicPartition, int] = {}
        codes: dict[TopicPartition, ErrorCode] = {}
        if link is not None and link.is_open:
            try:
                response = await link.send(request, timeout_ms=around.config(self.number).request_timeout_ms)
            except _NO_LINK as error:
                _logger.info("broker %d did not say where its logs end: %s", self.leader_id, error)
            else:
                for where, code, offset in fetch_messages.offsets_told(response):
                    codes[where] = code
                    if not code:
                        found[where] = offset
        for where, one in asked.items():
            if where in found or not self._is_current(one):
                continue
            if codes.get(where) is ErrorCode.FENCED_LEADER_EPOCH:
                one.partition.following.fail()
            else:
                one.partition.wait()
        return {where: offset for where, offset in found.items() if where in asked}

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
