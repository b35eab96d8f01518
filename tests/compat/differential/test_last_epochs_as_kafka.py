"""Producer ids whose epochs run out: the next id, and the retry of the last end, as in Apache Kafka 4.3.1.

Method: nobody waits for 32,767 epochs. Rows with the last ones are written into `__transaction_state` of both brokers, as
Kafka lets its admin tools do; both are started again, load them, and are told the same stories.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.differential.comparison import kafka_side, semel_side
from compat.differential.exchange import Side
from compat.differential.transaction_stories import Both, Who
from semel.broker.coordinators.java_hash import partition_for
from semel.core.records.build import build_batch
from semel.core.transactions.rows import FORMAT, row_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import EPOCH_LAST, TRANSACTIONS_V1, TRANSACTIONS_V2, Transaction
from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome

pytestmark = [pytest.mark.java, pytest.mark.mission("FEN-02")]
SETTINGS = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
OK = ErrorCode.NONE
NOW_MS = 1_790_000_000_000
FIRST_ID = 500_000
OLD = (
    ("init", EPOCH_LAST - 1, TRANSACTIONS_V1),
    ("named", EPOCH_LAST, TRANSACTIONS_V2),
    ("v1", EPOCH_LAST - 1, TRANSACTIONS_V1),
    ("v2", EPOCH_LAST - 1, TRANSACTIONS_V2),
    ("fence-v1", EPOCH_LAST - 1, TRANSACTIONS_V1),
    ("fence-v2", EPOCH_LAST - 1, TRANSACTIONS_V2),
    ("before", EPOCH_LAST - 2, TRANSACTIONS_V2),
)


@pytest.fixture(scope="module")
def both(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("last-epochs")
    with sides(kafka_home, directory) as pair:
        pair.find("init", 1)
        pair.find("group", 0)
        pair.create("orders", 3)
        for _ in range(2):  # Ids that are given out later are higher than any of a row.
            pair.introduce("anybody")
        for number, (transactional_id, epoch, client_version) in enumerate(OLD):
            for side in (pair.ours, pair.theirs):
                write(side, old(transactional_id, FIRST_ID + number, epoch, client_version))
        topic_ids = [dict(side.topic_ids) for side in (pair.ours, pair.theirs)]
    with sides(kafka_home, directory) as pair:
        pair.ours.topic_ids, pair.theirs.topic_ids = topic_ids
        for number, (transactional_id, _epoch, _version) in enumerate(OLD):
            pair.find(transactional_id, 1)
            for side in (pair.ours, pair.theirs):
                pair.names[side.name, FIRST_ID + number] = f"id of {transactional_id}"
        yield pair


@contextlib.contextmanager
def sides(kafka_home: KafkaHome, directory: Path) -> Iterator[Both]:
    with (
        semel_side(directory / "semel", **SETTINGS) as ours,
        kafka_side(kafka_home, directory / "kafka", **SETTINGS) as theirs,
    ):
        yield Both(ours, theirs)


def old(transactional_id: str, producer_id: int, epoch: int, client_version: int) -> Transaction:
    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms=60_000,
        state=TransactionState.COMPLETE_COMMIT,
        start_ms=NOW_MS,
        last_update_ms=NOW_MS,
        previous_producer_id=producer_id,
        client_version=client_version,
    )


def write(side: Side, row: Transaction) -> None:
    """As Kafka's own tools may."""
    records = build_batch([FORMAT.encode(row_of(row), NOW_MS)])
    data = PartitionProduceData(index=partition_for(row.transactional_id, 50), records=records)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name="__transaction_state", partition_data=[data])],
    )
    answer = side.ask_bytes(framing.request_frame(RequestHeader(0, 9, 0, "__admin_client"), request))
    assert isinstance(answer, bytes)
    _correlation_id, position = framing.read_response_header(answer, 1)
    [found] = ProduceResponse.decode(answer, 9, position).responses[0].partition_responses
    assert found.error_code == OK, f"{side.name}: {found}"


def owner(both: Both, transactional_id: str) -> Who:
    """Whoever introduces itself with the epoch before the last gets the last."""
    who = both.introduce(transactional_id)
    assert who.epoch == EPOCH_LAST
    return who


def begin(both: Both, who: Who, version: int) -> None:
    if version < 12:
        both.add(who, ("orders", 0))
    assert both.produce(who, ("orders", 0), version=version)[0][0] == OK


def test_who_introduces_itself_after_the_last_epoch_gets_a_new_id(both: Both) -> None:
    owner(both, "init")
    assert both.init("init") == (OK, "new", 0)
    assert both.init("init") == (OK, "new", 1)
    both.describe("init")


def test_who_names_the_last_epoch_gets_a_new_id_and_its_retry_the_same(both: Both) -> None:
    known = Who("named", {"Semel": FIRST_ID + 1, "Kafka": FIRST_ID + 1}, EPOCH_LAST)
    assert both.init("named", known) == (OK, "new", 0)
    both.init("named", known)
    both.init("named", known.at(EPOCH_LAST - 1))
    both.describe("named")


def test_v1_ends_with_the_last_epoch(both: Both) -> None:
    who = owner(both, "v1")
    for commit in (True, False):
        begin(both, who, 11)
        assert both.end(who, commit=commit, version=4)[0] == OK
        both.describe("v1")
    assert both.init("v1") == (OK, "new", 0)
    both.end(who, commit=False, version=4)
    both.add(who, ("orders", 0))
    both.produce(who, ("orders", 0), version=11)
    both.describe("v1")


@pytest.mark.parametrize(("transactional_id", "commit"), [("v2", True), ("before", False)])
def test_the_end_of_v2_gives_the_next_id_and_knows_its_retry(
    both: Both, transactional_id: str, commit: bool
) -> None:
    who = both.introduce(transactional_id)
    while who.epoch < EPOCH_LAST:
        begin(both, who, 12)
        assert both.end(who, commit=commit, version=5)[0] == OK
    begin(both, who, 12)
    last = who.at(who.epoch)
    assert both.end(who, commit=commit, version=5) == (OK, "new", 0)
    assert both.end(last, commit=commit, version=5, take=False) == (OK, "new", 0)
    if commit:  # Of a commit that finds an abort Kafka says something else, and that is meant.
        both.end(last, commit=False, version=5, take=False)
    both.end(last.at(EPOCH_LAST - 1), commit=commit, version=5, take=False)
    both.produce(last, ("orders", 0), version=12)
    both.describe(transactional_id)
    begin(both, who, 12)
    assert both.end(who, commit=True, version=5) == (OK, "new", 1)
    both.describe(transactional_id)


@pytest.mark.parametrize(("transactional_id", "version"), [("fence-v1", 11), ("fence-v2", 12)])
def test_who_is_fenced_at_the_last_epoch_leaves_a_new_id_behind(
    both: Both, transactional_id: str, version: int
) -> None:
    who = owner(both, transactional_id)
    begin(both, who, version)
    assert both.init(transactional_id, retry=False)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    found = both.init(transactional_id)
    assert found[:2] == (OK, "new")
    for end_version in range(5):
        both.end(who, commit=True, version=end_version)
    both.produce(who, ("orders", 0), version=version)
    both.add(who, ("orders", 0))
    both.describe(transactional_id)
