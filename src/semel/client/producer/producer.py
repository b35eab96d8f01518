"""The producer for asyncio: `semel.aio.Producer`.

Role.   One of the two faces of the `engine`: it waits for metadata, for memory and for answers on the user's own loop.
Flow.   `send` -> `engine.intake` -> `outbox` -> `sender` -> the broker -> the record's future.
Rules.  * Constructing it connects to nothing; the first call does.
        * `send` waits for at most `max.block.ms`, for the topic and for memory together.
Elsewhere. The other face: `sync.producer`. What both do: `engine`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from semel.client import arguments
from semel.client.cluster import PartitionView
from semel.client.config_keys import Given
from semel.client.metrics import MetricValues
from semel.client.producer.encoding import Kernels
from semel.client.producer.engine import Engine, Offsets, rewind
from semel.client.producer.future import ArrowFuture, Callback, SendFuture
from semel.client.producer.intake import GivenHeaders, Held, Timestamp
from semel.client.producer.prepared import PreparedTxnState, ProducerIdAndEpoch
from semel.client.producer.transaction_errors import left_block
from semel.client.settings import ProducerConfig
from semel.core.client.accumulator import Batch
from semel.errors import SemelError
from semel.exceptions import ApiException, KafkaException
from semel.runtime.bundle import Runtime, real_runtime

if TYPE_CHECKING:
    from semel.client.consumer.consumer import AsyncConsumer


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
        config = settings if isinstance(settings, ProducerConfig) else ProducerConfig.of(settings, **keywords)
        self._runtime = runtime or real_runtime(threads_max=1)
        self._engine = Engine(self._runtime, config, owns_runtime=runtime is None)
        self._start = self._engine.start
        self._offer = self._engine.intake.offer

    @property
    def config(self) -> dict[str, Any]:
        """Every setting with the value that holds, under Kafka's names."""
        return self._engine.config.effective()

    def metrics(self) -> MetricValues:
        """The metrics of the producer, by Java's names; and its settings by their keys."""
        return self._engine.metrics.snapshot()

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
            taken = self._offer(topic, value, key, partition, timestamp, headers, callback)
            return taken if isinstance(taken, SendFuture) else await self._take(taken)
        except ApiException as error:
            self._engine.refuse(error)
            raise

    async def _take(self, held: Held) -> SendFuture:
        deadline_ms = self._engine.now_ms() + self._engine.config.max_block_ms
        known = await self._engine.topic(held.topic, held.partition)
        while True:
            future = self._engine.intake.place(held, known)
            if future is not None:
                return future
            await self._room(held.size_bytes, deadline_ms)

    async def _room(self, size_bytes: int, deadline_ms: int) -> None:
        """Wait until some memory is free."""
        since_ms = self._engine.now_ms()
        free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine.outbox.call_when_free(size_bytes, lambda: None if free.done() else free.set_result(None))
        try:
            async with asyncio.timeout(max(0, deadline_ms - self._engine.now_ms()) / 1000):
                await free
        except TimeoutError:
            raise self._engine.exhausted(size_bytes, since_ms) from None
        self._engine.metrics.waited_for_memory(self._engine.now_ms() - since_ms)

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
        `timestamp` is that of rows without one; now, unless it is given. `ignore_columns` are not looked at, True: all that
        no record has; other columns that no record has are refused.
        """
        self._start()
        topic, given_ms = (
            arguments.topic(topic),
            None if timestamp is None else arguments.milliseconds(timestamp),
        )
        if not Kernels.are_imported():
            await self._runtime.tasks.in_thread(Kernels.load)
        pieces = self._engine.pieces(data, ignore_columns)
        taken: list[Batch] = []
        opening, rows_before = self._engine.outbox.openings, 0
        try:
            for rows in pieces:
                known = await self._engine.topics.fetch(topic, None, self._engine.config.max_block_ms)
                now_ms = self._runtime.clock.now_ms() if given_ms is None else given_ms
                for placed in self._engine.columns().batches(rows, known, now_ms, rows_before):
                    while (batch := self._engine.take_rows(known, placed, opening)) is None:
                        deadline_ms = self._engine.now_ms() + self._engine.config.max_block_ms
                        await self._room(len(placed.batch.data), deadline_ms)
                    taken.append(batch)
                    await self._runtime.tasks.sleep(0)  # Let the sender have its turn.
                rows_before += rows.num_rows
        except SemelError as error:
            raise self._engine.refuse(error) from error
        except Exception:  # Of whatever the rows are read from: some of them may have been taken.
            self._engine.torn_rows()
            raise
        return ArrowFuture(taken)

    async def flush(self) -> None:
        """Send everything that was given now, and return once the fate of all of it is known."""
        await self._engine.flush()

    async def partitions_for(self, topic: str) -> list[PartitionView]:
        """The partitions of a topic, as the cluster describes them."""
        return await self._engine.partitions_for(topic)

    # Transactions

    async def init_transactions(self, keep_prepared_txn: bool = False) -> ProducerIdAndEpoch:
        """Take over the `transactional.id`: its last producer is fenced, and its open transaction aborted. Gives the new identity.

        Once, before the first transaction. With two-phase commit, `keep_prepared_txn` keeps a transaction that was left
        open instead: end it with `complete_transaction`, or commit or abort it.
        """
        return await self._engine.init_transactions(keep_prepared_txn)

    async def join_transaction(self, producer_id: int, producer_epoch: int) -> None:
        """Take part in a transaction of this `transactional.id` that another process begins and ends under this identity.

        Instead of `init_transactions`, and once. Records sent here commit or abort with the transaction; `flush` before the
        owner ends it. For each identity a partition has one producer that writes to it, because sequences begin at 0.
        """
        await self._engine.join_transaction(producer_id, producer_epoch)

    async def begin_transaction(self) -> None:
        """Begin a transaction. Nothing is sent for it."""
        self._engine.started_transactions()
        self._engine.begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: Any) -> None:
        """Commit a group's offsets with the transaction: of the next record to read, that is the last one's plus one.

        `group_metadata` is what `consumer.group_metadata()` gives: a member the group has replaced is refused then. A plain
        group id is accepted, and nobody is refused for it.
        """
        await self._engine.send_offsets_to_transaction(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Store what was sent, and commit: readers of committed records see all of it, or nothing."""
        await self._engine.commit_transaction()

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and have the rest ignored by those who read what is committed."""
        await self._engine.abort_transaction()

    async def prepare_transaction(self) -> PreparedTxnState:
        """Two-phase commit: store what was sent and leave the transaction open, whatever happens to this producer.

        Keep what it returns with whatever else is to be decided together, and call `complete_transaction` with it.
        """
        return await self._engine.prepare_transaction()

    async def leave_transaction_open(self) -> PreparedTxnState:
        """Store what was sent and leave the transaction to whoever is told its name: it may be ended from another process.

        Not in Java's client. Without two-phase commit the coordinator aborts it after `transaction.timeout.ms`.
        """
        return await self._engine.leave_transaction_open()

    async def complete_transaction(self, prepared_txn_state: PreparedTxnState | str) -> None:
        """Commit the prepared transaction if it is this one, and abort it if it is another."""
        await self._engine.complete_transaction(prepared_txn_state)

    @asynccontextmanager
    async def transaction(self, consumer: "AsyncConsumer | None" = None) -> AsyncIterator[Self]:
        """A transaction around a block: committed at its end, aborted if an exception leaves it.

        With a consumer, its positions are committed with the transaction, and after an abort it goes back to the committed
        ones. From then on it reads only committed records.
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
                rewind(consumer, error if ending is None else ending)
            if ending is not None:
                raise ending from error
            raise

    @property
    def is_ready(self) -> bool:
        """Whether a transaction could be begun now."""
        return self._engine.is_ready

    async def _abort_after(self, error: BaseException) -> KafkaException | None:
        """Abort without hiding why; gives the error to raise instead, if the abort shows that the producer cannot go on."""
        if not self._engine.has_to_abort(error):
            return None
        try:
            await self.abort_transaction()
        except Exception as second:
            return left_block(error, second, self._engine.ending)
        return None

    # Life

    async def close(self, timeout: float | None = None) -> None:
        """Send what was given, then end. `timeout` in seconds: records not stored by then fail. Closing twice is harmless."""
        await self._engine.close(arguments.seconds(timeout))

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

    # Java's names.
    partitionsFor = partitions_for  # noqa: N815
    initTransactions = init_transactions  # noqa: N815
    beginTransaction = begin_transaction  # noqa: N815
    sendOffsetsToTransaction = send_offsets_to_transaction  # noqa: N815
    commitTransaction = commit_transaction  # noqa: N815
    abortTransaction = abort_transaction  # noqa: N815
    prepareTransaction = prepare_transaction  # noqa: N815
    completeTransaction = complete_transaction  # noqa: N815
