"""One transaction for all tasks of a micro-batch: the driver's end of it, request by request.

Role.   `SharedTransactions` owns a transactional id. It takes an identity that the tasks write under, reads and writes the
        sink's ledger, and ends what they wrote.
Flow.   Per batch: `identify` -> the tasks join and write (`task_writer`) -> `commit` (AddOffsetsToTxn, TxnOffsetCommit,
        EndTxn) or `abort`. `ledger` reads what is committed.
Rules.  * Every batch has an epoch of its own, so that its tasks' sequences begin at 0 and nothing late can enter it.
        * The first identity fences whoever had the id. Later ones are asked for in the name of the last (KIP-360): a driver
          that was replaced in the meantime hears so, and does not fence the one that replaced it.
        * After a failure tasks may still be writing: an abort under the old epoch proves that it is still ours, then a new
          identity fences them.
        * All of it is transactions v1, which several processes can share: partitions join by AddPartitionsToTxn.
        * A request is repeated until it has an answer, for `max.block.ms`; each may be repeated. The first one, too: a broker
          that is restarting when a query starts is waited for.
        * The batch's number is an offset of the sink's own group, and the query's id is its metadata.
Elsewhere. What an entry means: `batch_ledger`. Rows: `task_writer`.
"""

import logging
import time
from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from semel.client.admin import create_topic
from semel.client.admin_groups import at_coordinator
from semel.client.admin_transactions import describe_transaction
from semel.client.blocking import BlockingCluster
from semel.client.cluster import Cluster, error_code, refused
from semel.client.settings import ProducerConfig
from semel.core.idempotence.delivery import NO_IDENTITY, Identity
from semel.core.transactions.producer import END_TXN_V1_MAX, TXN_OFFSET_COMMIT_V1_MAX
from semel.core.transactions.producer_answers import code_of
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.errors import DisconnectedError, ErrorCode, RefusedError, SemelError, WireError
from semel.exceptions import KafkaException, TimeoutException, exception_for
from semel.spark.first_contact import reach
from semel.spark.sink.batch_ledger import Entry
from semel.types import TopicPartition

_logger: Final = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

LEDGER_TOPIC: Final = "__semel_sinks"
"""The topic the sinks' entries are offsets of; nothing is ever written to it."""
FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Answers to who is not, or no longer, who it says."""
_ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
_FIND: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_ONE_KEY_VERSION: Final = 3
_ONE_GROUP_VERSION: Final = 7
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


class _Kind(Enum):
    """Of coordinators."""

    GROUP = 0
    TRANSACTION = 1


class SharedTransactions:
    """The transactions of one sink, one after the other."""

    def __init__(self, config: ProducerConfig, *, transactional_id: str, ledger_topic: str) -> None:
        self.transactional_id = transactional_id
        self.identity = NO_IDENTITY
        """What the tasks write under; none before the first and after a failure."""
        self._config = config
        self._group_id = transactional_id
        self._ledger = TopicPartition(ledger_topic, 0)
        self._cluster = BlockingCluster(config)
        self._coordinators: dict[_Kind, int] = {}
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
            return await at_coordinator(
                cluster, self._group_id, lambda node_id: self._entry(cluster, node_id, settled=settled)
            )

        return self._cluster.run(read)

    async def _entry(self, cluster: Cluster, node_id: int, *, settled: bool) -> Entry | None:
        # By name: asked for everything, Kafka leaves out a first offset whose transaction is not ended yet.
        topic = OffsetFetchRequestTopic(name=self._ledger.topic, partition_indexes=[self._ledger.partition])
        request = OffsetFetchRequest(group_id=self._group_id, topics=[topic], require_stable=settled)
        answer = await cluster.send(request, node_id=node_id, version_max=_ONE_GROUP_VERSION)
        found = [one for each in answer.topics for one in each.partitions]
        code = answer.error_code or next((one.error_code for one in found if one.error_code), 0)
        if code:
            raise refused(code, f"the entry of sink {self.transactional_id}", by=cluster.where)
        return next(
            (Entry(one.metadata or "", one.committed_offset) for one in found if one.committed_offset >= 0),
            None,
        )

    def make_ledger(self) -> None:
        """Have the topic whose offsets are the entries, once."""
        if not self._is_ledger_there:
            self._cluster.run(reach, self._config.max_block_ms)
            self._cluster.run(self._make_ledger)
            self._is_ledger_there = True

    async def _make_ledger(self, cluster: Cluster) -> None:
        name = self._ledger.topic
        try:
            await cluster.topic(name)
            return
        except RefusedError as error:
            if error.code not in _UNKNOWN_TOPIC:
                raise
        try:
            await create_topic(cluster, name, partitions=1)
        except RefusedError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise exception_for(
                    error.code,
                    f"topic {name}, whose offsets say which batches are stored, cannot be made: {error}. Make it (one "
                    "partition, nothing is written to it), or name a topic that exists: TopicSink(..., ledger_topic=...)",
                ) from error
        await cluster.topic(name)

    # Identities

    def identify(self) -> Identity:
        """A new epoch: whoever writes under an older one is fenced, and what it left open is ended."""
        known = self.identity
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
        )
        answer = self._ask(request, _Kind.TRANSACTION, "a producer id")
        self.identity = Identity(answer.producer_id, answer.producer_epoch)
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
        self._ask(add, _Kind.TRANSACTION, "to add the sink's group to the transaction")
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
        self._ask(store, _Kind.GROUP, "the batch's number", version_max=TXN_OFFSET_COMMIT_V1_MAX)
        on_step(Step.BATCH_STORED)
        self._end(committed=True)
        on_step(Step.COMMITTED)

    def abort(self) -> None:
        """End what was written without it being seen, and forget the identity: tasks may still be writing under it."""
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
            _logger.debug("%s: what still writes is not fenced yet: %s", self.transactional_id, error)
        finally:
            self.identity = NO_IDENTITY

    def is_taken_over(self) -> bool:
        """Whether another driver took the transactional id since; not so if the broker ended a transaction that was late."""
        try:
            view = self._cluster.run(describe_transaction, self.transactional_id)
        except SemelError as error:
            _logger.debug("%s: who has it now is not known: %s", self.transactional_id, error)
            return False
        ended = Identity(self.identity.producer_id, self.identity.producer_epoch + 1)
        return Identity(view.producer_id, view.producer_epoch) != ended or view.state not in _ABORTED

    def _end(self, *, committed: bool) -> None:
        end = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=committed,
        )
        what = "to commit" if committed else "to abort"
        self._ask(end, _Kind.TRANSACTION, what, version_max=END_TXN_V1_MAX)

    # Requests

    def _ask(self, request: Request[R], kind: _Kind, what: str, *, version_max: int | None = None) -> R:
        return self._cluster.run(self._asked, request, kind, what, version_max)

    async def _asked(
        self, cluster: Cluster, request: Request[R], kind: _Kind, what: str, version_max: int | None
    ) -> R:
        """The coordinator's answer, asked for until it comes."""
        clock = cluster.runtime.clock
        deadline_ms = clock.monotonic_ms() + self._config.max_block_ms
        tries, code, why = 0, ErrorCode.NONE, ""
        while True:
            try:
                node_id = await self._coordinator(cluster, kind)
                answer = await cluster.send(request, node_id=node_id, version_max=version_max)
                code = code_of(answer)
                if code is ErrorCode.NONE:
                    return answer
                why = code.name
            except (DisconnectedError, WireError) as error:
                code, why = ErrorCode.NOT_COORDINATOR, str(error)
            except RefusedError as error:
                code, why = error.code, str(error)
            if not code.retriable:
                raise self._refusal(code, what, why)
            if code in _FIND:
                self._coordinators.pop(kind, None)
            tries += 1
            pause_ms = cluster.backoff_ms(tries)
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                pause_ms = min(pause_ms, _CONCURRENT_PAUSE_MS)
            if clock.monotonic_ms() + pause_ms >= deadline_ms:
                raise TimeoutException(
                    f"sink {self.transactional_id}: {cluster.where} did not answer {what} within max.block.ms="
                    f"{self._config.max_block_ms}: {why}"
                )
            await cluster.runtime.tasks.sleep(pause_ms / 1000)

    async def _coordinator(self, cluster: Cluster, kind: _Kind) -> int:
        known = self._coordinators.get(kind)
        if known is not None:
            return known
        key = self._group_id if kind is _Kind.GROUP else self.transactional_id
        answer = await cluster.send(
            FindCoordinatorRequest(key=key, key_type=kind.value), version_max=_ONE_KEY_VERSION
        )
        code = error_code(answer.error_code)
        if code:
            raise RefusedError(code, f"{cluster.where} names no coordinator of {key}: {code.name}")
        self._coordinators[kind] = answer.node_id
        return answer.node_id

    def _refusal(self, code: ErrorCode, what: str, why: str) -> KafkaException:
        if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            return exception_for(
                code,
                f"sink {self.transactional_id}: transaction.timeout.ms={self._config.transaction_timeout_ms} is more than "
                "the broker allows: lower it, or raise transaction.max.timeout.ms on the brokers",
            )
        return exception_for(code, f"sink {self.transactional_id} is refused {what}: {why}")


class Stopwatch:
    """How long a transaction may have been open."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self._since) * 1000)
