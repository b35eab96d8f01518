"""The producer for asyncio: `semel.aio.Producer`, and the core of the blocking one.

Role.   Puts the parts together and waits where they must not: for metadata, for memory, for everything to be stored.
Flow.   `send` -> `intake` -> `outbox` -> `sender` -> the broker -> the record's future. The blocking `semel.Producer` owns one of
        these on a loop of its own and uses `intake` from its callers' threads.
Rules.  * Constructing it connects to nothing; the first call does.
        * `send` waits for at most `max.block.ms`, for the topic and for memory together.
        * `close` sends what was given and then ends; with a timeout, or cancelled, what is left fails. Every future and callback
          hears of its record exactly once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from semel.client import arguments
from semel.client.chain import Chain
from semel.client.cluster import Cluster, PartitionView
from semel.client.config_keys import Given
from semel.client.metrics import MetricValues, report
from semel.client.producer.encoding import Kernels
from semel.client.producer.future import ArrowFuture, Callback, SendFuture
from semel.client.producer.intake import GivenHeaders, Held, Intake, Timestamp
from semel.client.producer.leaving import LOOP_ENDED, LoopWatch
from semel.client.producer.outbox import Outbox
from semel.client.producer.prepared import PreparedTxnState, ProducerIdAndEpoch
from semel.client.producer.sender import Sender
from semel.client.producer.topics import KnownTopic, Topics
from semel.client.producer.transaction_errors import NOT_TRANSACTIONAL, left_block, torn
from semel.client.producer.transactions import Transactions, positions
from semel.client.producer.transactions import group_metadata as group_of
from semel.client.settings import ProducerConfig
from semel.core.client.accumulator import Batch
from semel.core.idempotence.delivery import Identity
from semel.errors import ErrorCode, SemelError
from semel.exceptions import (
    ApiException,
    BufferExhaustedException,
    IllegalStateException,
    KafkaException,
    as_exception,
)
from semel.runtime.bundle import Runtime, real_runtime
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.client.consumer.consumer import AsyncConsumer
    from semel.client.producer.arrow import Columns, Placed

Offsets: TypeAlias = (
    Mapping[TopicPartition, Any]
    | Mapping[tuple[str, int], Any]
    | Mapping[TopicPartition | tuple[str, int], Any]
)
"""By partition: a number, or what has `offset`, `metadata` and `leader_epoch`. A mapping's keys are of one type or another."""

CLOSED: Final = "Cannot perform operation after producer has been closed"


class AsyncProducer:
    """Sends records, each stored exactly once. Settings are Kafka's, as a mapping of dotted keys or as keywords."""

    def __init__(
        self,
        settings: Mapping[str, Given] | ProducerConfig | None = None,
        /,
        *,
        runtime: Runtime | None = None,
        **keywords: Given,
    ) -> None:
        self._settings = (
            settings if isinstance(settings, ProducerConfig) else ProducerConfig.of(settings, **keywords)
        )
        config = self._settings
        self._owns_runtime = runtime is None
        self._runtime = runtime or real_runtime(threads_max=1)
        self.cluster = Cluster(self._runtime, config)
        self.topics = Topics(self.cluster, config, self._runtime)
        self.outbox = Outbox(
            self._runtime,
            batch_size_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            buffer_bytes=config.buffer_memory,
        )
        self.intake = Intake(config, self.topics, self.outbox)
        self._sender = Sender(self._runtime, config, self.cluster, self.outbox, self.topics)
        self._metrics = self._sender.metrics
        accumulator = self.outbox.accumulator
        self._metrics.watch(
            buffer_total_bytes=lambda: config.buffer_memory,
            buffer_available_bytes=lambda: accumulator.available_bytes,
            waiting_threads=lambda: len(accumulator.waiting),
            requests_in_flight=lambda: self._sender.requests_in_flight,
            metadata_age_s=lambda: self.topics.age_ms / 1000,
        )
        self._columns: Columns | None = None
        self.transactions: Transactions | None = None
        self._chains: dict[str, Chain] = {}
        if config.transactional_id is not None:
            self.transactions = Transactions(self._sender, config, config.transactional_id)
            self._sender.on_turn = self.transactions.step
        self._task: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._watch = LoopWatch(self) if self._owns_runtime else None
        """For a producer on a loop of its user's, which may end before it does."""

    @property
    def config(self) -> dict[str, Any]:
        """Every setting with the value that holds, under Kafka's names."""
        return self._settings.effective()

    def metrics(self) -> MetricValues:
        """What the producer measures, by Java's names; and its settings by their keys."""
        return self._metrics.snapshot()

    # Records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp: Timestamp = None,
        headers: GivenHeaders = None,
        callback: Callback | None = None,
    ) -> SendFuture:
        """Give a record to the producer; awaiting the future it returns gives the record's place in the log.

        Waits only for what the record needs to be taken: its topic, and memory. `callback` is called with the record's
        metadata or with what went wrong, the other of the two being None.
        """
        self._start()
        try:
            taken = self.intake.offer(topic, value, key, partition, timestamp, headers, callback)
            return taken if isinstance(taken, SendFuture) else await self._take(taken)
        except ApiException as error:
            self._refused(error)
            raise

    def _refused(self, error: SemelError) -> KafkaException:
        """A record was not taken, for this reason: a transaction cannot be committed without it."""
        if self.transactions is not None:
            self.transactions.refuse(error.code)
        return as_exception(error)

    async def _take(self, held: Held) -> SendFuture:
        max_block_ms = self._settings.max_block_ms
        deadline_ms = self._now_ms() + max_block_ms
        known = await self.topics.fetch(held.topic, held.partition, max_block_ms)
        self._metrics.took("metadata-wait", self._now_ms() + max_block_ms - deadline_ms)
        while True:
            future = self.intake.place(held, known)
            if future is not None:
                return future
            await self._room(held.size_bytes, deadline_ms)

    async def _room(self, size_bytes: int, deadline_ms: int) -> None:
        """Wait until some memory is free."""
        since_ms = self._now_ms()
        free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.outbox.call_when_free(size_bytes, lambda: None if free.done() else free.set_result(None))
        try:
            async with asyncio.timeout(max(0, deadline_ms - self._now_ms()) / 1000):
                await free
        except TimeoutError:
            raise self._exhausted(size_bytes, since_ms) from None
        self._metrics.waited_for_memory(self._now_ms() - since_ms)

    def _exhausted(self, size_bytes: int, since_ms: int) -> BufferExhaustedException:
        """What `send` raises when memory stays full."""
        config = self._settings
        self._metrics.exhausted()
        return BufferExhaustedException(
            f"Failed to allocate {size_bytes} bytes within the configured max blocking time {config.max_block_ms} ms. "
            f"Total memory: {config.buffer_memory} bytes. Available memory: "
            f"{self.outbox.accumulator.available_bytes} bytes{self.cluster.troubles.last(since_ms)}."
        )

    async def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        timestamp: Timestamp = None,
        ignore_columns: bool | str | Iterable[str] = (),
    ) -> ArrowFuture:
        """Send the rows of Arrow columns: key, value, and where they are there timestamp, headers and partition.

        `data` is a pyarrow Table, RecordBatch or RecordBatchReader, or whatever exports Arrow's stream interface. No Python
        object is made per row. Returns once all rows are taken; awaiting what it returns gives the ranges of offsets.
        `timestamp` is that of rows without one; now, unless it is given. `ignore_columns` are not looked at, True: whatever no
        record has; other columns that no record has are refused.
        """
        self._start()
        topic, given_ms = arguments.topic(topic), self._arrow_time(timestamp)
        if not Kernels.is_loaded:
            await self._runtime.tasks.in_thread(Kernels.load)
        pieces = self._pieces(data, ignore_columns)
        taken: list[Batch] = []
        opening, rows_before = self.outbox.openings, 0
        try:
            for rows in pieces:
                known = await self.topics.fetch(topic, None, self._settings.max_block_ms)
                now_ms = self._runtime.clock.now_ms() if given_ms is None else given_ms
                for placed in self._made_columns().batches(rows, known, now_ms, rows_before):
                    while (batch := self._take_placed(known, placed, opening)) is None:
                        deadline_ms = self._now_ms() + self._settings.max_block_ms
                        await self._room(len(placed.batch.data), deadline_ms)
                    taken.append(batch)
                    await self._runtime.tasks.sleep(0)  # Let the sender have its turn.
                rows_before += rows.num_rows
        except SemelError as error:
            raise self._refused(error) from error
        except Exception:  # Of whatever the rows are read from: some of them may have been taken.
            self._torn_rows()
            raise
        return ArrowFuture(taken)

    def _torn_rows(self) -> None:
        """Rows could not be read to their end: a transaction cannot be committed with half of them."""
        if self.transactions is not None:
            self.transactions.refuse(ErrorCode.INVALID_RECORD)

    def _pieces(self, data: Any, ignore_columns: bool | str | Iterable[str]) -> "Iterator[pa.RecordBatch]":
        """The rows, a piece at a time."""
        from semel.client.producer import arrow

        return arrow.rows_of(data, ignore_columns)

    def _made_columns(self) -> "Columns":
        """What makes batches of rows."""
        if self._columns is None:
            from semel.client.producer.arrow import Columns

            self._columns = Columns(self._settings, self._sender.codec, self.intake.partitioner)
        return self._columns

    def _take_placed(self, known: KnownTopic, placed: "Placed", opening: int) -> Batch | None:
        """Take a finished batch, or None while there is no room for it."""
        made = placed.batch
        return self.outbox.append_sealed(
            known, placed.partition, made.data, made.records_count, made.max_timestamp, opening
        )

    def _arrow_time(self, timestamp: Timestamp) -> int | None:
        """The time of rows without one; None: when they are taken."""
        return None if timestamp is None else arguments.milliseconds(timestamp)

    async def flush(self) -> None:
        """Send everything that was given now, and return once the fate of all of it is known."""
        self._check_open()
        self._start()
        with self._timed("flush"):
            await self._until_ended(self.outbox.pending())

    async def _until_ended(self, batches: Iterable[Batch]) -> None:
        self.outbox.accumulator.flushes += 1
        self.outbox.wake()
        try:
            for batch in batches:
                ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                batch.listeners.append(lambda to=ended: None if to.done() else to.set_result(None))  # type: ignore[misc]  # a default binds it
                if batch.is_done:
                    batch.tell()
                await ended
        finally:
            self.outbox.accumulator.flushes -= 1

    async def partitions_for(self, topic: str) -> list[PartitionView]:
        """The partitions of a topic, as the cluster describes them."""
        self._check_open()
        topic = arguments.topic(topic)
        self._start()
        await self.topics.fetch(topic, None, self._settings.max_block_ms)
        return list((await self.cluster.topic(topic)).partitions)

    # Transactions

    async def init_transactions(self, keep_prepared_txn: bool = False) -> ProducerIdAndEpoch:
        """Take over the `transactional.id`: whoever had it is fenced, and what it left open is aborted. Who it is now.

        Once, before the first transaction. With two-phase commit, `keep_prepared_txn` keeps a transaction that was left
        open instead: end it with `complete_transaction`, or commit or abort it.
        """
        with self._timed("txn-init"):
            identity = await self._transactions().init(
                self._settings.max_block_ms, keep_prepared=keep_prepared_txn
            )
        return ProducerIdAndEpoch(*identity)

    async def join_transaction(self, producer_id: int, producer_epoch: int) -> None:
        """Take part in a transaction of this `transactional.id` that another process begins and ends under this identity.

        Instead of `init_transactions`, and once. What is sent here is committed or aborted with the rest; `flush` before the
        owner ends it. For each identity a partition has one producer that writes to it, because sequences begin at 0.
        """
        identity = Identity(
            arguments.whole("producer_id", producer_id, "a whole number from 0 on", least=0),
            arguments.whole(
                "producer_epoch",
                producer_epoch,
                "a whole number from 0 on",
                least=0,
                most=arguments.INT16_MAX,
            ),
        )
        self._transactions().join(identity)

    async def begin_transaction(self) -> None:
        """Begin a transaction. Nothing is sent for it."""
        self._transactions()
        self._begin()

    def _begin(self) -> None:
        """The same on any thread, once the producer is started."""
        self._check_open()
        if self.transactions is None:
            raise IllegalStateException(NOT_TRANSACTIONAL)
        with self._timed("txn-begin"):
            self.transactions.begin()
        for chain in self._chains.values():
            chain.began()

    async def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: Any) -> None:
        """Commit a group's offsets with the transaction: of the next record to read, that is the last one's plus one.

        `group_metadata` is what `consumer.group_metadata()` gives: a member the group has replaced is refused then. A plain
        group id is accepted, and nobody is refused for it.
        """
        transactions, group, wanted = self._transactions(), group_of(group_metadata), positions(offsets)
        if self._is_torn(group_metadata):
            transactions.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
            raise torn(group)
        with self._timed("txn-send-offsets"):
            await transactions.send_offsets(group, wanted, self._settings.max_block_ms)

    async def commit_transaction(self) -> None:
        """Store what was sent, and commit: all of it is seen, by those who read what is committed, or nothing."""
        with self._timed("txn-commit"):
            await self._transactions().commit(self._settings.max_block_ms)
        self._end_chains()

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and have the rest ignored by those who read what is committed."""
        with self._timed("txn-abort"):
            await self._transactions().abort(self._settings.max_block_ms)
        self._end_chains()

    async def prepare_transaction(self) -> PreparedTxnState:
        """Two-phase commit: store what was sent and leave the transaction open, whatever happens to this producer.

        Keep what it returns with whatever else is to be decided together, and call `complete_transaction` with it.
        """
        with self._timed("txn-prepare"):
            return PreparedTxnState(*await self._transactions().prepare(self._settings.max_block_ms))

    async def leave_transaction_open(self) -> PreparedTxnState:
        """Store what was sent and leave the transaction to whoever is told its name: it may be ended from another process.

        Not in Java's client. Without two-phase commit the coordinator aborts it after `transaction.timeout.ms`.
        """
        return PreparedTxnState(
            *await self._transactions().prepare(self._settings.max_block_ms, may_time_out=True)
        )

    async def complete_transaction(self, prepared_txn_state: PreparedTxnState | str) -> None:
        """Commit the prepared transaction if it is this one, and abort it if it is another."""
        transactions, wanted = self._transactions(), PreparedTxnState.of(prepared_txn_state)
        if wanted == PreparedTxnState(*transactions.prepared):
            await self.commit_transaction()
        else:
            await self.abort_transaction()

    def _is_torn(self, group_metadata: Any) -> bool:
        """Whether what was consumed for this transaction cannot be stored by a consumer of this process any more."""
        chain = getattr(group_metadata, "chain", None)
        if not isinstance(chain, Chain):
            return False
        self._chains[chain.group_id] = chain
        chain.joined()
        return chain.is_torn

    def _end_chains(self) -> None:
        for chain in self._chains.values():
            chain.ended()

    @asynccontextmanager
    async def transaction(self, consumer: "AsyncConsumer | None" = None) -> AsyncIterator[Self]:
        """A transaction around a block: committed at its end, aborted if an exception leaves it.

        With a consumer, its positions are committed with the transaction, and after an abort it goes back to what is
        committed; it reads only what is committed from then on.
        """
        if consumer is not None:
            consumer.read_committed()
        await self.begin_transaction()
        try:
            yield self
            if consumer is not None:
                await self.send_offsets_to_transaction(consumer.consumed(), consumer.group_metadata())
            await self.commit_transaction()
        except BaseException as error:
            ending = await self._abort_after(error)
            if consumer is not None:
                _rewind(consumer, error if ending is None else ending)
            if ending is not None:
                raise ending from error
            raise

    @property
    def is_ready(self) -> bool:
        """Whether a transaction could be begun now."""
        return self.transactions is not None and self.transactions.is_ready

    async def _abort_after(self, error: BaseException) -> KafkaException | None:
        """Abort without hiding why; what is raised in place of the error, if the abort shows that the producer cannot go on."""
        transactions = self.transactions
        if transactions is None or (getattr(error, "fatal", False) and transactions.ending is not None):
            return None
        try:
            await self.abort_transaction()
        except Exception as second:
            return left_block(error, second, transactions.ending)
        return None

    def _transactions(self) -> Transactions:
        self._check_open()
        if self.transactions is None:
            raise IllegalStateException(NOT_TRANSACTIONAL)
        self._start()
        return self.transactions

    # Life

    def _start(self) -> None:
        """Begin to send, on the running loop. Starting twice is harmless."""
        if self._task is None and self._closing is None:
            name = self._settings.client_id
            spawn = self._runtime.tasks.spawn
            self._task = spawn(self._sender.run(), name=f"{name} sender", on_failure=self._on_crash)
            self._task.add_done_callback(self._on_cancelled)
            if self._settings.metric_reporters:
                self._reporting = spawn(self._report(), name=f"{name} metrics")

    async def _report(self) -> None:
        await report(
            self._metrics.registry,
            self._settings.metric_reporters,
            self._runtime.tasks,
            interval_ms=self._settings.metrics_sample_window_ms,
        )

    def _on_cancelled(self, task: "asyncio.Task[None]") -> None:
        """The loop ends, as `asyncio.run` does after its coroutine: what has no answer by now gets none."""
        if task.cancelled() and self._watch is not None and self._closing is None:
            self._watch.say(LOOP_ENDED)

    def _on_crash(self, name: str, error: BaseException) -> None:
        died = KafkaException(f"{name} ended by an error of its own: {error!r}", fatal=True)
        died.__cause__ = error
        self._sender.die(died)

    async def close(self, timeout: float | None = None) -> None:
        """Send what was given, then end. `timeout` in seconds: what is not stored by then fails. Closing twice is harmless."""
        timeout = arguments.seconds(timeout)
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        if self._watch is not None:
            self._watch.closed()
        try:
            await self._close(timeout)
        finally:
            self._closing.set_result(None)

    async def _close(self, timeout: float | None) -> None:
        self.outbox.shut(lambda: IllegalStateException(CLOSED))
        self.outbox.accumulator.is_closing = True
        self.outbox.wake()
        since_ms = self._now_ms()
        try:
            if self._task is not None and not self._task.done():
                await self._finish(timeout)
        finally:  # Also for a caller who is cancelled: whoever waits for a record hears of it.
            await self._end(self.cluster.troubles.last(since_ms))

    async def _finish(self, timeout: float | None) -> None:
        """Store what was given, as far as that can be done."""
        try:
            async with asyncio.timeout(timeout):
                if self.transactions is not None:
                    await self.transactions.close()
                await self._until_ended(self.outbox.pending())
                if self._settings.acks == 0:
                    await self.cluster.finish()  # Nobody will say that the records have arrived.
        except (TimeoutError, KafkaException):
            pass  # What is left fails now.

    async def _end(self, last: str) -> None:
        """Fail what is left, and stop. What has to be told is told before the first wait."""
        self._sender.fail_all(KafkaException(f"the producer was closed before the records were stored{last}"))
        self._sender.stop()
        if self._reporting is not None:
            self._reporting.cancel()
        self.cluster.close()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._owns_runtime:
            await self._runtime.tasks.close()

    def _give_up(self) -> None:
        """Fail what has no answer: its producer is gone without having been closed."""
        self._sender.die(
            KafkaException(
                "the producer was dropped without close(), or its close() was interrupted: whether the records are stored is "
                "not known"
            )
        )
        self._sender.stop()
        self.cluster.close()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        since_ms = self._now_ms()
        try:
            yield
        finally:
            self._metrics.took(what, self._now_ms() - since_ms)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise IllegalStateException(CLOSED)

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ms()

    # Java's names.
    partitionsFor = partitions_for  # noqa: N815
    initTransactions = init_transactions  # noqa: N815
    beginTransaction = begin_transaction  # noqa: N815
    sendOffsetsToTransaction = send_offsets_to_transaction  # noqa: N815
    commitTransaction = commit_transaction  # noqa: N815
    abortTransaction = abort_transaction  # noqa: N815
    prepareTransaction = prepare_transaction  # noqa: N815
    completeTransaction = complete_transaction  # noqa: N815


def _rewind(consumer: "AsyncConsumer", error: BaseException) -> None:
    """Send a consumer back to what is committed, without hiding why."""
    try:
        consumer.seek_to_committed()
    except Exception as second:
        error.add_note(f"and the consumer could not go back to what is committed: {second}")
