"""Verification: a leader asks a transaction coordinator elsewhere whether partitions are in a producer's transaction.

Role.   A member's question before the first batch of a transaction, or its first offsets, reaches a partition that it leads.
Flow.   `verify` -> the question waits for the coordinator -> AddPartitionsToTxn, verify only, with all that wait -> the codes.
Rules.  * The coordinator leads the partition of `__transaction_state` that the transactional id has by its hash: the metadata says who.
        * Nothing is asked twice from here: a lost answer is NETWORK_EXCEPTION, and the client tries again.
        * A coordinator that does not know verification (no version 4) is not asked: everything is taken for verified, as in Kafka.
        * Several questions of one producer go as one. Of two producers under one transactional id, the later waits for the next
          request, for an answer names the transactional id alone.
Elsewhere. Tokens, by which an answer that came too late opens nothing: `core.idempotence.verification`. Requests in flight:
`cluster.peers`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from semel.broker.config import BrokerConfig
from semel.broker.peer_config import peer_config
from semel.cluster.peers import Peers
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, SemelError, UnsupportedVersionError, error_code
from semel.net.link import Link
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

_VERIFIES_SINCE: Final = 4


class Question(NamedTuple):
    """Partitions of one producer, and where its caller waits."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    answer: asyncio.Future[list[ErrorCode]]

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch


class Verification:
    """The questions to coordinators elsewhere."""

    def __init__(
        self, config: BrokerConfig, runtime: Runtime, brokers: Mapping[int, RegisteredBroker]
    ) -> None:
        """`brokers`: the metadata's, live."""
        self._timeout_ms = config.request_timeout_ms
        self._peers: Peers[Question] = Peers(
            runtime,
            self,
            what="questions about transactions",
            brokers=brokers,
            listener=config.listener.name,
            config=peer_config(config, f"AddPartitionsManager-client-{config.node_id}"),
        )

    async def verify(
        self,
        coordinator: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> list[ErrorCode]:
        """For each partition what the coordinator says, or NETWORK_EXCEPTION."""
        answer: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
        question = Question(transactional_id, producer_id, producer_epoch, partitions, answer)
        self._peers.put(coordinator, [question])
        return await answer

    def brokers_changed(self) -> None:
        """Other brokers are alive than before."""
        self._peers.brokers_changed()

    def close(self) -> None:
        """Ask nothing any more."""
        self._peers.close()

    # For `Peers`

    async def carry_out(self, link: Link, errands: Sequence[Question]) -> None:
        try:
            is_served = link.version(ApiKey.ADD_PARTITIONS_TO_TXN) >= _VERIFIES_SINCE
        except UnsupportedVersionError:
            is_served = False
        if not is_served:
            for question in errands:
                _tell(question, [ErrorCode.NONE] * len(question.partitions))
            return
        left = list(errands)
        while left:
            now, left = first_of_each(left)
            answer = await link.send(request_of(now), timeout_ms=self._timeout_ms)
            for question in now:
                _tell(question, codes_for(question, answer))

    def failed(self, errands: Sequence[Question], error: SemelError) -> None:  # noqa: ARG002  # `Peers` has said it.
        for question in errands:
            _tell(question, [ErrorCode.NETWORK_EXCEPTION] * len(question.partitions))


def first_of_each(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """The questions of one request, and the rest: in one request a transactional id has one producer."""
    producers: dict[str, tuple[int, int]] = {}
    now: list[Question] = []
    rest: list[Question] = []
    for question in questions:
        producer = producers.setdefault(question.transactional_id, question.producer)
        (now if producer == question.producer else rest).append(question)
    return now, rest


def request_of(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
    """One request for all; a transactional id has one producer."""
    transactions: dict[str, AddPartitionsToTxnTransaction] = {}
    topics: dict[tuple[str, str], dict[int, None]] = {}
    for question in questions:
        transactional_id = question.transactional_id
        transaction = transactions.setdefault(
            transactional_id,
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=True,
            ),
        )
        for name, index in question.partitions:
            indexes = topics.get((transactional_id, name))
            if indexes is None:
                indexes = topics[transactional_id, name] = {}
                transaction.topics.append(AddPartitionsToTxnTopic(name=name))
            indexes[index] = None
    for transaction in transactions.values():
        for topic in transaction.topics:
            topic.partitions = list(topics[transaction.transactional_id, topic.name])
    return AddPartitionsToTxnRequest(transactions=list(transactions.values()))


def codes_for(question: Question, answer: AddPartitionsToTxnResponse) -> list[ErrorCode]:
    """One for each partition; a partition that the answer does not name is not verified."""
    whole = error_code(answer.error_code)
    if whole is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        whole = ErrorCode.INVALID_TXN_STATE  # Nothing to tell a client of: this broker may not ask.
    if whole is not ErrorCode.NONE:
        return [whole] * len(question.partitions)
    codes = {
        TopicPartition(topic.name, one.partition_index): error_code(one.partition_error_code)
        for result in answer.results_by_transaction
        if result.transactional_id == question.transactional_id
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
    return [codes.get(one, ErrorCode.NETWORK_EXCEPTION) for one in question.partitions]


def _tell(question: Question, codes: list[ErrorCode]) -> None:
    if not question.answer.done():
        question.answer.set_result(codes)
