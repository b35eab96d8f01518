"""What a producer's session is worth: what is recognised within one, and what only a transactional id carries over.

Method: the public producer on a real broker; the partition's files say how many copies there are, other clients say what is
visible.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import semel
from semel.cli.main import cli
from semel.core.wire.registry import ApiKey
from semel.verify.fault_proxy import Fate, FaultProxy
from support.compat.compat_kit import ThreadBroker, batches, eventually, values
from support.transactions.transaction_clients import read

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    with ThreadBroker(
        tmp_path_factory.mktemp("data"), num_partitions="3", transaction_two_phase_commit_enable="true"
    ) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


def producer(broker: ThreadBroker, transactional_id: str | None = None, **settings: Any) -> semel.Producer:
    if transactional_id is not None:
        settings["transactional_id"] = transactional_id
    return semel.Producer(bootstrap_servers=broker.bootstrap, **settings)


def identity(sending: semel.Producer) -> tuple[int, int]:
    delivery: Any = sending._engine.sender.delivery
    return delivery.producer_id, delivery.producer_epoch


def visible(broker: ThreadBroker, topic: str) -> list[bytes]:
    return read(broker.bootstrap, topic, 0, committed=True)


@pytest.mark.mission("IDEM-06", "FEN-08", "FEN-09", "IDEM-18", "R-04", "R-49")
def test_a_restarted_producer_is_another_one_unless_it_has_a_transactional_id(
    broker: ThreadBroker, topic: str
) -> None:
    for _ in range(2):  # The application sends again what it sent before its restart.
        with producer(broker) as plain:
            plain.send(topic, b"once more", partition=0).result(30)
    assert values(broker.directory, topic) == [b"once more"] * 2, "the documented limit"
    first, second = (header for header, _records in batches(broker.directory, topic))
    assert first.producer_id != second.producer_id
    assert first.base_sequence == second.base_sequence == 0

    other = f"{topic}-transactional"
    crashed = producer(broker, other)
    crashed.init_transactions()
    crashed.begin_transaction()
    crashed.send(other, b"once", partition=0).result(30)
    restarted = producer(broker, other)
    restarted.init_transactions()
    with restarted.transaction():
        restarted.send(other, b"once", partition=0)
    assert values(broker.directory, other).count(b"once") == 2, "both are in the log"
    assert visible(broker, other) == [b"once"], "and one is seen"
    assert identity(crashed)[0] == identity(restarted)[0]
    with (
        restarted.transaction()
    ):  # Work that was committed, sent again without its position in the transaction.
        restarted.send(other, b"once", partition=0)
    eventually(lambda: visible(broker, other) == [b"once"] * 2, "the repeat nothing can know of")
    crashed.close()
    restarted.close()


@pytest.mark.mission("IDEM-31")
def test_every_introduction_has_the_next_epoch(broker: ThreadBroker, topic: str) -> None:
    seen = []
    for _ in range(3):
        with producer(broker, topic) as sending:
            sending.init_transactions()
            seen.append(identity(sending))
    producer_id, epoch = seen[0]
    assert seen == [(producer_id, epoch), (producer_id, epoch + 1), (producer_id, epoch + 2)]


@pytest.mark.mission("IDEM-17")
def test_every_partition_counts_for_itself(broker: ThreadBroker, topic: str) -> None:
    with producer(broker, linger_ms=0) as sending:
        for n in range(12):
            sending.send(topic, b"%d" % n, partition=n % 3).result(30)
    for partition in range(3):
        sequences = [header.base_sequence for header, _records in batches(broker.directory, topic, partition)]
        assert sequences == [0, 1, 2, 3]


def test_an_introduction_aborts_what_was_left_open(broker: ThreadBroker, topic: str) -> None:
    left = producer(broker, topic)
    left.initTransactions()
    left.beginTransaction()
    left.send(topic, b"left open", partition=0).result(30)
    with producer(broker, topic) as sending:
        sending.init_transactions()
        assert visible(broker, topic) == []
        assert identity(sending)[0] >= 0
        with sending.transaction():
            sending.send(topic, b"seen", partition=0)
        eventually(lambda: visible(broker, topic) == [b"seen"], "only that")
    left.close()


@pytest.mark.mission("TXN-05", "TXP-05")
def test_to_begin_says_nothing_to_anybody(broker: ThreadBroker, topic: str) -> None:
    assert broker.broker is not None
    with producer(broker, topic) as sending:
        sending.init_transactions()
        before = broker.broker.parts.metrics.requests.copy()
        sending.begin_transaction()
        sending.abort_transaction()
        sending.begin_transaction()
        sending.commit_transaction()
        assert broker.broker.parts.metrics.requests == before


@pytest.mark.mission("TXN-13")
def test_calls_at_the_wrong_time_say_what_to_do(broker: ThreadBroker, topic: str) -> None:
    with producer(broker, topic) as sending:
        for call in (sending.begin_transaction, sending.commit_transaction, sending.abort_transaction):
            with pytest.raises(semel.IllegalStateException, match="call init_transactions first"):
                call()
        sending.init_transactions()
        with pytest.raises(semel.IllegalStateException, match="called once in a producer's life"):
            sending.init_transactions()
        for outside in (sending.commit_transaction, lambda: sending.send(topic, b"v")):
            with pytest.raises(semel.IllegalStateException, match="call begin_transaction first"):
                outside()
        sending.begin_transaction()
        with pytest.raises(semel.IllegalStateException, match="commit or abort the transaction that is open"):
            sending.begin_transaction()
        with pytest.raises(semel.RecordTooLargeException):
            sending.send(topic, b"x" * (2 << 20))
        with pytest.raises(semel.KafkaException, match="MESSAGE_TOO_LARGE"):
            sending.commit_transaction()
        sending.abort_transaction()


@pytest.mark.mission("TXN-07")
def test_a_commit_stores_everything_first(broker: ThreadBroker, topic: str) -> None:
    with producer(broker, topic, linger_ms=60_000, delivery_timeout_ms=120_000) as sending:
        sending.init_transactions()
        sending.begin_transaction()
        futures = [sending.send(topic, b"%d" % n, partition=0) for n in range(100)]
        assert not any(future.done() for future in futures)
        sending.commit_transaction()
        assert [future.result(0).offset for future in futures] == list(range(100))
    assert visible(broker, topic) == [b"%d" % n for n in range(100)]


@pytest.mark.mission("TXN-07", "TXN-08")
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_whose_answer_is_lost_is_asked_for_again(
    broker: ThreadBroker, topic: str, commit: bool
) -> None:
    """The broker has done it the first time; the second answer is the same, and the producer goes on."""
    with FaultProxy(broker.bootstrap) as proxy:
        with semel.Producer(
            bootstrap_servers=proxy.bootstrap, transactional_id=topic, retry_backoff_ms=10
        ) as sending:
            sending.init_transactions()
            for value in (b"first", b"second"):
                before = identity(sending)
                sending.begin_transaction()
                sending.send(topic, value, partition=0).result(30)
                proxy.harm("end_txn", "cut_after")
                if commit:
                    sending.commit_transaction()
                else:
                    sending.abort_transaction()
                assert identity(sending) == (before[0], before[1] + 1)
        asked = [one.request() for one in proxy.of(ApiKey.END_TXN)]
        assert [one.fate for one in proxy.of(ApiKey.END_TXN)] == [Fate.CUT_AFTER, Fate.PASS] * 2
        assert asked[0] == asked[1]
        assert asked[2] == asked[3]
    markers = [header for header, _records in batches(broker.directory, topic) if header.is_control]
    assert len(markers) == 2
    assert visible(broker, topic) == ([b"first", b"second"] if commit else [])


@pytest.mark.mission("TXN-08")
def test_an_abort_drops_what_was_not_sent(broker: ThreadBroker, topic: str) -> None:
    """None of it is ever stored: not even for those who read everything."""
    assert broker.broker is not None
    with producer(broker, topic, linger_ms=60_000, delivery_timeout_ms=120_000) as sending:
        sending.init_transactions()
        sending.partitions_for(topic)
        sending.begin_transaction()
        futures = [sending.send(topic, b"%d" % n, partition=n % 3) for n in range(100)]
        before = broker.broker.parts.metrics.requests.copy()
        sending.abort_transaction()
        assert broker.broker.parts.metrics.requests == before
        for future in futures:
            with pytest.raises(semel.TransactionAbortedException):
                future.result(0)
        sending.begin_transaction()
        kept = sending.send(topic, b"kept", partition=0)
        sending.commit_transaction()
        assert kept.result(0).offset == 0
    everything = [read(broker.bootstrap, topic, partition, committed=False) for partition in range(3)]
    assert everything == [[b"kept"], [], []]


def test_a_call_that_waited_in_vain_is_made_again_and_offsets_may_be_given_up(
    broker: ThreadBroker, topic: str
) -> None:
    with producer(broker, topic, max_block_ms=800) as sending:
        eventually(lambda: _is_done(sending.init_transactions), "the id")
        sending.begin_transaction()
        sending.send(topic, b"never", partition=0).result(30)
        broker.freeze(4.0)
        with pytest.raises(semel.TimeoutException, match="while awaiting send_offsets_to_transaction"):
            sending.send_offsets_to_transaction({(topic, 0): 1}, f"group-of-{topic}")
        with pytest.raises(semel.IllegalStateException, match="call that again"):
            sending.commit_transaction()
        with pytest.raises(semel.TimeoutException, match="while awaiting abort_transaction"):
            sending.abort_transaction()
        eventually(lambda: _is_done(sending.abort_transaction), "the abort")
        sending.begin_transaction()
        sending.send(topic, b"seen", partition=0)
        eventually(lambda: _is_done(sending.commit_transaction), "the commit")
    eventually(lambda: visible(broker, topic) == [b"seen"], "only that")


def _is_done(call: Callable[[], object]) -> bool:
    try:
        call()
    except semel.TimeoutException:
        return False
    return True


# Two-phase commit


def two_phase(broker: ThreadBroker, transactional_id: str) -> semel.Producer:
    return producer(broker, transactional_id, transaction_two_phase_commit_enable=True)


@pytest.mark.parametrize("is_decided", [True, False])
def test_a_prepared_transaction_outlives_its_producer_and_is_ended_by_its_name(
    broker: ThreadBroker, topic: str, is_decided: bool
) -> None:
    preparing = two_phase(broker, topic)
    preparing.init_transactions()
    preparing.begin_transaction()
    preparing.send(topic, b"prepared", partition=0)
    state = preparing.prepare_transaction()
    assert state.has_transaction()
    with pytest.raises(semel.IllegalStateException, match="complete, commit or abort"):
        preparing.send(topic, b"more", partition=0)
    preparing.close()
    assert visible(broker, topic) == []

    with two_phase(broker, topic) as back:
        back.init_transactions(keep_prepared_txn=True)
        with pytest.raises(semel.IllegalStateException):
            back.begin_transaction()
        kept = str(state) if is_decided else "12345:6"
        back.completeTransaction(kept)
        expected = [b"prepared"] if is_decided else []
        with back.transaction():
            back.send(topic, b"next", partition=0)
        eventually(lambda: visible(broker, topic) == [*expected, b"next"], "the end that was decided")


def test_a_prepared_transaction_is_listed_and_rolled_back_by_an_operator(
    broker: ThreadBroker, topic: str
) -> None:
    """Nobody who has its state is left: it is found by its id, never ends by itself, and whoever takes the id aborts it."""
    preparing = two_phase(broker, topic)
    preparing.init_transactions()
    preparing.begin_transaction()
    preparing.send(topic, b"prepared", partition=0)
    preparing.prepare_transaction()
    preparing.close()

    def txn(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["txn", *arguments, "-b", broker.bootstrap])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def state() -> str:
        (line,) = [line for line in txn("list").splitlines() if line.startswith(f"{topic} ")]
        return line.split()[2]

    assert state() == "Ongoing"
    _header, told, _none, _heads, partition = txn("describe", topic).splitlines()
    assert told.split()[4] == "none", "its timeout"
    assert partition.split() == [topic, "0"]
    txn("abort", "--transactional-id", topic)
    eventually(lambda: state() in ("CompleteAbort", "Empty"), "the operator's decision is carried out")
    assert visible(broker, topic) == []


def test_two_phase_commit_is_refused_where_it_is_not_there(
    broker: ThreadBroker, topic: str, tmp_path: Any
) -> None:
    with producer(broker, topic) as without:
        without.init_transactions()
        without.begin_transaction()
        with pytest.raises(semel.IllegalStateException, match="2PC is not enabled"):
            without.prepare_transaction()
        without.abort_transaction()
    with (
        ThreadBroker(tmp_path / "data") as older,
        two_phase(older, topic) as refused,
        pytest.raises(semel.UnsupportedVersionException, match="has no two-phase commit"),
    ):
        refused.init_transactions()
    assert semel.PreparedTxnState.of("") == semel.PreparedTxnState()
    with pytest.raises(semel.IllegalArgumentException, match="Invalid serialized transaction state"):
        semel.PreparedTxnState.of("nonsense")
