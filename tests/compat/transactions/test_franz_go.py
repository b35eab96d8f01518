"""franz-go, the Go client: idempotent records, transactions (v2), consume-transform-produce, fencing, both kinds of readers.

Method: small programs written as its users write them (`tests/go/franz`) run against one broker; what they did is read from
the log's files, and by other clients. Skipped where Go is not installed.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.compat.compat_kit import ThreadBroker, batches, eventually, stored
from support.peers import franz_go
from support.transactions.transaction_clients import committed_offset, end_offset, read

PARTITIONS = 3
RECORDS = 600
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    """One that lets a group begin with the member it has."""
    with ThreadBroker(
        tmp_path_factory.mktemp("franz"),
        num_partitions=str(PARTITIONS),
        group_initial_rebalance_delay_ms="0",
    ) as running:
        yield running


@pytest.fixture
def run(franz_program: Path, broker: ThreadBroker) -> Run:
    """Run one of its programs to its end."""

    def ran(name: str, *arguments: object) -> list[dict[str, Any]]:
        return franz_go.told(franz_go.start(franz_program, name, broker.bootstrap, *map(str, arguments)))

    return ran


def franz_reads(
    run: Run, broker: ThreadBroker, topic: str, partition: int, *, committed: bool
) -> list[bytes]:
    end = end_offset(broker.bootstrap, topic, partition, committed=committed)
    isolation = "read_committed" if committed else "read_uncommitted"
    [got] = run("read", topic, partition, end, isolation)
    return [value.encode() for value in got["values"]]


@pytest.mark.mission("EXT-02")
def test_idempotent_records_are_stored_once_in_order(run: Run, broker: ThreadBroker, topic: str) -> None:
    [done] = run("produce", topic, PARTITIONS, RECORDS)
    assert done["offsets"] == [number // PARTITIONS for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        expected = [b"%d" % number for number in range(partition, RECORDS, PARTITIONS)]
        assert [record.value for record in stored(broker.directory, topic, partition)] == expected
        assert franz_reads(run, broker, topic, partition, committed=True) == expected
        next_sequence = 0
        for header, _records in batches(broker.directory, topic, partition):
            assert header.producer_id >= 0
            assert header.base_sequence == next_sequence
            next_sequence = header.last_sequence + 1


def test_readers_see_what_was_committed(run: Run, broker: ThreadBroker, topic: str) -> None:
    told = run("transact", topic, f"of {topic}", "cacac")
    epochs = [one["producer_epoch"] for one in told]
    assert len({one["producer_id"] for one in told}) == 1
    assert epochs == list(range(epochs[0], epochs[0] + 5))  # v2: every end gives the next epoch.
    for partition in (0, 1):
        assert franz_reads(run, broker, topic, partition, committed=True) == [b"0", b"2", b"4"]
        assert read(broker.bootstrap, topic, partition, committed=True) == [b"0", b"2", b"4"]
        everything = [b"%d" % number for number in range(5)]
        assert franz_reads(run, broker, topic, partition, committed=False) == everything
        markers = [
            header for header, _records in batches(broker.directory, topic, partition) if header.is_control
        ]
        assert [one.producer_epoch for one in markers] == [epoch + 1 for epoch in epochs]


def test_a_client_that_closed_is_followed_by_one_that_goes_on(
    run: Run, broker: ThreadBroker, topic: str
) -> None:
    """What the first left open is aborted when the second introduces itself."""
    run("transact", topic, f"of {topic}", "co")
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"0"]
    run("transact", topic, f"of {topic}", "c")
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"0", b"0"]
    eventually(
        lambda: (
            end_offset(broker.bootstrap, topic, 0, committed=True)
            == end_offset(broker.bootstrap, topic, 0, committed=False)
        ),
        "the last stable offset moved on",
    )


def test_the_second_instance_fences_the_first(run: Run, broker: ThreadBroker, topic: str) -> None:
    [told] = run("fence", topic, f"of {topic}")
    assert told["fenced"], told
    assert told["owner"] == ""
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"1"]


def test_consume_transform_produce(franz_program: Path, run: Run, broker: ThreadBroker, topic: str) -> None:
    """Two workers of one group that abort a third of their transactions, and a third that finishes: each input once."""
    source, target, group = f"{topic}-in", f"{topic}-out", f"group of {topic}"
    run("produce", source, PARTITIONS, RECORDS)
    workers: list[subprocess.Popen[str]] = [
        franz_go.start(
            franz_program,
            *("copy", broker.bootstrap, source, target, group),
            *(f"worker {seed} of {topic}", str(RECORDS // 3), str(seed)),
        )
        for seed in (1, 2)
    ]
    told = [franz_go.told(worker) for worker in workers]
    assert any(one["aborted"] for worker in told for one in worker), "nothing was aborted on the way"
    left = RECORDS - sum(worker[-1]["committed"] for worker in told)
    run("copy", source, target, group, f"worker 3 of {topic}", left, 0)
    for partition in range(PARTITIONS):
        expected = [b"%d" % number for number in range(partition, RECORDS, PARTITIONS)]
        assert read(broker.bootstrap, target, partition, committed=True) == expected
        assert committed_offset(broker.bootstrap, group, source, partition) == len(expected)
