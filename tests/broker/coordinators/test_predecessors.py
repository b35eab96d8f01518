"""Whoever was fenced adds nothing to a transaction: not by any request, not in any version, not after a restart.

Method: a producer prepares a transaction (records and offsets) and stays alive. A successor keeps the transaction
(InitProducerId 6, KIP-939). Then the predecessor sends every request a transactional producer has, over the wire, in every
version; each must be refused. In the end the successor decides, and exactly what was prepared counts. The same is played
with a restart before or after the successor came, and for owners fenced in the ordinary way.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import pytest

from semel.core.coordination.outcome import Outcome
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.core.transactions.rows import row_of
from semel.core.transactions.transaction import EPOCH_LAST, Transaction
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told
from support.groups.offsets_kit import committed

OK = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
ID, TOPIC, GROUP, OTHER_GROUP = "orders-1", "orders", "workers", "others"
PREPARED, FRESH = 0, 1
"""The partition that is in the transaction, and one that is not."""
PLACE = (TOPIC, 0)
RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
ATTEMPTS_MAX: Final = 1000
Restart = Literal["none", "clean", "power"]
SETTINGS: Final[dict[str, Any]] = {
    "transaction_two_phase_commit_enable": "true",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "log_flush_interval_messages": "1",  # So that a power cut takes nothing that was answered.
}


@dataclass
class Producer:
    """Requests in the name of one producer."""

    client: Client
    producer_id: int = -1
    epoch: int = -1
    answered: tuple[int, int] = (-1, -1)
    """Of the last EndTxn."""

    async def settled(self, ask: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
        """Ask until the answer is one for good."""
        code = await ask()
        for _ in range(ATTEMPTS_MAX):
            if code not in RETRIED:
                return code
            await self.client.broker.runtime.tasks.sleep(0.05)
            code = await ask()
        raise AssertionError(f"{code.name} for ever")

    async def introduce(self, *, two_phase: bool = True, keep: bool = False) -> ErrorCode:
        for key, kind in ((ID, 1), (GROUP, 0)):
            found = await self.client.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=kind), 5)
            assert found.coordinators[0].error_code == OK

        async def ask() -> ErrorCode:
            request = InitProducerIdRequest(
                transactional_id=ID,
                transaction_timeout_ms=60_000,
                enable_2pc=two_phase,
                keep_prepared_txn=keep,
            )
            answer = await self.client.ask(request, 6)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return ErrorCode(answer.error_code)

        return await self.settled(ask)

    async def introduce_again(self, version: int) -> ErrorCode:
        """As a client that lost track: it names what it was."""
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=60_000,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )

        async def ask() -> ErrorCode:
            return ErrorCode((await self.client.ask(request, version)).error_code)

        return await self.settled(ask)

    async def produce(
        self, partition: int, sequence: int, version: int, *, value: bytes = b"v", transactional: bool = True
    ) -> ErrorCode:
        async def ask() -> ErrorCode:
            records = build_batch(
                [RecordInput(None, value, 1_700_000_000_000)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
            topic = TopicProduceData(
                name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=records)]
            )
            if version >= 13:
                shown = await self.client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
                topic.topic_id = shown.topics[0].topic_id
            request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=[topic])
            answer = await self.client.ask(request, version)
            return ErrorCode(answer.responses[0].partition_responses[0].error_code)

        return await self.settled(ask)

    async def add(self, partition: int, version: int, *, verify_only: bool = False) -> ErrorCode:
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        if version >= 4:
            one = AddPartitionsToTxnTransaction(
                transactional_id=ID,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[one])

        async def ask() -> ErrorCode:
            answer = await self.client.ask(request, version)
            results = answer.results_by_topic_v3_and_below
            if version >= 4:
                results = answer.results_by_transaction[0].topic_results
            return ErrorCode(results[0].results_by_partition[0].partition_error_code)

        return await self.settled(ask)

    async def add_offsets(self, group: str, version: int) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )

        async def ask() -> ErrorCode:
            return ErrorCode((await self.client.ask(request, version)).error_code)

        return await self.settled(ask)

    async def commit_offset(self, group: str, offset: int, version: int) -> ErrorCode:
        places = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=places)],
        )

        async def ask() -> ErrorCode:
            answer = await self.client.ask(request, version)
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        return await self.settled(ask)

    async def end(self, version: int, *, commit: bool) -> ErrorCode:
        async def ask() -> ErrorCode:
            request = EndTxnRequest(
                transactional_id=ID,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            )
            answer = await self.client.ask(request, version)
            self.answered = (answer.producer_id, answer.producer_epoch)
            return ErrorCode(answer.error_code)

        return await self.settled(ask)

    async def prepare(self, *, v2: bool) -> None:
        """A transaction with one record and one offset, everything stored."""
        if not v2:
            assert await self.add(PREPARED, 3) is OK
            assert await self.add_offsets(GROUP, 3) is OK
        assert await self.produce(PREPARED, 0, 12 if v2 else 11, value=b"prepared") is OK
        assert await self.commit_offset(GROUP, 7, 5 if v2 else 3) is OK


Attempt = Callable[[Producer], Awaitable[ErrorCode]]


def _attempts() -> Iterator[tuple[str, Attempt, ErrorCode]]:
    """Every request of a transactional producer, and what it says to a fenced one."""
    for version in (3, 7, 8, 9, 10, 11, 12, 13):
        again = partial(Producer.produce, partition=PREPARED, sequence=0, version=version, value=b"prepared")
        more = partial(Producer.produce, partition=PREPARED, sequence=1, version=version)
        fresh = partial(Producer.produce, partition=FRESH, sequence=0, version=version)
        yield f"Produce {version}", more, OLD_EPOCH
        yield f"Produce {version} again", again, OLD_EPOCH
        yield f"Produce {version} to a fresh partition", fresh, OLD_EPOCH
    for version in range(6):
        fenced = FENCED if version >= 2 else OLD_EPOCH
        for partition in (PREPARED, FRESH):
            add = partial(Producer.add, partition=partition, version=version)
            yield f"AddPartitionsToTxn {version} of {partition}", add, fenced
        if version >= 4:
            verify = partial(Producer.add, partition=PREPARED, version=version, verify_only=True)
            yield f"AddPartitionsToTxn {version}, only to verify", verify, fenced
        commit_offset = partial(Producer.commit_offset, group=GROUP, offset=99, version=version)
        yield f"TxnOffsetCommit {version}", commit_offset, OLD_EPOCH
        yield f"EndTxn {version} commits", partial(Producer.end, version=version, commit=True), fenced
        yield f"EndTxn {version} aborts", partial(Producer.end, version=version, commit=False), fenced
    for version in range(5):
        for group in (GROUP, OTHER_GROUP):
            add_offsets = partial(Producer.add_offsets, group=group, version=version)
            yield f"AddOffsetsToTxn {version} for {group}", add_offsets, FENCED if version >= 2 else OLD_EPOCH
    for version in (3, 4, 5):
        introduce = partial(Producer.introduce_again, version=version)
        yield f"InitProducerId {version}", introduce, FENCED if version >= 4 else OLD_EPOCH


ATTEMPTS: Final = {name: (attempt, code) for name, attempt, code in _attempts()}


def put(client: Client, transaction: Transaction) -> None:
    """Begin in the middle of a story."""
    host = client.broker.parts.transactions.host
    index = host.partition_of(transaction.transactional_id)
    assert host.tell(index, lambda _shard, _now_ms: Outcome(rows=[row_of(transaction)])) is OK


def values(client: Client, partition: int) -> list[bytes | None]:
    """What the partition holds, without markers."""
    return [
        record.value
        for segment in client.partition(TOPIC, partition).log.segments
        for _position, header, data in segment.scan()
        if not header.is_control
        for record in iter_records(data, 0, header)
    ]


async def refused_everything(zombie: Producer, names: list[str] | None = None) -> None:
    """Every attempt gets the code of a fenced producer."""
    wrong = []
    for name in names or list(ATTEMPTS):
        attempt, expected = ATTEMPTS[name]
        code = await attempt(zombie)
        if code is not expected:
            wrong.append(f"{name}: {code.name}, not {expected.name}")
    assert not wrong, "\n".join(wrong)


async def decide(successor: Producer, *, commit: bool, version: int) -> None:
    """The successor ends what it keeps, asks again, and finds what was prepared: no more, no less."""
    client = successor.client
    assert await successor.end(version, commit=commit) is OK
    ended = successor.answered
    assert await successor.end(version, commit=commit) is OK
    assert successor.answered == ended  # A retry of an answered request.
    log = client.partition(TOPIC, PREPARED).log
    assert values(client, PREPARED) == [b"prepared"]
    assert values(client, FRESH) == []
    assert log.last_stable_offset == log.log_end_offset == 2
    assert (await committed(client, GROUP, PLACE))[PLACE] == (7 if commit else -1)
    if version >= 5:
        successor.producer_id, successor.epoch = ended


async def goes_on(successor: Producer) -> None:
    """Its own next transaction, in either protocol, works."""
    for number, v2 in enumerate((False, True, True)):
        sequence = 0 if v2 else number
        if not v2:
            assert await successor.add(FRESH, 3) is OK
        assert await successor.produce(FRESH, sequence, 12 if v2 else 11) is OK
        assert await successor.commit_offset(GROUP, 20 + number, 5) is OK
        assert await successor.end(5, commit=True) is OK
        successor.producer_id, successor.epoch = successor.answered
    assert (await committed(successor.client, GROUP, PLACE))[PLACE] == 22


@pytest.mark.parametrize("restart", ["none", "clean", "power"])
@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize(("commit", "version"), [(True, 4), (False, 4), (True, 5), (False, 5)])
def test_the_predecessor_of_who_keeps_a_prepared_transaction_adds_nothing(
    restart: Restart, v2: bool, commit: bool, version: int
) -> None:
    given: list[tuple[int, int]] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie, successor = Producer(client), Producer(await client.another())
        assert await zombie.introduce() is OK
        await zombie.prepare(v2=v2)
        assert await successor.introduce(keep=True) is OK
        given[:] = [(zombie.producer_id, zombie.epoch), (successor.producer_id, successor.epoch)]

    async def after(client: Client) -> None:
        zombie, successor = Producer(await client.another(), *given[0]), Producer(client, *given[1])
        await refused_everything(zombie)
        await decide(successor, commit=commit, version=version)
        # What comes even later is no part of any transaction either.
        assert await zombie.produce(PREPARED, 1, 11) is not OK
        assert await zombie.produce(PREPARED, 1, 12) is not OK
        assert await zombie.commit_offset(GROUP, 99, 5) is not OK
        await goes_on(successor)
        assert values(client, PREPARED) == [b"prepared"]

    _told(before, after, restart)


@pytest.mark.parametrize("first", sorted(ATTEMPTS))
def test_each_request_is_refused_also_as_the_first_after_a_restart(first: str) -> None:
    """Whatever the predecessor begins with: nothing that was asked before can have told the partition."""
    given: list[tuple[int, int]] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie, successor = Producer(client), Producer(await client.another())
        assert await zombie.introduce() is OK
        await zombie.prepare(v2=True)
        assert await successor.introduce(keep=True) is OK
        given[:] = [(zombie.producer_id, zombie.epoch), (successor.producer_id, successor.epoch)]

    async def after(client: Client) -> None:
        zombie, successor = Producer(await client.another(), *given[0]), Producer(client, *given[1])
        await refused_everything(zombie, [first])
        await decide(successor, commit=True, version=5)

    told(before, after, cut_power=True, **SETTINGS)


@pytest.mark.parametrize("restart", ["none", "clean", "power"])
def test_a_producer_nobody_replaced_goes_on_with_its_transaction(restart: Restart) -> None:
    """A leader that has just begun asks the coordinator once, and the batch is stored; a batch sent again is stored once."""
    given: list[tuple[int, int]] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        producer = Producer(client)
        assert await producer.introduce() is OK
        await producer.prepare(v2=False)
        given.append((producer.producer_id, producer.epoch))

    async def after(client: Client) -> None:
        producer = Producer(client, *given[0])
        assert await producer.produce(PREPARED, 0, 11, value=b"prepared") is OK
        assert await producer.produce(PREPARED, 1, 11, value=b"more") is OK
        assert await producer.produce(PREPARED, 2, 12, value=b"still more") is OK
        assert await producer.commit_offset(GROUP, 8, 3) is OK
        assert await producer.end(4, commit=True) is OK
        assert values(client, PREPARED) == [b"prepared", b"more", b"still more"]
        assert (await committed(client, GROUP, PLACE))[PLACE] == 8

    _told(before, after, restart)


@pytest.mark.parametrize("restart", ["none", "power"])
def test_every_keeper_but_the_last_is_fenced_also_where_producer_ids_run_out(restart: Restart) -> None:
    """Three keepers one after the other, and the epochs of the id end between them."""
    given: list[tuple[int, int]] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie = Producer(client)
        assert await zombie.introduce() is OK
        worn = Transaction(
            ID, zombie.producer_id, EPOCH_LAST - 2, 60_000, last_update_ms=1, previous_producer_id=0
        )
        put(client, worn)
        assert await zombie.introduce() is OK
        await zombie.prepare(v2=True)
        given.append((zombie.producer_id, zombie.epoch))
        for _ in range(3):
            keeper = Producer(await client.another())
            assert await keeper.introduce(keep=True) is OK
            given.append((keeper.producer_id, keeper.epoch))
        assert [epoch for _id, epoch in given] == [EPOCH_LAST - 1, EPOCH_LAST, 0, 1]

    async def after(client: Client) -> None:
        for identity in given[:-1]:
            zombie = Producer(await client.another(), *identity)
            assert await zombie.produce(PREPARED, 1, 11) is not OK
            assert await zombie.produce(PREPARED, 1, 12) is not OK
            assert await zombie.commit_offset(GROUP, 99, 3) is not OK
            assert await zombie.commit_offset(GROUP, 99, 5) is not OK
            assert await zombie.end(4, commit=False) is not OK
            assert await zombie.end(5, commit=False) is not OK
            assert await zombie.introduce_again(5) is not OK
        await decide(Producer(client, *given[-1]), commit=True, version=5)

    _told(before, after, restart)


@pytest.mark.parametrize("restart", ["none", "clean", "power"])
@pytest.mark.parametrize("v2", [False, True])
def test_an_owner_that_was_replaced_in_the_ordinary_way_adds_nothing_to_its_successors_transaction(
    restart: Restart, v2: bool
) -> None:
    """What it had open was aborted with the successor's coming. Introducing itself anew is not asked: in Kafka, too, any epoch
    of the producer id aborts an ordinary transaction by that."""
    given: list[tuple[int, int]] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie, successor = Producer(client), Producer(await client.another())
        assert await zombie.introduce(two_phase=False) is OK
        assert await zombie.produce(FRESH, 0, 12) is OK
        assert await successor.introduce(two_phase=False) is OK
        await successor.prepare(v2=v2)
        given[:] = [(zombie.producer_id, zombie.epoch), (successor.producer_id, successor.epoch)]

    async def after(client: Client) -> None:
        zombie, successor = Producer(await client.another(), *given[0]), Producer(client, *given[1])
        await refused_everything(zombie, [name for name in ATTEMPTS if not name.startswith("InitProducerId")])
        assert await successor.end(5 if v2 else 4, commit=True) is OK
        assert values(client, PREPARED) == [b"prepared"]
        assert (await committed(client, GROUP, PLACE))[PLACE] == 7

    _told(before, after, restart)


@pytest.mark.parametrize("v2", [False, True])
def test_an_owner_whose_time_was_up_adds_nothing(v2: bool) -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie = Producer(client)
        assert await zombie.introduce(two_phase=False) is OK
        await zombie.prepare(v2=v2)
        await client.broker.runtime.tasks.sleep(100)
        zombie = Producer(await client.another(), zombie.producer_id, zombie.epoch)
        names = [name for name in ATTEMPTS if not name.startswith(("EndTxn", "InitProducerId"))]
        await refused_everything(zombie, names)
        assert await zombie.end(5, commit=True) is FENCED
        assert (await committed(zombie.client, GROUP, PLACE))[PLACE] == -1

    told(story, **SETTINGS)


def test_the_fence_holds_where_verification_is_switched_off() -> None:
    """`transaction.partition.verification.enable=false` spares v1's question; two-phase commit cannot do without."""
    given: list[tuple[int, int]] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie, successor = Producer(client), Producer(await client.another())
        assert await zombie.introduce() is OK
        await zombie.prepare(v2=False)
        assert await successor.introduce(keep=True) is OK
        given[:] = [(zombie.producer_id, zombie.epoch), (successor.producer_id, successor.epoch)]
        assert await zombie.produce(PREPARED, 1, 11) is OLD_EPOCH

    async def after(client: Client) -> None:
        await refused_everything(Producer(await client.another(), *given[0]))
        await decide(Producer(client, *given[1]), commit=True, version=5)

    told(before, after, cut_power=True, transaction_partition_verification_enable="false", **SETTINGS)


def test_a_batch_outside_of_transactions_is_no_way_in() -> None:
    """The producer id of a transactional producer, used as an idempotent one's: the partition's transaction is open."""

    async def story(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        zombie, successor = Producer(client), Producer(await client.another())
        assert await zombie.introduce() is OK
        await zombie.prepare(v2=True)
        assert await successor.introduce(keep=True) is OK
        for version in (11, 12):
            code = await zombie.produce(PREPARED, 1, version, transactional=False)
            assert code is ErrorCode.INVALID_TXN_STATE
        await decide(successor, commit=True, version=5)
        assert await zombie.produce(PREPARED, 1, 12, transactional=False) is OLD_EPOCH

    told(story, **SETTINGS)


def _told(
    before: Callable[[Client], Awaitable[None]], after: Callable[[Client], Awaitable[None]], restart: Restart
) -> None:
    async def both(client: Client) -> None:
        await before(client)
        await after(client)

    if restart == "none":
        told(both, **SETTINGS)
    else:
        told(before, after, cut_power=restart == "power", **SETTINGS)
