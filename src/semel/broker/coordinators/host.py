"""A coordinator's host: the shards of one internal topic, loaded, asked, written and given time.

Role.   `CoordinatorHost` is the same for groups and transactions: it knows partitions, time and waiting requests, and
        nothing of what a shard decides.
Flow.   `metadata_applier` calls `lead` and `resign` as the leadership of partitions comes and goes.
        ask: find the shard -> its operation -> append the rows as one batch -> apply them -> answer. Where the
        log shows rows at once, all of it is one step without waiting; else the answers wait, in order, for the log.
Rules.  * An answer waits until its rows, and all rows before them, are visible: it never tells of rows that may be lost.
        * A partition that is not led here has no shard here: a request for it is answered NOT_COORDINATOR. So are the waiting
          callers of a partition that is resigned. Rows that were appended and not answered are no success: the next
          coordinator answers for them.
        * Leadership has an epoch. A call with an older epoch than the known one changes nothing.
        * A shard is asked only after its whole log was replayed. A small log is replayed when it is first asked for,
          a large one in slices beside other work; meanwhile the answer is COORDINATOR_LOAD_IN_PROGRESS.
        * If the log refuses rows, the shard may have changed by itself: it is dropped and, after a pause, loaded again.
          Its waiting callers are told. Rows that are too large, or fenced, are refused alone if nothing has changed.
        * Time in a shard does not jump: it starts as the wall clock's and goes on with the monotonic one. Times in
          rows (`row_times`) are the wall clock's all the same.
        * Effects begin when the answers have left, and before the loop looks for the next request. No caller waits for them; where
          no partition has to be waited for, they are done when the client's next request comes.
        * One timer for all shards, set to the earliest deadline; a deadline that has moved later costs nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from semel.broker.coordinators.java_hash import partition_for
from semel.broker.coordinators.loading import SLICE_BYTES, Loading
from semel.broker.coordinators.tickets import Answer, WaitingRequest
from semel.broker.partitions import Partitions
from semel.broker.replicas.led_partition import LedPartition
from semel.cluster.store import ChangeRefusedError
from semel.core.coordination.outcome import Origin, Outcome, Shard, Ticket
from semel.core.coordination.row_format import RowFormat
from semel.core.coordination.row_times import RowTimes, moved
from semel.core.records.build import build_batch
from semel.errors import (
    CorruptBatchError,
    ErrorCode,
    InvalidRecordError,
    InvariantError,
    LogError,
    Refuse,
    UnsupportedVersionError,
    WireError,
)
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.types import NO_PRODUCER_ID, TopicPartition

S = TypeVar("S", bound=Shard[Any])
E = TypeVar("E")
T = TypeVar("T")
Operation = Callable[[S, Ticket, int], Outcome[E]]
_logger: Final = logging.getLogger(__name__)
_RETRY_MS: Final = 5000
"""The pause before a log that could not be replayed is tried again."""
_REFUSED_PAUSE_MS: Final = 500
"""The pause after a log took no rows and a shard was dropped: no shard is loaded by itself, and no deadline is met.

Without it, overdue work and the effects of a loaded shard would be refused at once again."""
_CLOCKS_DIFFER_MS: Final = 1000
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class _Hosted(Generic[S, E]):
    """One partition of the topic, and the shard replayed from it."""

    __slots__ = ("index", "loading", "partition", "resigned", "retry_at_ms", "shard", "unsettled", "waiting")

    def __init__(self, index: int, partition: LedPartition) -> None:
        self.index = index
        self.partition = partition
        partition.log.producers.verification_required = False  # Coordinators check their rows themselves.
        self.resigned = False
        self.shard: S | None = None
        self.loading: Loading[S] | None = None
        self.retry_at_ms = 0
        self.waiting: dict[WaitingRequest, None] = {}
        self.unsettled: deque[tuple[int, Outcome[E]]] = deque()


class CoordinatorHost(Generic[S, E]):
    """The shards of one topic."""

    def __init__(
        self,
        *,
        topic: str,
        row_format: RowFormat,
        make_shard: Callable[[int], S],
        create_topic: Callable[[], Awaitable[None]],
        partitions: Partitions,
        runtime: Runtime,
        run_effect: Callable[[int, E], None] | None = None,
        compression: int = 0,
        row_times: RowTimes | None = None,
    ) -> None:
        self.topic = topic
        self._row_times: RowTimes = row_times or {}
        self._format = row_format
        self._make_shard = make_shard
        self._create_topic = create_topic
        self._partitions = partitions
        self._runtime = runtime
        self._run_effect = run_effect
        self._compression = compression
        self._led: dict[int, LedPartition] = {}
        self._epochs: dict[int, int] = {}
        """The latest leader epoch that is known of a partition, led here or not."""
        self._hosted: dict[int, _Hosted[S, E]] = {}
        self._creation: asyncio.Task[ErrorCode] | None = None
        self._to_load: deque[int] = deque()
        self._loader: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._timers_from_ms = 0
        self._started = False
        self._stopped = False
        clock = runtime.clock
        self._monotonic_ms = clock.monotonic_ms
        self._offset_ms = clock.now_ms() - clock.monotonic_ms()

    # From the broker

    def start(self) -> None:
        """Begin to load what is there."""
        self._started = True
        for index in self._led:
            self._load_soon(index)

    def stop(self) -> None:
        """Answer whoever waits, and do nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for hosted in list(self._hosted.values()):
            self._drop(hosted, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def lead(self, index: int, epoch: int) -> None:
        """This broker leads the partition from this epoch on, and coordinates its keys."""
        partition = self._partitions.get(self.topic, index)
        if partition is None or epoch < self._epochs.get(index, -1):
            return
        self._epochs[index] = epoch
        if self._led.get(index) is partition:
            return  # The same leader in a later epoch: the shard stays.
        self._resign(index)
        self._led[index] = partition
        log = partition.log
        if self._started and log.log_end_offset > log.log_start_offset:
            self._load_soon(
                index
            )  # It may have to be carried on with before anybody asks. An empty log can wait.

    def resign(self, index: int, epoch: int) -> None:
        """From this epoch on another broker leads the partition, or none."""
        if epoch >= self._epochs.get(index, -1):
            self._epochs[index] = epoch
            self._resign(index)

    def forget(self, index: int | None = None) -> None:
        """The topic is gone, or its partition here. One of its name that is made later begins with epochs of its own."""
        for one in list(self._led) if index is None else [index]:
            self._resign(one)
        if index is None:
            self._epochs.clear()
        else:
            self._epochs.pop(index, None)

    def _resign(self, index: int) -> None:
        self._led.pop(index, None)
        hosted = self._hosted.pop(index, None)
        if hosted is not None:
            hosted.resigned = True
            self._let_go(hosted, ErrorCode.NOT_COORDINATOR)

    @property
    def led(self) -> list[int]:
        """The partitions that are led here."""
        return sorted(self._led)

    @property
    def loading(self) -> list[int]:
        """The partitions whose rows are being replayed, or wait for it."""
        return list(self._to_load)

    def epoch_of(self, index: int) -> int | None:
        """The leader epoch of a partition; None if it is not led here."""
        return self._epochs[index] if index in self._led else None

    def tenure_of(self, index: int) -> object | None:
        """This broker's leadership of a partition, another object after each interruption; None if it is not led here."""
        return self._led.get(index)

    @property
    def partitions_count(self) -> int:
        """How many there are; 0 while the topic is not made."""
        return self._partitions.count(self.topic)

    def partition_of(self, key: str) -> int:
        """The partition that coordinates this key. The topic must be there."""
        return partition_for(key, self.partitions_count)

    def now_ms(self) -> int:
        """The shards' time."""
        return self._monotonic_ms() + self._offset_ms

    def _wall_ahead_ms(self) -> int:
        """How far the wall clock is ahead of the shards' time, if it was set or the machine has slept."""
        ahead_ms = self._runtime.clock.now_ms() - self.now_ms()
        return ahead_ms if abs(ahead_ms) >= _CLOCKS_DIFFER_MS else 0

    # From handlers

    def ensure_topic(self) -> ErrorCode | Awaitable[ErrorCode]:
        """Have the topic there, made now if need be."""
        if self._stopped:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._creation is None:
            if self.partitions_count:
                return ErrorCode.NONE
            self._creation = self._runtime.tasks.spawn(self._create(), name=f"create {self.topic}")
        return asyncio.shield(self._creation)

    async def _create(self) -> ErrorCode:
        try:
            await self._create_topic()
        except (LogError, OSError, ChangeRefusedError) as error:
            _logger.error("%s could not be created: %s", self.topic, error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        finally:
            self._creation = None
        # Another change that makes the topic may be on its way to the disk.
        return ErrorCode.NONE if self.partitions_count else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def ask(self, key: str, operation: Operation[S, E]) -> Answer | Awaitable[Answer]:
        """Let the shard of this key decide; its answer, or a code if it cannot be asked now."""
        if self._creation is not None or not self.partitions_count:
            return self._ask_later(key, operation)
        return self.ask_partition(self.partition_of(key), operation)

    async def _ask_later(self, key: str, operation: Operation[S, E]) -> Answer:
        made = self.ensure_topic()
        code = made if isinstance(made, ErrorCode) else await made
        if code:
            return code
        answer = self.ask(key, operation)
        return await answer if isinstance(answer, Awaitable) else answer

    def ask_partition(self, index: int, operation: Operation[S, E]) -> Answer | Awaitable[Answer]:
        """As `ask`, of the shard with this number."""
        hosted = self._ready(index)
        if isinstance(hosted, ErrorCode):
            return hosted
        shard = hosted.shard
        if shard is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        request = WaitingRequest()
        hosted.waiting[request] = None
        self._run(hosted, lambda: operation(shard, Ticket(request), self.now_ms()))
        result = request.result()
        if isinstance(result, asyncio.Future):
            result.add_done_callback(lambda _: hosted.waiting.pop(request, None))
        return result

    def tell(self, index: int, operation: Callable[[S, int], Outcome[E]]) -> ErrorCode:
        """Let a shard know something nobody waits to hear an answer to; a code if it cannot be told now."""
        hosted = self._ready(index)
        if isinstance(hosted, ErrorCode):
            return hosted
        if hosted.shard is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shard = hosted.shard
        self._run(hosted, lambda: operation(shard, self.now_ms()))
        return ErrorCode.NONE

    def refuse(self, index: int, ticket: Ticket, code: ErrorCode) -> None:
        """Answer a waiting caller whose request cannot be carried out."""
        hosted = self._hosted.get(index)
        if hosted is not None:
            self._give(hosted, ticket, code)

    @property
    def shards(self) -> list[S]:
        """The shards that are loaded."""
        return [hosted.shard for hosted in self._hosted.values() if hosted.shard is not None]

    def look(self, question: Callable[[S], T]) -> list[T] | ErrorCode:
        """Every shard's answer to a question that changes nothing; a code if one cannot be asked now.

        Partitions that are not led here have no say.
        """
        answers: list[T] = []
        for answer in self.looks(question):
            if isinstance(answer, ErrorCode):
                return answer
            answers.append(answer)
        return answers

    def looks(self, question: Callable[[S], T]) -> Iterator[T | ErrorCode]:
        """The same, one shard after the other: there may be pauses between. A code is the last answer."""
        for index in self.led:
            if index not in self._led:
                continue  # It was resigned in a pause.
            hosted = self._ready(index)
            if isinstance(hosted, ErrorCode):
                yield hosted
                return
            if hosted.shard is None:
                yield ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return
            yield question(hosted.shard)

    def start_verification(
        self, index: int, *, producer_id: int, producer_epoch: int
    ) -> int | ErrorCode | None:
        """Before a producer's transaction reaches this partition: a token for `is_verified`, None where its transaction is open
        here already, or why nothing can be written now."""
        hosted = self._ready(index)
        if isinstance(hosted, ErrorCode):
            return hosted
        token = hosted.partition.log.producers.start_verification(
            producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            supports_epoch_bump=False,
            now_ms=self._runtime.clock.now_ms(),
        )
        return token.code if isinstance(token, Refuse) else token

    def is_verified(self, index: int, *, producer_id: int, token: int) -> bool:
        """Whether no transaction of this producer has begun or ended here since the token was given."""
        partition = self._led.get(index)
        return partition is not None and partition.log.producers.is_guarded(producer_id, token)

    def append_marker(
        self,
        index: int,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """End a producer's transaction on this partition; NONE once the marker is as durable as the topic asks."""
        hosted = self._ready(index)
        if isinstance(hosted, ErrorCode):
            return hosted
        partition, shard = hosted.partition, hosted.shard
        if shard is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        result = partition.append_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            transaction_version=transaction_version,
        )
        if isinstance(result, Refuse):
            if result.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._drop(hosted, ErrorCode.NOT_COORDINATOR)
            return result.code
        shard.apply_marker(producer_id, producer_epoch, commit=commit)
        self._arm(shard.next_deadline_ms())
        if partition.settled:
            return ErrorCode.NONE
        settling = self._marked(hosted, result.last_offset + 1)
        return self._runtime.tasks.spawn(settling, name=f"marker on {self.topic}-{index}")

    async def _marked(self, hosted: _Hosted[S, E], end_offset: int) -> ErrorCode:
        try:
            await hosted.partition.settle(end_offset)
        except LogError as error:
            self._failed(hosted, error)
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NOT_COORDINATOR if hosted.resigned else ErrorCode.NONE

    # Outcomes

    def _run(self, hosted: _Hosted[S, E], operation: Callable[[], Outcome[E]]) -> None:
        """Let a shard decide. A shard that breaks a rule of its own is not asked again before it is loaded anew."""
        try:
            self._take(hosted, operation())
        except Exception:
            self._drop(hosted, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise

    def _take(self, hosted: _Hosted[S, E], outcome: Outcome[E]) -> None:
        """Write, apply, answer: in one step, as far as the log allows."""
        shard = hosted.shard
        if shard is None:
            return
        if outcome.rows:
            refused = self._append(hosted, shard, outcome)
            if refused is not None:
                self._refused(hosted, outcome, refused)
                return
        if hosted.unsettled or not hosted.partition.settled:
            if outcome.rows or outcome.replies or outcome.effects:
                hosted.unsettled.append((hosted.partition.log.log_end_offset, outcome))
                if len(hosted.unsettled) == 1:
                    self._runtime.tasks.spawn(
                        self._settle(hosted), name=f"settle {self.topic}-{hosted.index}"
                    )
        else:
            self._finish(hosted, outcome)
        self._arm(shard.next_deadline_ms())

    def _append(self, hosted: _Hosted[S, E], shard: S, outcome: Outcome[E]) -> Refuse | None:
        now_ms = self._runtime.clock.now_ms()
        encode = self._format.encode
        rows = outcome.rows
        if self._row_times and (ahead_ms := self._wall_ahead_ms()):
            rows = [moved(row, self._row_times, ahead_ms) for row in rows]
        in_transaction = outcome.producer_id != NO_PRODUCER_ID
        try:
            records = [encode(row, now_ms) for row in rows]
            if not self._compression:
                # Before the rows are copied into a batch: for fifty megabytes that takes a fifth of a second.
                size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
                if size > (most := hosted.partition.log.config.max_message_bytes):
                    return Refuse(
                        ErrorCode.MESSAGE_TOO_LARGE,
                        f"the rows have {size} bytes and the topic takes {most} (max.message.bytes)",
                    )
            data = build_batch(
                records,
                compression=self._compression,
                producer_id=outcome.producer_id,
                producer_epoch=outcome.producer_epoch,
                transactional=in_transaction,
            )
        except (WireError, UnsupportedVersionError, InvalidRecordError) as error:
            return Refuse(ErrorCode.MESSAGE_TOO_LARGE, f"a row cannot be written: {error}")
        result = hosted.partition.append(data, from_client=False)
        if isinstance(result, Refuse):
            return result
        if not isinstance(result, Appended):
            raise InvariantError(f"{self.topic}-{hosted.index} took a batch without sequence for a duplicate")
        offset = result.base_offset
        for row in outcome.rows:
            shard.apply(row, Origin(offset, now_ms, outcome.producer_id, outcome.producer_epoch))
            offset += 1
        return None

    def _refused(self, hosted: _Hosted[S, E], outcome: Outcome[E], refused: Refuse) -> None:
        """The rows are not in the log. Is the shard as it was, or must it be loaded again?"""
        _logger.error("%s took no rows: %s", TopicPartition(self.topic, hosted.index), refused.reason)
        storage = refused.code is ErrorCode.KAFKA_STORAGE_ERROR
        code = ErrorCode.NOT_COORDINATOR if storage else refused.code
        if code in _TOO_LARGE:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        for ticket, _response in outcome.replies:
            self._give(hosted, ticket, code)
        if storage or not outcome.rows_only:
            self._timers_from_ms = self.now_ms() + _REFUSED_PAUSE_MS
            self._drop(hosted, ErrorCode.NOT_COORDINATOR)

    async def _settle(self, hosted: _Hosted[S, E]) -> None:
        """Answer, in order, what waits for the log."""
        while hosted.unsettled:
            end_offset, outcome = hosted.unsettled[0]
            try:
                await hosted.partition.settle(end_offset)
            except LogError as error:
                self._failed(hosted, error)
                return
            if hosted.unsettled and hosted.unsettled[0][1] is outcome:  # Else it was dropped meanwhile.
                hosted.unsettled.popleft()
                self._finish(hosted, outcome)

    def _finish(self, hosted: _Hosted[S, E], outcome: Outcome[E]) -> None:
        for ticket, response in outcome.replies:
            self._give(hosted, ticket, response)
        if outcome.effects:
            self._runtime.tasks.call_soon(self._run_effects, hosted, hosted.shard, outcome.effects)

    def _run_effects(self, hosted: _Hosted[S, E], shard: S | None, effects: Sequence[E]) -> None:
        if self._run_effect is None or hosted.shard is not shard:
            return  # It was dropped meanwhile: loaded again, it has them run again.
        try:
            for effect in effects:
                self._run_effect(hosted.index, effect)
        except Exception:
            self._timers_from_ms = self.now_ms() + _REFUSED_PAUSE_MS
            self._drop(hosted, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise

    def _give(self, hosted: _Hosted[S, E], ticket: Ticket, answer: Answer) -> None:
        request: object = ticket
        if not isinstance(request, WaitingRequest):
            raise TypeError(f"{ticket!r} is not a ticket of this host")
        hosted.waiting.pop(request, None)
        request.give(answer)

    def _failed(self, hosted: _Hosted[S, E], error: LogError) -> None:
        """Whether rows are durable will never be known: say nothing about them but that we do not know."""
        if hosted.resigned:
            return  # Its callers were told then.
        _logger.error("%s cannot go on: %s", TopicPartition(self.topic, hosted.index), error)
        self._drop(hosted, ErrorCode.NOT_COORDINATOR)

    def _drop(self, hosted: _Hosted[S, E], code: ErrorCode) -> None:
        """Forget a shard; whoever asks next has it loaded again."""
        if self._hosted.get(hosted.index) is hosted:
            del self._hosted[hosted.index]
        self._let_go(hosted, code)
        pause_ms = self._timers_from_ms - self.now_ms()
        if (
            pause_ms > 0
        ):  # The log has just refused rows: what a loaded shard has carried out would be refused again.
            self._runtime.tasks.call_later(pause_ms / 1000, self._load_soon, hosted.index)
        else:
            self._load_soon(hosted.index)

    @staticmethod
    def _let_go(hosted: _Hosted[S, E], code: ErrorCode) -> None:
        """Ask a shard no more, and tell its waiting callers."""
        hosted.shard = hosted.loading = None
        hosted.unsettled.clear()
        waiting, hosted.waiting = hosted.waiting, {}
        for request in waiting:
            request.give(code)

    # Loading

    def _ready(self, index: int) -> _Hosted[S, E] | ErrorCode:
        """The partition with its shard loaded, or why it cannot be had now."""
        hosted = self._hosted.get(index)
        if hosted is not None and hosted.shard is not None:
            return hosted
        if self._stopped:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self._led.get(index)
        if partition is None:
            elsewhere = self._partitions.missing(self.topic, index) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.NOT_COORDINATOR if elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if hosted is None:
            hosted = self._hosted[index] = _Hosted(index, partition)
        if partition.log.offline is not None:
            return ErrorCode.NOT_COORDINATOR
        if hosted.retry_at_ms > self.now_ms():
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if partition.log.size_bytes > SLICE_BYTES:
            self._load_soon(index)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        while not self._load_step(hosted):
            pass
        return hosted if hosted.shard is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _load_soon(self, index: int) -> None:
        if self._stopped:
            return
        if index not in self._to_load:
            self._to_load.append(index)
        if self._loader is None:
            self._loader = self._runtime.tasks.spawn(self._load_all(), name=f"load {self.topic}")

    async def _load_all(self) -> None:
        try:
            while self._to_load and not self._stopped:
                index = self._to_load[0]
                partition = self._led.get(index)
                if partition is not None and partition.log.offline is None:
                    hosted = self._hosted.get(index)
                    if hosted is None:
                        hosted = self._hosted[index] = _Hosted(index, partition)
                    while not self._load_step(hosted):
                        await self._runtime.tasks.sleep(0)
                    if self._hosted.get(index) is not hosted:
                        continue  # It was resigned meanwhile, and may be led again: that is a load of its own.
                self._to_load.popleft()
                await self._runtime.tasks.sleep(0)
        finally:
            self._loader = None

    def _load_step(self, hosted: _Hosted[S, E]) -> bool:
        """Replay one more slice; whether there is nothing more to do."""
        if hosted.shard is not None or self._hosted.get(hosted.index) is not hosted:
            return True
        if hosted.loading is None:
            hosted.loading = Loading(
                self._make_shard(hosted.index),
                hosted.partition.log,
                self._format,
                self._row_times,
                self._wall_ahead_ms(),
            )
        loading = hosted.loading
        try:
            if not loading.step():
                return False
        except (LogError, CorruptBatchError, OSError) as error:
            _logger.error("%s could not be loaded: %s", TopicPartition(self.topic, hosted.index), error)
            hosted.loading = None
            hosted.retry_at_ms = self.now_ms() + _RETRY_MS
            return True
        hosted.shard, hosted.loading = loading.shard, None
        if loading.records:
            _logger.info(
                "%s: loaded from %d records", TopicPartition(self.topic, hosted.index), loading.records
            )
        self._run(hosted, lambda: loading.shard.loaded(self.now_ms()))
        return True

    # Time

    def _arm(self, deadline_ms: int | None) -> None:
        """Be called at this time, or earlier."""
        if deadline_ms is None or self._stopped:
            return
        deadline_ms = max(deadline_ms, self._timers_from_ms)
        if self._timer is not None:
            if self._timer_at_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        seconds = max(0, deadline_ms - self.now_ms()) / 1000
        self._timer = self._runtime.tasks.call_later(seconds, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        if now_ms < self._timers_from_ms:
            self._arm(now_ms)
            return
        for hosted in list(self._hosted.values()):
            shard = hosted.shard
            if shard is None:
                continue
            deadline_ms = shard.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= now_ms:
                self._arm(now_ms)  # Should this one fail, the others are looked at all the same.
                self._run(hosted, partial(shard.due, now_ms))
            else:
                self._arm(deadline_ms)
