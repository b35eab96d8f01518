"""One transaction for all tasks of a micro-batch: the driver's end of it, request by request.

Role.   `SharedTransactions` owns a transactional id. It takes an identity that the tasks write under, reads and writes the
        sink's ledger, and ends what they wrote.
Flow.   Per batch: `identify` -> the tasks join and write (`task_writer`) -> `commit` (AddOffsetsToTxn, TxnOffsetCommit,
        EndTxn) or `abort`. `ledger` reads what is committed.
Rules.  * Every batch has an epoch of its own, so that its tasks' sequences begin at 0 and nothing late can enter it.
        * The first identity fences the driver that had the id. A later one is asked for in the name of the last (KIP-360): a
          driver replaced in the meantime hears so, and does not fence its successor.
        * After a failure tasks may still be writing: an abort under the old epoch proves that it is still ours, then a new
          identity fences them.
        * The protocol is transactions v1, which several processes can share: partitions join by AddPartitionsToTxn.
        * A request is repeated until it has an answer, for `max.block.ms`; each may be repeated. The first one, too: a broker
          that is restarting when a query starts is waited for, for a shorter time if the query has written no batch yet.
        * The batch's number is an offset of the sink's own group, and the query's id is its metadata.
Elsewhere. The meaning of an entry: `common.batch_ledger`. Rows: `task_writer`.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from semel.client.blocking import BlockingCluster
from semel.client.calls.describe_transactions import describe_transaction
from semel.client.calls.end_txn import end_txn
from semel.client.calls.find_coordinator import MOVED, CoordinatorKind, find_coordinator
from semel.client.calls.init_producer_id import init_producer_id
from semel.client.calls.offset_fetch import committed_offsets
from semel.client.cluster import Cluster
from semel.client.settings import ProducerConfig
from semel.core.idempotence.delivery import NO_IDENTITY, Identity
from semel.core.transactions.producer import TXN_OFFSET_COMMIT_V1_MAX
from semel.core.transactions.producer_answers import code_of
from semel.core.wire.message import Request
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    SemelError,
    WireError,
)
from semel.exceptions import KafkaException, TimeoutException, exception_for
from semel.spark.sink.common.batch_ledger import Entry
from semel.spark.sink.common.first_contact import patience_ms, reach
from semel.spark.sink.common.ledger_topic import make_topic
from semel.types import TopicPartition

_logger: Final = logging.getLogger(__name__)

T = TypeVar("T")
Attempt: TypeAlias = Callable[[Cluster, int], Awaitable[tuple[ErrorCode, T]]]
"""A request to a coordinator: its code, and the answer that goes with NONE."""

FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Answers to a producer that has been replaced, or never was."""
_ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
_CONCURRENT_PAUSE_MS: Final = 20


class Step(Enum):
    """Where a batch stands; the driver may die after any of them."""

    BEGUN = "begun"
    LEDGER_READ = "ledger read"
    IDENTIFIED = "identified"
    LEDGER_SETTLED = "ledger settled"
    WRITTEN = "written"
    GROUP_ADDED = "group added"
    BATCH_STORED = "batch stored"
    COMMITTED = "committed"


OnStep: TypeAlias = Callable[[Step], object]


class SharedTransactions:
    """The transactions of one sink, one after the other."""

    def __init__(self, config: ProducerConfig, *, transactional_id: str, ledger_topic: str) -> None:
        self.transactional_id = transactional_id
        self.identity = NO_IDENTITY
        """The tasks write under it; none before the first and after a failure."""
        self.subject = f"sink {transactional_id}"
        """Begins every error: the batch that is written."""
        self._config = config
        self._group_id = transactional_id
        self._ledger = TopicPartition(ledger_topic, 0)
        self._cluster = BlockingCluster(config)
        self._coordinators: dict[CoordinatorKind, int] = {}
        self._is_ledger_there = False

    def close(self) -> None:
        """End the connections. A transaction that is open stays so until someone takes the id, or its time is over."""
        self._cluster.close()

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has; it is made where the broker makes topics by itself."""

        async def look(cluster: Cluster) -> int:
            return len((await cluster.topic(topic, create=True)).partitions)

        return self._cluster.run(look)

    # The ledger

    def ledger(self, *, settled: bool) -> Entry | None:
        """The sink's entry; `settled`: wait until no transaction that would change it is open."""

        async def read(cluster: Cluster) -> Entry | None:
            # By name: asked for everything, Kafka leaves out a first offset whose transaction is not ended yet.
            found = await committed_offsets(cluster, self._group_id, [self._ledger], require_stable=settled)
            entry = found.get(self._ledger)
            return None if entry is None else Entry(entry.metadata, entry.offset)

        return self._cluster.run(read)

    def make_ledger(self, *, is_first: bool = False) -> None:
        """Have the topic whose offsets are the entries, once. `is_first`: no batch before shows that brokers are there."""
        if not self._is_ledger_there:
            try:
                self._cluster.run(reach, patience_ms(self._config, is_first=is_first))
            except DisconnectedError as error:
                raise exception_for(error.code, f"{self.subject}: {error}") from error
            self._cluster.run(make_topic, self._ledger.topic, {}, "TopicSink(..., ledger_topic=...)")
            self._is_ledger_there = True

    # Identities

    def identify(self) -> Identity:
        """A new epoch: producers with an older one are fenced, and their open transaction is ended."""
        known = self.identity

        async def attempt(cluster: Cluster, node_id: int) -> tuple[ErrorCode, Identity]:
            timeout_ms = self._config.transaction_timeout_ms
            return await init_producer_id(
                cluster, self.transactional_id, timeout_ms=timeout_ms, node_id=node_id, identity=known
            )

        self.identity = self._ask(attempt, CoordinatorKind.TRANSACTION, "a producer id")
        return self.identity

    # The end

    def commit(self, entry: Entry, on_step: OnStep) -> None:
        """Store the batch's number beside its rows and commit both."""
        producer_id, producer_epoch = self.identity
        add = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            group_id=self._group_id,
        )
        self._send(add, CoordinatorKind.TRANSACTION, "to add the sink's group to the transaction")
        on_step(Step.GROUP_ADDED)
        stored = TxnOffsetCommitRequestPartition(
            partition_index=self._ledger.partition,
            committed_offset=entry.batch_id,
            committed_metadata=entry.query_id,
        )
        store = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self._group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._ledger.topic, partitions=[stored])],
        )
        self._send(store, CoordinatorKind.GROUP, "the batch's number", version_max=TXN_OFFSET_COMMIT_V1_MAX)
        on_step(Step.BATCH_STORED)
        self._end(committed=True)
        on_step(Step.COMMITTED)

    def abort(self) -> None:
        """Abort the transaction, and forget the identity: tasks may still be writing under it."""
        if self.identity == NO_IDENTITY:
            return
        try:
            self._end(committed=False)
        except KafkaException as error:
            if (
                error.code is not ErrorCode.INVALID_TXN_STATE
            ):  # Nothing was begun, so there is nothing to end.
                raise
        try:
            self.identify()  # Tasks that are still writing have an old epoch from now on.
        except KafkaException as error:
            _logger.debug("%s: tasks that still write are not fenced yet: %s", self.subject, error)
        finally:
            self.identity = NO_IDENTITY

    def is_taken_over(self) -> bool:
        """Whether another driver took the transactional id since; not so if the broker ended a transaction that was late."""
        try:
            view = self._cluster.run(describe_transaction, self.transactional_id)
        except SemelError as error:
            _logger.debug(
                "%s: the present owner of the transactional id is not known: %s", self.subject, error
            )
            return False
        ended = Identity(self.identity.producer_id, self.identity.producer_epoch + 1)
        return Identity(view.producer_id, view.producer_epoch) != ended or view.state not in _ABORTED

    def _end(self, *, committed: bool) -> None:
        async def attempt(cluster: Cluster, node_id: int) -> tuple[ErrorCode, None]:
            code = await end_txn(
                cluster,
                self.transactional_id,
                self.identity,
                commit=committed,
                node_id=node_id,
                keeps_epoch=True,
            )
            return code, None

        self._ask(attempt, CoordinatorKind.TRANSACTION, "to commit" if committed else "to abort")

    # Requests

    def _send(
        self, request: Request[Any], kind: CoordinatorKind, what: str, *, version_max: int | None = None
    ) -> None:
        async def attempt(cluster: Cluster, node_id: int) -> tuple[ErrorCode, None]:
            return code_of(await cluster.send(request, node_id=node_id, version_max=version_max)), None

        self._ask(attempt, kind, what)

    def _ask(self, attempt: Attempt[T], kind: CoordinatorKind, what: str) -> T:
        return self._cluster.run(self._asked, attempt, kind, what)

    async def _asked(self, cluster: Cluster, attempt: Attempt[T], kind: CoordinatorKind, what: str) -> T:
        """The coordinator's answer, asked for until it comes."""
        clock = cluster.runtime.clock
        deadline_ms = clock.monotonic_ms() + self._config.max_block_ms
        tries, code, why = 0, ErrorCode.NONE, ""
        while True:
            try:
                node_id = self._coordinators.get(kind)
                if node_id is None:
                    key = self._group_id if kind is CoordinatorKind.GROUP else self.transactional_id
                    node_id = self._coordinators[kind] = await find_coordinator(cluster, kind, key)
                code, answer = await attempt(cluster, node_id)
                if code is ErrorCode.NONE:
                    return answer
                why = code.name
            except (DisconnectedError, WireError) as error:
                code, why = ErrorCode.NOT_COORDINATOR, str(error)
            except RefusedError as error:
                code, why = error.code, str(error)
            if not code.retriable:
                raise self._refusal(code, what, why)
            if code in MOVED:
                self._coordinators.pop(kind, None)
            tries += 1
            pause_ms = cluster.backoff_ms(tries)
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                pause_ms = min(pause_ms, _CONCURRENT_PAUSE_MS)
            if clock.monotonic_ms() + pause_ms >= deadline_ms:
                raise TimeoutException(
                    f"{self.subject}: {cluster.where} did not answer {what} within max.block.ms="
                    f"{self._config.max_block_ms}: {why}"
                )
            await cluster.runtime.tasks.sleep(pause_ms / 1000)

    def _refusal(self, code: ErrorCode, what: str, why: str) -> KafkaException:
        if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            return exception_for(
                code,
                f"{self.subject}: transaction.timeout.ms={self._config.transaction_timeout_ms} is more than "
                "the broker allows: lower it, or raise transaction.max.timeout.ms on the brokers",
            )
        return exception_for(code, f"{self.subject}: the broker refuses {what}: {why}")


class Stopwatch:
    """How long a transaction may have been open."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self._since) * 1000)
