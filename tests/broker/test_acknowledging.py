"""acks=all waits for what it promises, no longer than the request says, and nobody is forgotten.

Method: a broker on a simulated disk whose syncs take seconds, asked over a connection; and one partition by itself whose two other
replicas are played by hand. Apache Kafka's answers to the same are in `tests/compat/differential`.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from semel.broker.replicas.replica import Replica
from semel.broker.replicas.surroundings import Surroundings
from semel.core.idempotence.producer_window import Duplicate
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.errors import ErrorCode, LogError, Refuse
from semel.log.config import LogConfig
from semel.log.partition_log import Appended
from semel.runtime.simulation import simulated_runtime
from support.broker.admin_kit import Client, told
from support.log.log_kit import batch_of, open_at

SYNC_SECONDS = 5.0


async def put(
    client: Client, *, acks: int = -1, timeout_ms: int = 60_000, sequence: int = -1
) -> PartitionProduceResponse:
    identity = {} if sequence < 0 else {"producer_id": 7, "sequence": sequence}
    data = PartitionProduceData(index=0, records=batch_of(b"v", **identity))
    wanted = [TopicProduceData(name="orders", partition_data=[data])]
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=wanted)
    answer = await client.ask(request, 11)
    return answer.responses[0].partition_responses[0]


# A slow disk


def slow(story: Callable[[Client], Awaitable[None]]) -> None:
    async def with_a_slow_disk(client: Client) -> None:
        await client.create("orders")
        client.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        await story(client)
        client.disk.sync_delay_seconds = (0.0, 0.0)

    told(with_a_slow_disk, log_flush_interval_messages="1")


def test_whoever_waits_for_a_slow_sync_is_answered_in_time_and_the_record_stays() -> None:
    async def story(client: Client) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        first = await put(client, timeout_ms=1000, sequence=0)
        assert ErrorCode(first.error_code) is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() - began == pytest.approx(1.0, abs=0.1)
        partition = client.partition("orders")
        assert not partition._acknowledgements, "who was answered waits no more"
        again = await put(client, sequence=0)
        assert (ErrorCode(again.error_code), again.base_offset) == (ErrorCode.NONE, 0)
        assert loop.time() - began >= SYNC_SECONDS
        assert partition.log.high_watermark == partition.log.log_end_offset == 1

    slow(story)


def test_what_nobody_waits_for_any_more_becomes_visible_all_the_same() -> None:
    async def story(client: Client) -> None:
        partition = client.partition("orders")
        for answer in (await put(client, timeout_ms=0), await put(client, timeout_ms=-1)):
            assert ErrorCode(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT
        assert ErrorCode((await put(client, acks=1)).error_code) is ErrorCode.NONE
        assert partition.log.high_watermark == 0
        await asyncio.sleep(20 * SYNC_SECONDS)
        assert partition.log.high_watermark == 3

    slow(story)


def test_many_requests_share_their_syncs_and_one_task_waits_for_the_disk() -> None:
    async def story(client: Client) -> None:
        partition = client.partition("orders")
        before = partition.commits.syncs
        clients = [await client.another() for _ in range(10)]
        acks = [-1, 1, 1, -1]
        answers = [asyncio.ensure_future(put(other, acks=one)) for one in acks for other in clients]
        await asyncio.sleep(SYNC_SECONDS / 2)
        assert partition.log.log_end_offset == len(answers)
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert sum(name.startswith("settle orders-0") for name in names) == 1
        assert {one.error_code for one in await asyncio.gather(*answers)} == {0}
        assert partition.commits.syncs - before <= 2

    slow(story)


def test_a_sync_that_fails_fails_everybody_who_waits() -> None:
    async def story(client: Client) -> None:
        client.disk.fail("sync", path_part="orders")
        answers = await asyncio.gather(put(client), put(client))
        assert {ErrorCode(one.error_code) for one in answers} == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert ErrorCode((await put(client)).error_code) is ErrorCode.KAFKA_STORAGE_ERROR

    slow(story)


def test_whoever_waits_for_a_topic_that_is_deleted_is_told_so() -> None:
    async def story(client: Client) -> None:
        waiting = asyncio.ensure_future(put(client))
        await asyncio.sleep(SYNC_SECONDS / 10)
        other = await client.another()
        deleting = asyncio.ensure_future(
            other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=60_000))
        )
        began = asyncio.get_running_loop().time()
        answer = await waiting
        assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert asyncio.get_running_loop().time() - began <= 2 * SYNC_SECONDS
        await deleting

    slow(story)


# Other replicas


class Led:
    """A partition led by broker 1, which also 2 and 3 have."""

    def __init__(
        self,
        *isr: int,
        replicas: tuple[int, ...] = (1, 2, 3),
        config: LogConfig | None = None,
        least: int = 1,
    ) -> None:
        self.replicas = replicas
        self.simulation, runtime = simulated_runtime(1)
        self.brokers = {node: RegisteredBroker(node, {}) for node in (1, 2, 3)}
        self.log = open_at(
            self.simulation.host("localhost").disk, config or LogConfig(min_insync_replicas=least)
        )
        self.replica = Replica(self.log, uuid.UUID(int=1), runtime)
        self.lead(isr or replicas)

    def lead(self, isr: tuple[int, ...], *, leader_epoch: int = 4, partition_epoch: int = 9) -> None:
        self.partition = self.replica.lead(
            Surroundings(1, 30_000, self.brokers),
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=self.replicas,
            isr=isr,
        )

    def append(self, *, acks: int = -1) -> None:
        assert isinstance(self.partition.append(batch_of(b"v"), acks=acks), Appended)

    def fetched(self, replica_id: int, offset: int) -> None:
        assert not self.partition.fetched(replica_id, offset, log_start_offset=0, broker_epoch=-1)

    def run(self, story: Awaitable[None]) -> None:
        async def main() -> None:
            await story

        self.simulation.run(main())


def test_a_batch_is_visible_and_acknowledged_when_every_replica_in_sync_has_it() -> None:
    led = Led()
    partition = led.partition

    async def story() -> None:
        led.append()
        assert not partition.settled
        assert not partition.is_settled_at_once
        waiting = [asyncio.ensure_future(partition.acknowledged(1, 60)) for _ in range(2)]
        settling = asyncio.ensure_future(partition.settle(1))
        led.fetched(2, 1)
        await asyncio.sleep(1)
        assert not waiting[0].done()
        assert led.log.high_watermark == 0
        led.fetched(3, 1)
        assert led.log.high_watermark == 1
        assert await asyncio.gather(*waiting) == [ErrorCode.NONE] * 2
        await settling
        assert partition.commits.syncs == 0, "replication asks for no sync"

    led.run(story())


def test_a_batch_that_is_not_replicated_in_time_times_out_and_stays() -> None:
    led = Led()

    async def story() -> None:
        led.append()
        assert await led.partition.acknowledged(1, 0.5) is ErrorCode.REQUEST_TIMED_OUT
        led.fetched(2, 1)
        led.fetched(3, 1)
        assert await led.partition.acknowledged(1, 0.5) is ErrorCode.NONE

    led.run(story())


def test_too_few_in_sync_take_no_batch_that_all_are_to_acknowledge() -> None:
    led = Led(1, least=2)
    refused = led.partition.append(batch_of(b"v"))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.NOT_ENOUGH_REPLICAS
    marker = led.partition.append_marker(producer_id=1, producer_epoch=0, coordinator_epoch=0, commit=True)
    assert isinstance(marker, Refuse)
    assert marker.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert led.log.log_end_offset == 0
    led.append(acks=1)
    assert (led.log.log_end_offset, led.log.high_watermark) == (1, 0), "nor is anything shown then"


def test_an_isr_that_shrinks_after_the_append_is_told() -> None:
    led = Led(1, 2, least=2)

    async def story() -> None:
        led.append()
        waiting = asyncio.ensure_future(led.partition.acknowledged(1, 60))
        await asyncio.sleep(0)
        led.fetched(2, 1)
        led.lead((1,), partition_epoch=10)
        assert await waiting is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    led.run(story())


def test_an_isr_of_one_shows_what_it_has() -> None:
    led = Led(1, 2)
    led.append()
    led.lead((1,), partition_epoch=8)
    assert led.log.high_watermark == 0, "older metadata counts for nothing"
    led.lead((1,), partition_epoch=10)
    assert led.log.high_watermark == 0, "who was caught up a moment ago may come back"
    del led.brokers[2]
    led.lead((1,), partition_epoch=10)
    assert led.log.high_watermark == 1


def test_a_leader_that_leads_no_more_tells_all_who_wait_and_takes_nothing() -> None:
    led = Led()
    partition = led.partition

    async def story() -> None:
        led.append()
        waiting = asyncio.ensure_future(partition.acknowledged(1, 60))
        settling = asyncio.ensure_future(partition.settle(1))
        await asyncio.sleep(0)
        led.replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert led.replica.leader is None
        assert await waiting is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(LogError, match="no longer led here"):
            await settling
        assert await partition.acknowledged(1, 60) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "who comes later, too"
        late = partition.append(batch_of(b"v"), acks=1)
        assert isinstance(late, Refuse)
        assert late.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert led.log.log_end_offset == 1

    led.run(story())


def test_nothing_is_synced_for_a_leader_that_leads_no_more() -> None:
    led = Led(replicas=(1,), config=LogConfig(flush_messages=1))
    led.simulation.host("localhost").disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)

    async def story() -> None:
        led.append(acks=1)
        await asyncio.sleep(SYNC_SECONDS / 10)
        led.append(acks=1)
        led.replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.sleep(20 * SYNC_SECONDS)
        assert led.replica.commits.syncs == 1
        assert led.log.high_watermark == 0, "whoever leads now shows what is replicated"

    led.run(story())


def test_a_leader_with_followers_notes_its_epoch_before_it_appends() -> None:
    """A follower with records of an epoch between asks about it before there is a record (KIP-279)."""
    led = Led()
    assert [(entry.epoch, entry.start_offset) for entry in led.log.leader_epochs.entries] == [(4, 0)]
    led.append()
    led.lead((1, 2), leader_epoch=6, partition_epoch=10)
    assert led.partition.leader_epoch == 6
    assert [(entry.epoch, entry.start_offset) for entry in led.log.leader_epochs.entries] == [(4, 0), (6, 1)]
    assert led.partition.epoch_end(5) == (4, 1)


def test_a_duplicate_waits_for_the_replicas_of_the_first() -> None:
    led = Led()

    async def story() -> None:
        batch = batch_of(b"v", producer_id=7, sequence=0)
        assert isinstance(led.partition.append(bytearray(batch)), Appended)
        assert isinstance(led.partition.append(bytearray(batch)), Duplicate)
        assert not led.partition.settled

    led.run(story())


def test_whoever_waits_for_a_sync_that_breaks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody foresaw the error, and nobody waits for ever because of it."""
    led = Led(replicas=(1,), config=LogConfig(flush_messages=1))

    def broken() -> None:
        raise ZeroDivisionError("nobody foresaw it")

    async def story() -> None:
        monkeypatch.setattr(led.log, "begin_flush", broken)
        led.append(acks=1)
        async with asyncio.timeout(SYNC_SECONDS):
            with pytest.raises(LogError, match="nobody foresaw it"):
                await led.partition.settle(led.log.log_end_offset)
        monkeypatch.undo()
        led.append(acks=1)
        await led.partition.settle(led.log.log_end_offset)

    led.run(story())
