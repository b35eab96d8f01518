"""Calls about transactions and producers.

Role.   The part of the admin client that shows transactions and producer state, ends what hangs and fences producers.
"""

# ruff: noqa: N815 - the aliases are Java's names.

from collections.abc import Iterable, Sequence

from semel.client import arguments
from semel.client.admin.core import AdminCore, each, names, partitions, public, settled
from semel.client.admin.open_transactions import OpenTransaction, abort_on_partition, open_transactions
from semel.client.admin.tables import Answers, Listing
from semel.client.calls.describe_producers import describe_producers
from semel.client.calls.describe_transactions import describe_transaction
from semel.client.calls.init_producer_id import fence
from semel.client.calls.list_transactions import list_transactions
from semel.client.values.administration import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from semel.types import TopicPartition


class TransactionCalls(AdminCore):
    """Transactions and producers."""

    @public
    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        older_than_ms: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> Listing[TransactionListing]:
        """The transactional ids of all brokers, as far as they match."""
        found = await list_transactions(
            self._cluster,
            states=states,
            producer_ids=producer_ids,
            older_than_ms=arguments.whole("older_than_ms", older_than_ms, "whole milliseconds"),
            pattern=transactional_id_pattern,
        )
        return Listing(found)

    @public
    async def describe_transactions(
        self, transactional_ids: str | Iterable[str]
    ) -> Answers[str, TransactionDescription]:
        """The coordinators' state of these transactional ids."""

        async def ask(transactional_id: str) -> TransactionDescription:
            found = await describe_transaction(self._cluster, transactional_id)
            return TransactionDescription(*found)

        return settled(await each(names(transactional_ids, "transactional_ids"), ask))

    @public
    async def fence_producers(self, transactional_ids: str | Iterable[str]) -> Answers[str, FencedProducer]:
        """Take transactional ids over: their open transactions are aborted, their producers fenced."""

        async def order(transactional_id: str) -> FencedProducer:
            return FencedProducer(*await fence(self._cluster, transactional_id))

        return settled(await each(names(transactional_ids, "transactional_ids"), order))

    @public
    async def abort_transaction(self, topic_partition: tuple[str, int], start_offset: int) -> None:
        """End the transaction a partition has open from this offset on: for those that hang, whose coordinator forgot them."""
        where = arguments.partition(topic_partition, "topic_partition")
        start_offset = arguments.offset(start_offset, "start_offset")
        await abort_on_partition(self._cluster, where.topic, where.partition, start_offset)

    @public
    async def find_hanging_transactions(
        self, topics: str | Iterable[str] | None = None, *, older_than_ms: int = 15 * 60 * 1000
    ) -> Listing[OpenTransaction]:
        """Transactions that partitions have open for longer and no coordinator knows; they hold readers back for ever."""
        found = await open_transactions(
            self._cluster,
            None if topics is None else names(topics, "topics"),
            now_ms=self._cluster.runtime.clock.now_ms(),
            older_than_ms=arguments.whole("older_than_ms", older_than_ms, "whole milliseconds"),
        )
        return Listing(one for one in found if one.is_hanging)

    @public
    async def describe_producers(
        self, topic_partitions: Iterable[tuple[str, int]]
    ) -> Answers[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that the leaders of these partitions remember."""

        async def ask(where: TopicPartition) -> tuple[ProducerState, ...]:
            topic = await self._cluster.topic(where.topic)
            found = await describe_producers(self._cluster, topic, [where.partition])
            return tuple(ProducerState(*one[1:]) for one in found)

        return settled(await each(partitions(topic_partitions), ask))

    force_terminate_transaction = fence_producers
    listTransactions = list_transactions
    describeTransactions = describe_transactions
    fenceProducers = fence_producers
    forceTerminateTransaction = fence_producers
    abortTransaction = abort_transaction
    describeProducers = describe_producers
