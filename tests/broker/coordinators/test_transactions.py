"""The hosted transaction coordinator: what it says, logs and keeps, on a real broker in a simulated world.

Method: requests over the wire to a broker on a simulated host whose disk fails on command; between two stories the broker is
started anew.
"""

import asyncio
import logging

import pytest

from semel.broker.coordinators.loading import SLICE_BYTES
from semel.core.coordination.outcome import Outcome
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.core.transactions.rows import FORMAT, row_of, transaction_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import Transaction
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.list_transactions import ListTransactionsRequest
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.log.reading import aborted_transactions
from semel.runtime.clock import SimulatedClock
from semel.runtime.tasks import OwnedTasks
from support.broker.admin_kit import Client, told

OK = ErrorCode.NONE
ID = "first-transactional"
TOPIC = "orders"


async def find(client: Client, transactional_id: str = ID) -> None:
    answer = await client.ask(FindCoordinatorRequest(coordinator_keys=[transactional_id], key_type=1), 5)
    assert answer.coordinators[0].error_code == OK


async def init(client: Client, transactional_id: str = ID, **more: bool) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        enable_2pc=more.get("two_phase", False),
        keep_prepared_txn=more.get("keep", False),
    )
    return await client.ask(request, 6 if more else 5)


def batch_of(producer_id: int, epoch: int, sequence: int = 0) -> bytearray:
    return build_batch(
        [RecordInput(b"k", b"v", 1_700_000_000_000)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


async def produce(
    client: Client, *records: bytearray, transactional_id: str = ID
) -> list[PartitionProduceResponse]:
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=data)],
    )
    return (await client.ask(request, 12)).responses[0].partition_responses


async def end(
    client: Client, producer_id: int, epoch: int, *, commit: bool, version: int = 5
) -> EndTxnResponse:
    request = EndTxnRequest(
        transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    return await client.ask(request, version)


def put(client: Client, transaction: Transaction) -> None:
    """Begin in the middle of a story."""
    host = client.broker.parts.transactions.host
    index = host.partition_of(transaction.transactional_id)
    assert host.tell(index, lambda _shard, _now_ms: Outcome(rows=[row_of(transaction)])) is OK


def rows_written(client: Client) -> list[Transaction]:
    """What the coordinator's topic says of the id, in order."""
    log = client.partition("__transaction_state", 12).log
    rows = [
        FORMAT.decode(record)
        for segment in log.segments
        for _position, header, data in segment.scan()
        for record in iter_records(data, 0, header)
    ]
    return [one for row in rows if row is not None and (one := transaction_of(row)) is not None]


def states_written(client: Client) -> list[TransactionState]:
    return [row.state for row in rows_written(client)]


@pytest.mark.mission("TXP-20", "FEN-03")
def test_two_instances_and_the_lines_they_leave(caplog: pytest.LogCaptureFixture) -> None:
    """The seed's five steps: 1 introduces itself and sends, 2 introduces itself, 1 fails to commit, 2 commits."""

    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        put(client, Transaction(ID, 8000, 122, 60_000, previous_producer_id=8000, last_update_ms=1))
        first = await init(client)
        assert (first.producer_id, first.producer_epoch) == (8000, 123)
        assert (await produce(client, batch_of(8000, 123)))[0].error_code == OK
        assert (await init(client)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        second = await init(client)
        assert (second.producer_id, second.producer_epoch) == (
            8000,
            125,
        )  # As Kafka 4.3: one epoch for the fence.
        for version, code in ((1, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
            assert (await end(client, 8000, 123, commit=True, version=version)).error_code == code
        assert (await produce(client, batch_of(8000, 125)))[0].error_code == OK
        assert (await end(client, 8000, 125, commit=True)).error_code == OK

    with caplog.at_level(logging.DEBUG):
        told(story, node_id="0")
    said = [record.getMessage() for record in caplog.records if "Initialized" in record.getMessage()]
    assert said == [
        f"[TransactionCoordinator id=0] Initialized transactionalId {ID} with producerId 8000 and producer "
        f"epoch {epoch} on partition __transaction_state-12"
        for epoch in (123, 125)
    ]


@pytest.mark.mission("CFG-26", "CFG-27", "LOG-01", "TXP-01", "TXP-10")
def test_the_coordinator_is_who_leads_the_partition_of_the_id() -> None:
    """Both internal topics have 50 partitions, are compacted, and lie beside data in directories of the same format."""

    async def story(client: Client) -> None:
        await client.create(TOPIC)
        for transactional_id, index in ((ID, 12), ("my-transaction-id", 3)):
            await find(client, transactional_id)
            assert await leader_of(client, "__transaction_state", index) == await coordinator_of(
                client, transactional_id, key_type=1
            )
            assert (await init(client, transactional_id)).error_code == OK
            rows = client.partition("__transaction_state", index).log
            assert rows.log_end_offset == 1
        await coordinator_of(client, "group0323", key_type=0)
        assert client.broker.parts.groups.host.partition_of("group0323") == 1
        assert await leader_of(client, "__consumer_offsets", 1) == await coordinator_of(
            client, "group0323", key_type=0
        )
        for topic in ("__transaction_state", "__consumer_offsets"):
            assert await setting(client, topic, "cleanup.policy") == "compact"
            assert len([one for one in client.disk.list_directory("data") if one.startswith(topic)]) == 50
        kinds = ["__transaction_state-12", "__consumer_offsets-1", f"{TOPIC}-0"]
        held = [sorted(client.disk.list_directory(f"data/{kind}")) for kind in kinds]
        assert held[0] == held[1] == held[2]
        assert "00000000000000000000.log" in held[0]

    told(story)


async def coordinator_of(client: Client, key: str, *, key_type: int) -> int:
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
    found = (await client.ask(request, 5)).coordinators[0]
    assert found.error_code == OK
    return found.node_id


async def leader_of(client: Client, topic: str, index: int) -> int:
    answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    partitions = answer.topics[0].partitions
    assert len(partitions) == 50
    return partitions[index].leader_id


async def setting(client: Client, topic: str, key: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=[key])
    answer = await client.ask(DescribeConfigsRequest(resources=[resource]))
    return answer.results[0].configs[0].value


@pytest.mark.mission("TXP-02", "TXP-04")
@pytest.mark.parametrize("prepared", [False, True])
def test_who_introduces_itself_waits_for_what_is_unfinished(prepared: bool) -> None:
    """Open: it is aborted. Decided, with a marker missing: it is awaited, and stays decided. Then the id has its producer."""

    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        first = await init(client)
        assert (await produce(client, batch_of(first.producer_id, 0)))[0].error_code == OK
        client.disk.fail("write", times=3, path_part=f"{TOPIC}-0/")  # Markers have to wait.
        if prepared:
            assert (await end(client, first.producer_id, 0, commit=True)).error_code == OK
        log = client.partition(TOPIC).log
        assert (await init(client)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (log.last_stable_offset, log.log_end_offset) == (0, 1)
        await client.broker.runtime.tasks.sleep(2)
        second = await init(client)
        assert (second.error_code, second.producer_id) == (OK, first.producer_id)
        assert second.producer_epoch > first.producer_epoch
        assert (log.last_stable_offset, log.log_end_offset) == (2, 2)
        assert bool(aborted_transactions(log, 0, 2)) is not prepared
        known = client.broker.parts.transactions.host.look(lambda shard: shard.get(ID))
        assert isinstance(known, list)
        [owned] = [one for one in known if one is not None]
        assert rows_written(client)[-1] == owned
        assert (owned.producer_id, owned.producer_epoch) == (second.producer_id, second.producer_epoch)

    told(story)


@pytest.mark.mission("FEN-07", "IDEM-31", "TXP-03")
@pytest.mark.parametrize("cut_power", [False, True])
def test_identities_outlive_the_broker(cut_power: bool) -> None:
    async def before(client: Client) -> None:
        await find(client)
        assert [(await init(client)).producer_epoch for _ in range(3)] == [0, 1, 2]

    async def after(client: Client) -> None:
        await find(client)
        answer = await init(client)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (OK, 0, 3)

    told(before, after, cut_power=cut_power, log_flush_interval_messages="1")


@pytest.mark.mission("TXP-16")
def test_a_disk_that_refuses_markers_delays_the_end_and_no_more() -> None:
    """The transaction is complete in the log of the coordinator only when its last marker is written."""

    async def story(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        await find(client)
        owner = await init(client)
        records = [batch_of(owner.producer_id, 0) for _ in range(2)]
        assert [one.error_code for one in await produce(client, *records)] == [OK, OK]
        client.disk.fail("write", times=3, path_part=f"{TOPIC}-1/")
        answer = await end(client, owner.producer_id, 0, commit=True)
        assert (answer.error_code, answer.producer_epoch) == (OK, 1)
        logs = [client.partition(TOPIC, index).log for index in range(2)]
        assert [log.last_stable_offset for log in logs] == [2, 0]
        busy = await end(client, owner.producer_id, 0, commit=True)
        assert busy.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert states_written(client)[-1] is TransactionState.PREPARE_COMMIT
        await client.broker.runtime.tasks.sleep(2)
        assert [(log.last_stable_offset, log.log_end_offset) for log in logs] == [(2, 2), (2, 2)]
        assert states_written(client)[-2:] == [
            TransactionState.PREPARE_COMMIT,
            TransactionState.COMPLETE_COMMIT,
        ]
        assert (await end(client, owner.producer_id, 0, commit=True)).producer_epoch == 1

    told(story)


@pytest.mark.parametrize("commit", [True, False])
def test_trap_32_a_reader_of_committed_records_that_waits_is_woken_by_the_end(commit: bool) -> None:
    """The high watermark moved long ago: it is the last stable offset that ends the wait."""

    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        owner = await init(client)
        assert (await produce(client, batch_of(owner.producer_id, 0)))[0].error_code == OK
        reader = await client.another()
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=30_000,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        clock = client.broker.runtime.clock
        begun_ms = clock.monotonic_ms()
        waiting = asyncio.create_task(reader.ask(request, 11))
        await client.broker.runtime.tasks.sleep(5)
        assert not waiting.done()
        assert (await end(client, owner.producer_id, 0, commit=commit)).error_code == OK
        [answer] = (await waiting).responses[0].partitions
        assert answer.last_stable_offset == 2
        assert bool(answer.aborted_transactions) is not commit
        assert clock.monotonic_ms() - begun_ms < 6000

    told(story)


def test_one_request_is_one_producers() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC, partitions=2)
        await find(client)
        owner = await init(client)
        answers = await produce(client, batch_of(owner.producer_id, 0), batch_of(owner.producer_id + 1, 0))
        assert [one.error_code for one in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert client.partition(TOPIC).log.log_end_offset == 0

    told(story)


def test_without_findcoordinator_there_is_no_coordinator() -> None:
    async def story(client: Client) -> None:
        assert (await init(client)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await end(client, 1, 0, commit=True)).error_code == ErrorCode.NOT_COORDINATOR

    told(story)


@pytest.mark.mission("FEN-07")
def test_a_coordinator_that_is_loading_says_so_and_then_knows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart, with a partition of many slices; every turn of the loop takes time, so that requests come in between."""
    sleep = OwnedTasks.sleep
    monkeypatch.setattr(OwnedTasks, "sleep", lambda tasks, seconds: sleep(tasks, max(seconds, 0.05)))
    loading, owner = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, InitProducerIdResponse()

    async def before(client: Client) -> None:
        nonlocal owner
        await client.create(TOPIC)
        await find(client)
        await init(client)
        owner = await init(client)
        log = client.partition("__transaction_state").log
        number = 0
        while log.segments[-1].size_bytes < 8 * SLICE_BYTES:
            put(client, Transaction(f"other-{number}", number, 0, 60_000, previous_producer_id=number))
            number += 1

    async def after(client: Client) -> None:
        await find(client)
        identity = owner.producer_id, owner.producer_epoch
        assert (await init(client)).error_code == loading
        assert (await end(client, *identity, commit=True)).error_code == loading
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=topics,
        )
        added = await client.ask(adding, 3)
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == loading
        offsets = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=identity[0], producer_epoch=identity[1], group_id="group"
        )
        assert (await client.ask(offsets, 3)).error_code == loading
        described = await client.ask(DescribeTransactionsRequest(transactional_ids=[ID]), 0)
        assert described.transaction_states[0].error_code == loading
        assert (await client.ask(ListTransactionsRequest(), 1)).error_code == loading
        produced = await produce(client, batch_of(*identity))
        assert produced[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS  # So a partition's leader says it.
        while (found := await init(client)).error_code == loading:
            await client.broker.runtime.tasks.sleep(0)
        assert (found.error_code, found.producer_id, found.producer_epoch) == (OK, identity[0], 2)

    told(before, after, transaction_state_log_num_partitions="1")


@pytest.mark.parametrize("enabled", [False, True])
def test_two_phase_commit_is_advertised_where_it_is_on(enabled: bool) -> None:
    async def story(client: Client) -> None:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = await client.ask(request, 4)
        shown = {one.api_key: one.max_version for one in answer.api_keys}
        assert shown[ApiKey.INIT_PRODUCER_ID] == (6 if enabled else 5)
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        assert levels["transaction.version"] == 2
        await find(client)
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (await init(client, two_phase=True)).error_code == (OK if enabled else refused)

    told(story, transaction_two_phase_commit_enable=str(enabled).lower())


@pytest.mark.mission("EXT-07")
@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_waits_for_whoever_decides(commit: bool) -> None:
    """It outlives its client, the broker and any timeout; then another process ends it."""
    given: list[int] = []

    async def before(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        owner = await init(client, two_phase=True)
        given.append(owner.producer_id)
        assert (await produce(client, batch_of(owner.producer_id, 0)))[0].error_code == OK

    async def after(client: Client) -> None:
        await client.broker.runtime.tasks.sleep(1000)  # Longer than transaction.max.timeout.ms.
        client = await client.another()
        await find(client)
        kept = await init(client, two_phase=True, keep=True)
        assert (kept.error_code, kept.producer_epoch) == (OK, 1)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (given[0], 0)
        assert (await end(client, given[0], 0, commit=commit)).error_code == ErrorCode.PRODUCER_FENCED
        assert client.partition(TOPIC).log.last_stable_offset == 0
        ended = await end(client, given[0], 1, commit=commit)
        assert (ended.error_code, ended.producer_epoch) == (OK, 2)
        assert client.partition(TOPIC).log.last_stable_offset == 2

    told(before, after, transaction_two_phase_commit_enable="true")


def test_a_topic_that_is_deleted_needs_no_marker() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        owner = await init(client)
        assert (await produce(client, batch_of(owner.producer_id, 0)))[0].error_code == OK
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
        assert (await end(client, owner.producer_id, 0, commit=True)).error_code == OK
        shown = await client.ask(DescribeTransactionsRequest(transactional_ids=[ID]), 0)
        assert shown.transaction_states[0].transaction_state == "CompleteCommit"

    told(story)


def test_offsets_that_are_deleted_need_no_marker() -> None:
    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        await client.ask(FindCoordinatorRequest(coordinator_keys=["group"], key_type=0), 5)
        owner = await init(client)
        joined = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=owner.producer_id, producer_epoch=0, group_id="group"
        )
        assert (await client.ask(joined, 3)).error_code == OK
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")]), 6)
        assert (await end(client, owner.producer_id, 0, commit=True)).error_code == OK
        assert states_written(client)[-1] is TransactionState.COMPLETE_COMMIT

    told(story)


def test_what_a_later_coordinator_was_said_to_lead_is_not_called_complete_while_it_is_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Markers from outside may name any coordinator epoch. Ours are refused from then on: the records stay hidden, and the
    transaction must not be complete all the same."""

    def marker(producer_id: int, epoch: int) -> WriteTxnMarkersRequest:
        topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
        one = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=True,
            topics=topics,
            coordinator_epoch=5,
        )
        return WriteTxnMarkersRequest(markers=[one])

    async def story(client: Client) -> None:
        await client.create(TOPIC)
        await find(client)
        owner = (await init(client)).producer_id
        assert (await produce(client, batch_of(owner, 0)))[0].error_code == OK
        await client.ask(marker(owner, 0), 1)
        assert (await produce(client, batch_of(owner, 0, 1)))[0].error_code == OK
        assert (await end(client, owner, 0, commit=True, version=4)).error_code == OK
        await client.broker.runtime.tasks.sleep(60)
        assert states_written(client)[-1] is TransactionState.PREPARE_COMMIT
        assert client.partition(TOPIC).log.last_stable_offset == 2
        assert [line for line in caplog.messages if "do not take the marker" in line]
        await client.ask(marker(owner, 0), 1)
        await client.broker.runtime.tasks.sleep(2)
        assert states_written(client)[-1] is TransactionState.COMPLETE_COMMIT
        assert client.partition(TOPIC).log.last_stable_offset == 4

    with caplog.at_level(logging.WARNING):
        told(story)


def test_an_open_transaction_keeps_its_time_limit_though_the_clock_was_set() -> None:
    """What is written down is the wall clock's time: a broker started after the clock was set reads it by that clock."""

    async def begin(client: Client) -> None:
        clock = client.broker.runtime.clock
        assert isinstance(clock, SimulatedClock)
        await client.create(TOPIC)
        await find(client)
        clock.jump(3_600_000)
        mine = await init(client)
        (answer,) = await produce(client, batch_of(mine.producer_id, mine.producer_epoch))
        assert answer.error_code == OK

    async def after(client: Client) -> None:
        clock = client.broker.runtime.clock
        asked = DescribeTransactionsRequest(transactional_ids=[ID])
        state = (await client.ask(asked)).transaction_states[0]
        assert state.transaction_state == "Ongoing"
        assert 0 <= clock.now_ms() - state.transaction_start_time_ms < 60_000

    told(begin, after)
