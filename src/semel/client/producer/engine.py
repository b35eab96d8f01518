"""A producer's engine: the parts for records and transactions, under both faces of the producer.

Role.   `Engine` puts the parts together: intake, outbox, sender, topics, transactions. `semel.aio.Producer` and the blocking
        `semel.Producer` are its faces: they wait in their own way for metadata and memory.
Flow.   `start` on the loop -> `intake.offer` on any thread -> `outbox` -> `sender` -> the broker -> the record's future -> `close`.
Rules.  * Constructing it connects to nothing.
        * Coroutines and `start` run on the engine's loop. `begin`, `exhausted`, `take_rows` and the parts that say so may be used on
          any thread.
        * `close` sends what was given and then ends; with a timeout, or cancelled, what is left fails. Every future and callback
          hears of its record exactly once.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from semel.client import arguments
from semel.client.chain import Chain
from semel.client.cluster import Cluster, PartitionView
from semel.client.metrics import report
from semel.client.producer.intake import Intake
from semel.client.producer.leaving import LOOP_ENDED, LoopWatch
from semel.client.producer.outbox import Outbox
from semel.client.producer.prepared import PreparedTxnState, ProducerIdAndEpoch
from semel.client.producer.sender import Sender
from semel.client.producer.topics import KnownTopic, Topics
from semel.client.producer.transaction_errors import NOT_TRANSACTIONAL, torn
from semel.client.producer.transactions import Transactions, positions
from semel.client.producer.transactions import group_metadata as group_of
from semel.client.settings import ProducerConfig
from semel.core.client.accumulator import Batch
from semel.core.idempotence.delivery import Identity
from semel.errors import ErrorCode, SemelError
from semel.exceptions import BufferExhaustedException, IllegalStateException, KafkaException, as_exception
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.client.producer.arrow import Columns, Placed

Offsets: TypeAlias = (
    Mapping[TopicPartition, Any]
    | Mapping[tuple[str, int], Any]
    | Mapping[TopicPartition | tuple[str, int], Any]
)
"""By partition: a number, or what has `offset`, `metadata` and `leader_epoch`. A mapping's keys are of one type or another."""

CLOSED: Final = "Cannot perform operation after producer has been closed: make a new one"


class Rewinding(Protocol):
    """A consumer whose positions a transaction stores."""

    def seek_to_committed(self) -> Any: ...


class Engine:
    """Of one producer. `owns_runtime`: its loop is the user's, and may end before the producer does."""

    def __init__(self, runtime: Runtime, config: ProducerConfig, *, owns_runtime: bool = False) -> None:
        self.config = config
        self.runtime = runtime
        self.cluster = Cluster(runtime, config)
        self.topics = Topics(self.cluster, config, runtime)
        self.outbox = Outbox(
            runtime,
            batch_size_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            buffer_bytes=config.buffer_memory,
        )
        self.intake = Intake(config, self.topics, self.outbox)
        self.sender = Sender(runtime, config, self.cluster, self.outbox, self.topics)
        self.metrics = self.sender.metrics
        accumulator = self.outbox.accumulator
        self.metrics.watch(
            buffer_total_bytes=lambda: config.buffer_memory,
            buffer_available_bytes=lambda: accumulator.available_bytes,
            waiting_threads=lambda: len(accumulator.waiting),
            requests_in_flight=lambda: self.sender.requests_in_flight,
            metadata_age_s=lambda: self.topics.age_ms / 1000,
        )
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            self.transactions = Transactions(self.sender, config, config.transactional_id)
            self.sender.on_turn = self.transactions.step
        self._owns_runtime = owns_runtime
        self._columns: Columns | None = None
        self._chains: dict[str, Chain] = {}
        self._task: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._watch = LoopWatch(self) if owns_runtime else None

    @property
    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing is not None

    # Records

    async def topic(self, name: str, partition: int | None) -> KnownTopic:
        """The topic, waited for up to `max.block.ms`; with the partition if one is named."""
        since_ms = self.now_ms()
        known = await self.topics.fetch(name, partition, self.config.max_block_ms)
        self.metrics.took("metadata-wait", self.now_ms() - since_ms)
        return known

    def refuse(self, error: SemelError) -> KafkaException:
        """A record was not taken, for this reason: a transaction cannot be committed without it."""
        if self.transactions is not None:
            self.transactions.refuse(error.code)
        return as_exception(error)

    def exhausted(self, size_bytes: int, since_ms: int) -> BufferExhaustedException:
        """The error `send` raises when memory stays full."""
        config = self.config
        self.metrics.exhausted()
        return BufferExhaustedException(
            f"Failed to allocate {size_bytes} bytes within the configured max blocking time {config.max_block_ms} ms. "
            f"Total memory: {config.buffer_memory} bytes. Available memory: "
            f"{self.outbox.accumulator.available_bytes} bytes{self.cluster.troubles.last(since_ms)}."
        )

    def torn_rows(self) -> None:
        """Rows could not be read to their end: a transaction cannot be committed with half of them."""
        if self.transactions is not None:
            self.transactions.refuse(ErrorCode.INVALID_RECORD)

    def pieces(self, data: Any, ignore_columns: bool | str | Iterable[str]) -> "Iterator[pa.RecordBatch]":
        """The rows, a piece at a time."""
        from semel.client.producer import arrow

        return arrow.rows_of(data, ignore_columns)

    def columns(self) -> "Columns":
        """The builder of batches from rows."""
        if self._columns is None:
            from semel.client.producer.arrow import Columns

            self._columns = Columns(self.config, self.sender.codec, self.intake.partitioner)
        return self._columns

    def take_rows(self, known: KnownTopic, placed: "Placed", opening: int) -> Batch | None:
        """Take a finished batch, or None while there is no room for it."""
        made = placed.batch
        return self.outbox.append_sealed(
            known, placed.partition, made.data, made.records_count, made.max_timestamp, opening
        )

    async def flush(self) -> None:
        """Return once the fate of everything that was given is known."""
        self._check_open()
        self.start()
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
        self.start()
        await self.topics.fetch(topic, None, self.config.max_block_ms)
        return list((await self.cluster.topic(topic)).partitions)

    # Transactions

    async def init_transactions(self, keep_prepared_txn: bool = False) -> ProducerIdAndEpoch:
        """Take over the `transactional.id`; gives the producer's identity."""
        with self._timed("txn-init"):
            identity = await self.started_transactions().init(
                self.config.max_block_ms, keep_prepared=keep_prepared_txn
            )
        return ProducerIdAndEpoch(*identity)

    async def join_transaction(self, producer_id: int, producer_epoch: int) -> None:
        """Take part in a transaction that another process begins and ends under this identity."""
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
        self.started_transactions().join(identity)

    def begin(self) -> None:
        """Begin a transaction; on any thread, once the producer is started."""
        self._check_open()
        if self.transactions is None:
            raise IllegalStateException(NOT_TRANSACTIONAL)
        with self._timed("txn-begin"):
            self.transactions.begin()
        for chain in self._chains.values():
            chain.began()

    async def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: Any) -> None:
        """Commit a group's offsets with the transaction."""
        transactions, group, wanted = (
            self.started_transactions(),
            group_of(group_metadata),
            positions(offsets),
        )
        if self._is_torn(group_metadata):
            transactions.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
            raise torn(group)
        with self._timed("txn-send-offsets"):
            await transactions.send_offsets(group, wanted, self.config.max_block_ms)

    async def commit_transaction(self) -> None:
        """Store what was sent, and commit."""
        with self._timed("txn-commit"):
            await self.started_transactions().commit(self.config.max_block_ms)
        self._end_chains()

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and have the rest ignored."""
        with self._timed("txn-abort"):
            await self.started_transactions().abort(self.config.max_block_ms)
        self._end_chains()

    async def prepare_transaction(self) -> PreparedTxnState:
        """Store what was sent, and leave the transaction open; which it is."""
        with self._timed("txn-prepare"):
            return PreparedTxnState(*await self.started_transactions().prepare(self.config.max_block_ms))

    async def leave_transaction_open(self) -> PreparedTxnState:
        """The same without two-phase commit: it may be ended from another process, and it may time out."""
        return PreparedTxnState(
            *await self.started_transactions().prepare(self.config.max_block_ms, may_time_out=True)
        )

    async def complete_transaction(self, prepared_txn_state: PreparedTxnState | str) -> None:
        """Commit the prepared transaction if it is this one, and abort it if it is another."""
        transactions, wanted = self.started_transactions(), PreparedTxnState.of(prepared_txn_state)
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

    @property
    def is_ready(self) -> bool:
        """Whether a transaction could be begun now."""
        return self.transactions is not None and self.transactions.is_ready

    @property
    def ending(self) -> KafkaException | None:
        """Why no transaction can be begun any more; None while one can."""
        return None if self.transactions is None else self.transactions.ending

    def has_to_abort(self, error: BaseException) -> bool:
        """Whether a block that this error left must abort its transaction: not if the producer cannot go on anyway."""
        if self.transactions is None:
            return False
        return not (getattr(error, "fatal", False) and self.transactions.ending is not None)

    def started_transactions(self) -> Transactions:
        """Of a producer that has them; it is started."""
        self._check_open()
        if self.transactions is None:
            raise IllegalStateException(NOT_TRANSACTIONAL)
        self.start()
        return self.transactions

    # Life

    def start(self) -> None:
        """Begin to send, on the running loop. Starting twice is harmless; after the end it is refused, before anything is asked."""
        self._check_open()
        if self._task is None:
            name = self.config.client_id
            spawn = self.runtime.tasks.spawn
            self._task = spawn(self.sender.run(), name=f"{name} sender", on_failure=self._on_crash)
            self._task.add_done_callback(self._on_cancelled)
            if self.config.metric_reporters:
                self._reporting = spawn(self._report(), name=f"{name} metrics")

    async def _report(self) -> None:
        await report(
            self.metrics.registry,
            self.config.metric_reporters,
            self.runtime.tasks,
            interval_ms=self.config.metrics_sample_window_ms,
        )

    def _on_cancelled(self, task: "asyncio.Task[None]") -> None:
        """The loop ends, as `asyncio.run` does after its coroutine: a request without an answer by now gets none."""
        if task.cancelled() and self._watch is not None and self._closing is None:
            self._watch.say(LOOP_ENDED)

    def _on_crash(self, name: str, error: BaseException) -> None:
        died = KafkaException(f"{name} ended by an error of its own: {error!r}", fatal=True)
        died.__cause__ = error
        self.sender.die(died)

    async def close(self, timeout: float | None) -> None:
        """Send what was given, then end. `timeout` in seconds: records not stored by then fail. Closing twice is harmless."""
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
        since_ms = self.now_ms()
        try:
            if self._task is not None and not self._task.done():
                await self._finish(timeout)
        finally:  # Also for a caller who is cancelled: every waiter for a record hears of it.
            await self._end(self.cluster.troubles.last(since_ms))

    async def _finish(self, timeout: float | None) -> None:
        """Store what was given, as far as that can be done."""
        try:
            async with asyncio.timeout(timeout):
                if self.transactions is not None:
                    await self.transactions.close()
                await self._until_ended(self.outbox.pending())
                if self.config.acks == 0:
                    await self.cluster.finish()  # Nobody will say that the records have arrived.
        except (TimeoutError, KafkaException):
            pass  # The remaining records fail now.

    async def _end(self, last: str) -> None:
        """Fail the remaining records, and stop. Their futures are told before the first wait."""
        self.sender.fail_all(KafkaException(f"the producer was closed before the records were stored{last}"))
        self.sender.stop()
        if self._reporting is not None:
            self._reporting.cancel()
        self.cluster.close()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._owns_runtime:
            await self.runtime.tasks.close()

    def give_up(self) -> None:
        """Fail what has no answer: its producer is gone without having been closed."""
        self.sender.die(
            KafkaException(
                "the producer was dropped without close(), or its close() was interrupted: whether the records are stored is "
                "not known"
            )
        )
        self.sender.stop()
        self.cluster.close()

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        since_ms = self.now_ms()
        try:
            yield
        finally:
            self.metrics.took(what, self.now_ms() - since_ms)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise IllegalStateException(CLOSED)

    def now_ms(self) -> int:
        return self.runtime.clock.monotonic_ms()


def rewind(consumer: Rewinding, error: BaseException) -> None:
    """Send a consumer back to what is committed, without hiding why."""
    try:
        consumer.seek_to_committed()
    except Exception as second:
        error.add_note(f"and the consumer could not go back to what is committed: {second}")
