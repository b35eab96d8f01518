"""The producer for callers without an event loop: `semel.Producer`.

Role.   The other face of the producer's `engine`, on a private loop's thread; every method blocks until it is done.
Flow.   `send` puts the record into its batch on the caller's own thread and returns a future; the loop is woken once for
        many records.
Rules.  * Any number of threads may send with one producer.
        * Callbacks run on the loop's thread: they must be quick, and must not wait for this producer.
"""

import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import getpid
from typing import TYPE_CHECKING, Any, ClassVar, Self

from semel.client.arguments import milliseconds, seconds
from semel.client.arguments import topic as as_topic
from semel.client.cluster import PartitionView
from semel.client.config_keys import Given
from semel.client.metrics import MetricValues
from semel.client.producer.encoding import Kernels
from semel.client.producer.engine import CLOSED, Engine, Offsets, rewind
from semel.client.producer.future import ArrowFuture, Callback, SendFuture
from semel.client.producer.intake import GivenHeaders, Held, Timestamp
from semel.client.producer.leaving import has_last_work, leave
from semel.client.producer.prepared import PreparedTxnState, ProducerIdAndEpoch
from semel.client.producer.transaction_errors import left_block
from semel.client.settings import ProducerConfig
from semel.client.sync.shell import Shell
from semel.core.client.accumulator import Batch
from semel.errors import SemelError
from semel.exceptions import ApiException, KafkaException, as_exception

if TYPE_CHECKING:
    from semel.client.sync.consumer import Consumer


class Producer(Shell):
    """Sends records, each stored exactly once. Settings are Kafka's, as a mapping of dotted keys or as keywords."""

    KIND: ClassVar[str] = "producer"
    CLOSED: ClassVar[str] = CLOSED

    def __init__(
        self, settings: Mapping[str, Given] | ProducerConfig | None = None, /, **keywords: Given
    ) -> None:
        config = settings if isinstance(settings, ProducerConfig) else ProducerConfig.of(settings, **keywords)
        super().__init__()
        try:
            self._engine = Engine(self._runtime, config)
            self._run(self._begin())
        except BaseException:
            self._abandon()
            raise
        self._max_block_ms = config.max_block_ms
        self._offer = self._engine.intake.offer
        self._now_ms = self._runtime.clock.monotonic_ms

    async def _begin(self) -> None:
        self._engine.start()

    @property
    def config(self) -> dict[str, Any]:
        """Every setting with the value that holds, under Kafka's names."""
        return self._engine.config.effective()

    def metrics(self) -> MetricValues:
        """The metrics of the producer, by Java's names; and its settings by their keys."""
        return self._engine.metrics.snapshot()

    # Records

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp: Timestamp = None,
        headers: GivenHeaders = None,
        callback: Callback | None = None,
    ) -> SendFuture:
        """Give a record to the producer; `result()` of the future it returns is the record's place in the log.

        Blocks only for what the record needs to be taken: its topic, and memory, `max.block.ms` together. `callback` is
        called with the record's metadata or with what went wrong, the other of the two being None.
        """
        if getpid() != self._pid:
            self._check()
        try:
            taken = self._offer(topic, value, key, partition, timestamp, headers, callback)
            return taken if type(taken) is SendFuture else self._take(taken)  # type: ignore[arg-type]  # the other of the two
        except ApiException as error:
            self._refused(error)
            raise

    def _take(self, held: Held) -> SendFuture:
        deadline_ms = self._now_ms() + self._max_block_ms
        known = self._engine.topics.get(held.topic)
        if known is None or (held.partition is not None and held.partition >= known.count):
            known = self._run(self._engine.topic(held.topic, held.partition))
        while True:
            future = self._engine.intake.place(held, known)
            if future is not None:
                return future
            self._room(held.size_bytes, deadline_ms)

    def _refused(self, error: SemelError) -> None:
        """A record was not taken: a transaction cannot be committed without it."""
        if self._engine.transactions is not None:
            self._thread.call_soon(self._engine.refuse, error)

    def _room(self, size_bytes: int, deadline_ms: int) -> None:
        """Wait until some memory is free."""
        self._check()
        since_ms = self._now_ms()
        free = threading.Event()
        self._engine.outbox.call_when_free(size_bytes, free.set)
        if not free.wait(max(0, deadline_ms - self._now_ms()) / 1000):
            raise self._engine.exhausted(size_bytes, since_ms)
        self._thread.call_soon(self._engine.metrics.waited_for_memory, self._now_ms() - since_ms)

    def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        timestamp: Timestamp = None,
        ignore_columns: bool | str | Iterable[str] = (),
    ) -> ArrowFuture:
        """Send the rows of Arrow columns: key, value, and where they are there timestamp, headers and partition.

        `data` is a pyarrow Table, RecordBatch or RecordBatchReader, or whatever exports Arrow's stream interface. No Python
        object is made per row. Returns once all rows are taken; `result()` of what it returns gives the ranges of offsets.
        `timestamp` is that of rows without one; now, unless it is given. `ignore_columns` are not looked at, True: all that
        no record has; other columns that no record has are refused.
        """
        self._check()
        engine, taken = self._engine, list[Batch]()
        topic, given_ms = as_topic(topic), None if timestamp is None else milliseconds(timestamp)
        Kernels.load()
        pieces = engine.pieces(data, ignore_columns)
        opening, rows_before = engine.outbox.openings, 0
        try:
            for rows in pieces:
                known = engine.topics.get(topic)
                if known is None:
                    known = self._run(engine.topics.fetch(topic, None, self._max_block_ms))
                now_ms = self._runtime.clock.now_ms() if given_ms is None else given_ms
                for placed in engine.columns().batches(rows, known, now_ms, rows_before):
                    while (batch := engine.take_rows(known, placed, opening)) is None:
                        self._room(len(placed.batch.data), self._now_ms() + self._max_block_ms)
                    taken.append(batch)
                rows_before += rows.num_rows
        except SemelError as error:
            self._refused(error)
            raise as_exception(error) from error
        except Exception:  # Of whatever the rows are read from: some of them may have been taken.
            self._thread.call_soon(engine.torn_rows)
            raise
        return ArrowFuture(taken)

    def flush(self) -> None:
        """Send everything that was given now, and return once the fate of all of it is known."""
        self._run(self._engine.flush())

    def partitions_for(self, topic: str) -> list[PartitionView]:
        """The partitions of a topic, as the cluster describes them."""
        return self._run(self._engine.partitions_for(topic))

    # Transactions

    def init_transactions(self, keep_prepared_txn: bool = False) -> ProducerIdAndEpoch:
        """Take over the `transactional.id`: its last producer is fenced, and its open transaction aborted. Gives the new identity.

        Once, before the first transaction. With two-phase commit, `keep_prepared_txn` keeps a transaction that was left
        open instead: end it with `complete_transaction`, or commit or abort it.
        """
        return self._run(self._engine.init_transactions(keep_prepared_txn))

    def join_transaction(self, producer_id: int, producer_epoch: int) -> None:
        """Take part in a transaction of this `transactional.id` that another process begins and ends under this identity.

        Instead of `init_transactions`, and once. Records sent here commit or abort with the transaction; `flush` before the
        owner ends it. For each identity a partition has one producer that writes to it, because sequences begin at 0.
        """
        self._run(self._engine.join_transaction(producer_id, producer_epoch))

    def begin_transaction(self) -> None:
        """Begin a transaction. Nothing is sent for it."""
        self._check()
        self._engine.begin()

    def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: Any) -> None:
        """Commit a group's offsets with the transaction: of the next record to read, that is the last one's plus one.

        `group_metadata` is what `consumer.group_metadata()` gives: a member the group has replaced is refused then. A plain
        group id is accepted, and nobody is refused for it.
        """
        self._run(self._engine.send_offsets_to_transaction(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Store what was sent, and commit: readers of committed records see all of it, or nothing."""
        self._run(self._engine.commit_transaction())

    def abort_transaction(self) -> None:
        """Drop what was not sent, and have the rest ignored by those who read what is committed."""
        self._run(self._engine.abort_transaction())

    def prepare_transaction(self) -> PreparedTxnState:
        """Two-phase commit: store what was sent and leave the transaction open, whatever happens to this producer.

        Keep what it returns with whatever else is to be decided together, and call `complete_transaction` with it.
        """
        return self._run(self._engine.prepare_transaction())

    def leave_transaction_open(self) -> PreparedTxnState:
        """Store what was sent and leave the transaction to whoever is told its name: it may be ended from another process.

        Not in Java's client. Without two-phase commit the coordinator aborts it after `transaction.timeout.ms`.
        """
        return self._run(self._engine.leave_transaction_open())

    def complete_transaction(self, prepared_txn_state: PreparedTxnState | str) -> None:
        """Commit the prepared transaction if it is this one, and abort it if it is another."""
        self._run(self._engine.complete_transaction(prepared_txn_state))

    @contextmanager
    def transaction(self, consumer: "Consumer | None" = None) -> Iterator[Self]:
        """A transaction around a block: committed at its end, aborted if an exception leaves it.

        With a consumer, its positions are committed with the transaction, and after an abort it goes back to the committed
        ones. From then on it reads only committed records.
        """
        if consumer is not None:
            consumer.read_committed()
        self.begin_transaction()
        try:
            yield self
            if consumer is not None:
                self.send_offsets_to_transaction(consumer.consumed(), consumer.group_metadata())
            self.commit_transaction()
        except BaseException as error:
            ending = self._abort_after(error)
            if consumer is not None:
                rewind(consumer, error if ending is None else ending)
            if ending is not None:
                raise ending from error
            raise

    @property
    def is_ready(self) -> bool:
        """Whether a transaction could be begun now."""
        return self._engine.is_ready

    def _abort_after(self, error: BaseException) -> KafkaException | None:
        """Abort without hiding why; gives the error to raise instead, if the abort shows that the producer cannot go on."""
        if not self._engine.has_to_abort(error):
            return None
        try:
            self.abort_transaction()
        except Exception as second:
            return left_block(error, second, self._engine.ending)
        return None

    # Life

    def close(self, timeout: float | None = None) -> None:
        """Send what was given, then end. `timeout` in seconds: records not stored by then fail. Closing twice is harmless."""
        self._shut(self._engine.close(seconds(timeout)))

    def _last_work(self, timeout: float | None, when: str, /) -> Coroutine[Any, Any, None] | None:
        engine: Engine | None = getattr(self, "_engine", None)
        return None if engine is None or not has_last_work(engine) else leave(engine, timeout, when)

    def _give_up(self) -> None:
        """Nobody closed it: records that wait for an answer hear that there will be none."""
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None:
            engine.give_up()

    def __repr__(self) -> str:
        return f"<semel.Producer {self.config['client.id']} of {','.join(self.config['bootstrap.servers'])}>"

    # Java's names.
    partitionsFor = partitions_for  # noqa: N815
    initTransactions = init_transactions  # noqa: N815
    beginTransaction = begin_transaction  # noqa: N815
    sendOffsetsToTransaction = send_offsets_to_transaction  # noqa: N815
    commitTransaction = commit_transaction  # noqa: N815
    abortTransaction = abort_transaction  # noqa: N815
    prepareTransaction = prepare_transaction  # noqa: N815
    completeTransaction = complete_transaction  # noqa: N815
