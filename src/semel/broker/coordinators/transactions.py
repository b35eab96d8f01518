"""The transaction coordinator: the host of `__transaction_state`, and what handlers ask of it.

Role.   Handlers of every transaction API call `ask` with a transactional id and an operation of `TransactionShard`; the
        produce handler and TxnOffsetCommit call `admit` before a producer's first write to a partition.
Flow.   handler -> ask -> host -> shard; once a transaction's end is committed, `Markers` carries it out and the shard is
        told that it is complete. Once a prepared transaction has a new owner, the leaders of its partitions are told to ask
        again before its predecessor goes on, and then the owner is answered.
        In a cluster the coordinator of a producer may be another broker: `admit` asks it then.
Rules.  * FindCoordinator makes the topic. Without it nobody's coordinator is here: NOT_COORDINATOR.
        * Producer ids are fetched before they run out; the shard never waits for one.
        * Settings that change while the broker runs reach every shard.
        * The code of shards is imported with the first shard: a broker without transactions starts without it.
        * A member of a cluster verifies where `transaction.partition.verification.enable` says so. Two-phase commit needs more than
          Kafka's leaders know: a member refuses it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from semel.broker.config import BrokerConfig
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.internal_topics import create_internal_topic
from semel.broker.coordinators.tickets import Answer, answered
from semel.broker.markers.sending import Markers
from semel.broker.partitions import Partitions
from semel.broker.producer_ids import ProducerIdGiver
from semel.broker.replicas.led_partition import LedPartition
from semel.cluster.store import MetadataStore
from semel.core.coordination.outcome import Outcome, Ticket
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.image import MetadataImage
from semel.core.transactions.coordinator.decision import (
    Decision,
    FencePredecessor,
    SendMarkers,
    TransactionEffect,
    TransactionSettings,
)
from semel.core.transactions.rows import FORMAT, MEMBER_FORMAT, ROW_TIMES, TOPIC
from semel.core.transactions.transaction import TRANSACTIONS_V2
from semel.core.wire.message import Response
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from semel.errors import ErrorCode, LogError
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.broker.coordinators.verification import Verification
    from semel.core.transactions.coordinator.shard import TransactionShard

R = TypeVar("R", bound=Response)
_logger = logging.getLogger(__name__)
_DECIDED: Final = AddPartitionsToTxnResponse()
"""Answers the broker's own question, whose codes go another way: it makes no message and reads none."""
_NOTHING_DECIDED: Final = Decision()
_RETRY_SECONDS: Final = 0.1
_ANSWER_SHARE: Final = 0.8
"""Of `request.timeout.ms`: a coordinator elsewhere is answered before it gives up."""


class TransactionCoordinator:
    """Every transactional id of this broker."""

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        store: MetadataStore,
        partitions: Partitions,
        producer_ids: ProducerIdGiver,
        groups: GroupCoordinator,
    ) -> None:
        self._settings = _settings(config, store.image)
        self._runtime = runtime
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._is_fetching_ids = False
        self._image = store.image
        self._node_id = config.node_id
        self._verification: Verification | None = None
        self.verifies_offsets = _verifies_offsets(config, store.image)
        """Whether a group's offsets must belong to a transaction that its coordinator confirms."""
        self.markers = Markers(store, partitions, groups, runtime)
        if store.image.is_told:
            self._join(config, runtime, store, groups)
        partitions_count: Any = config.value("transaction.state.log.num.partitions")
        replication_factor: Any = config.value("transaction.state.log.replication.factor")
        create = partial(
            create_internal_topic,
            store,
            runtime,
            name=TOPIC,
            partitions_count=partitions_count,
            replication_factor=replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.value("transaction.state.log.min.isr")),
                "segment.bytes": str(config.value("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
        self.host: CoordinatorHost[TransactionShard, TransactionEffect] = CoordinatorHost(
            topic=TOPIC,
            row_format=MEMBER_FORMAT if store.image.is_told else FORMAT,
            make_shard=self._make_shard,
            create_topic=create,
            partitions=partitions,
            runtime=runtime,
            run_effect=self._run_effect,
            row_times=ROW_TIMES,
        )

    def _join(
        self, config: BrokerConfig, runtime: Runtime, store: MetadataStore, groups: GroupCoordinator
    ) -> None:
        """Have ways to the leaders and coordinators of a cluster."""
        from semel.broker.coordinators import verification
        from semel.broker.markers.elsewhere import MarkersElsewhere

        brokers = store.image.brokers
        self._verification = verification.Verification(config, runtime, brokers)
        self.markers = Markers(
            store,
            self._partitions,
            groups,
            runtime,
            MarkersElsewhere(config, runtime, brokers),
            answer_seconds=config.request_timeout_ms / 1000 * _ANSWER_SHARE,
        )

    def _make_shard(self, _index: int) -> "TransactionShard":
        from semel.core.transactions.coordinator.shard import TransactionShard

        return TransactionShard(self._settings, self)

    @property
    def settings(self) -> TransactionSettings:
        return self._settings

    def start(self) -> None:
        """Begin to load what is there, and to carry out what was decided before."""
        self.host.start()

    def stop(self) -> None:
        """Answer every waiting caller."""
        self.host.stop()
        self.markers.close()
        if self._verification is not None:
            self._verification.close()

    def brokers_changed(self) -> None:
        """Other brokers are alive than before."""
        self.markers.brokers_changed()
        if self._verification is not None:
            self._verification.brokers_changed()

    def use(self, config: BrokerConfig) -> None:
        """Let changed settings take effect."""
        self._settings = _settings(config, self._image)
        self.verifies_offsets = _verifies_offsets(config, self._image)
        for shard in self.host.shards:
            shard.settings = self._settings

    # Producer ids

    def take(self) -> int | None:
        """A producer id for a shard; None while the next block is being fetched."""
        given = self._producer_ids.take()
        if given is None and not self._is_fetching_ids:
            self._is_fetching_ids = True
            self._runtime.tasks.spawn(self._fetch_ids(), name="producer ids")
        return given

    async def _fetch_ids(self) -> None:
        try:
            await self._producer_ids.ensure()
        except LogError as error:
            _logger.error("no producer ids can be set aside: %s", error)
            await self._runtime.tasks.sleep(_RETRY_SECONDS)
        finally:
            self._is_fetching_ids = False

    # From handlers

    def ask(
        self,
        transactional_id: str,
        operation: "Callable[[TransactionShard, Ticket, int], Outcome[TransactionEffect]]",
        expected: type[R],
        refused: Callable[[ErrorCode], R],
    ) -> R | Awaitable[R]:
        """Let the id's shard decide. `refused` makes the response that carries a code."""
        if not self.host.partitions_count:
            return refused(ErrorCode.NOT_COORDINATOR)
        return answered(self.host.ask(transactional_id, operation), expected, refused)

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Whether these partitions are in the producer's transaction; with `add` they join it."""
        if not self.host.partitions_count:
            return [ErrorCode.NOT_COORDINATOR] * len(partitions)
        if self._verification is not None and not add:
            coordinator = self.coordinator_elsewhere(transactional_id)
            if coordinator is not None:
                return self._verification.verify(
                    coordinator, transactional_id, producer_id, producer_epoch, partitions
                )
        codes: list[ErrorCode] = []

        def decide(shard: "TransactionShard", ticket: Ticket, now_ms: int) -> Outcome[TransactionEffect]:
            decision = _NOTHING_DECIDED
            if not transactional_id:
                codes[:] = [ErrorCode.INVALID_REQUEST] * len(partitions)
            elif add:
                decision = shard.decide_add(
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    partitions,
                    client_version=TRANSACTIONS_V2,
                    now_ms=now_ms,
                )
                codes[:] = [decision.code] * len(partitions)
            else:
                codes[:] = shard.verify(transactional_id, producer_id, producer_epoch, partitions)
            return shard.outcome_of(decision, ticket, _DECIDED)

        answer = self.host.ask(transactional_id, decide)
        if isinstance(answer, ErrorCode):
            return [answer] * len(partitions)
        return codes if answer is _DECIDED else _codes_later(answer, codes, len(partitions))

    def coordinator_elsewhere(self, transactional_id: str) -> int | None:
        """The broker that coordinates a transactional id; None if it is this one, or nobody knows."""
        if self._verification is None or not self.host.partitions_count:
            return None
        index = self.host.partition_of(transactional_id)
        state = self._image.partition(TopicPartition(TOPIC, index))
        if state is None or self.host.epoch_of(index) is not None or state.leader == self._node_id:
            return None
        return state.leader if state.leader in self._image.brokers else None

    def check(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Whether the partition is in the producer's transaction at this very moment: no answer to give, but what a write
        that follows without waiting may rely on."""
        found = [ErrorCode.NOT_COORDINATOR]

        def look(shard: "TransactionShard", _now_ms: int) -> Outcome[TransactionEffect]:
            found[:] = shard.verify(transactional_id, producer_id, producer_epoch, [partition])
            return Outcome()

        if not self.host.partitions_count:
            return ErrorCode.NOT_COORDINATOR
        refused = self.host.tell(self.host.partition_of(transactional_id), look)
        return refused or found[0]

    # Effects of decisions

    def _run_effect(self, index: int, effect: TransactionEffect) -> None:
        match effect:
            case SendMarkers():
                self._send_markers(index, effect)
            case FencePredecessor():
                self._fence(index, effect)

    def _fence(self, index: int, fence: FencePredecessor) -> None:
        """Have every leader ask the coordinator again before the predecessor goes on; then its successor is answered.

        A partition without a leader is doubted as a whole when it is led again. A leader on another broker cannot be told:
        the successor then gets an error, and asks again.
        """
        for topic_partition in fence.partitions:
            partition = self._partitions.where(topic_partition)
            if isinstance(partition, LedPartition):
                partition.log.producers.doubt(fence.producer_id)
            elif isinstance(partition, RegisteredBroker):
                self.host.refuse(index, fence.ticket, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
        self.host.tell(index, lambda shard, _now_ms: shard.fenced(fence))

    def _send_markers(self, index: int, markers: SendMarkers) -> None:
        epoch, tenure = self.host.epoch_of(index), self.host.tenure_of(index)
        if epoch is None:
            return  # The topic is gone, or another broker coordinates it.
        self.markers.send(
            markers,
            coordinator_epoch=epoch,
            is_wanted=lambda: self.host.tenure_of(index) is tenure,
            on_written=lambda: self.host.tell(index, lambda shard, now_ms: shard.complete(markers, now_ms)),
        )


async def _codes_later(
    answer: Awaitable[Answer] | Answer, codes: list[ErrorCode], count: int
) -> list[ErrorCode]:
    given = await answer if isinstance(answer, Awaitable) else answer
    return [given] * count if isinstance(given, ErrorCode) else codes


def _settings(config: BrokerConfig, image: MetadataImage) -> TransactionSettings:
    settings = transaction_settings(config)
    return settings._replace(two_phase_commit=False) if image.is_told else settings


def _verifies_offsets(config: BrokerConfig, image: MetadataImage) -> bool:
    """Alone it costs nothing, and is always so; a member does as Kafka."""
    return not image.is_told or bool(config.value("transaction.partition.verification.enable"))


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """The settings of transactions, out of the broker's."""
    value: Callable[[str], Any] = config.value
    return TransactionSettings(
        timeout_max_ms=value("transaction.max.timeout.ms"),
        id_expiration_ms=value("transactional.id.expiration.ms"),
        expiration_interval_ms=value("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=value("transaction.two.phase.commit.enable"),
    )
