"""A disk and a clock that misbehave as they are told, and a broker on them that keeps what it acknowledged.

Method: files and clock alone, in a directory; then a broker's process that is given one harm after the other while a producer
writes, and whose next life must have every acknowledged record.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel import Consumer, Producer, TopicPartition
from semel.exceptions import KafkaException
from semel.log import names
from semel.runtime.clock import RealClock
from semel.verify.faults.harm import Harm, Harmed, HarmedClock, HarmedFiles, HarmError
from semel.verify.faults.harmed_process import HarmedBroker

NOTES = TopicPartition("notes", 0)
HOUR_MS = 3_600_000
QUICK = {"num.partitions": "1", "offsets.topic.num.partitions": "1"}


class KilledError(Exception):
    """In place of kill -9."""


def kill() -> None:
    raise KilledError


def test_a_full_disk_takes_half_and_refuses_until_it_is_not_full(tmp_path: Path) -> None:
    harmed = Harmed(Harm())
    files = HarmedFiles(harmed)
    path = str(tmp_path / "log")
    file = files.open(path, create=True)
    file.write_at(0, b"0123")
    harmed.harm = Harm(full=True)
    with pytest.raises(OSError, match="No space left") as refused:
        file.write_all_at(4, [b"45", b"67"])
    assert refused.value.errno == errno.ENOSPC
    assert file.read_at(0, 100) == b"012345"
    file.write_at(0, b"abcd")  # In place: nothing more is needed.
    file.truncate(4)
    with pytest.raises(OSError, match="No space left"):
        files.open(str(tmp_path / "new"), create=True)
    with pytest.raises(OSError, match="No space left"):
        files.make_directory(str(tmp_path / "folder"))
    assert files.free_bytes(path) == 0
    harmed.harm = Harm()
    file.write_at(4, b"4567")
    assert file.read_at(0, 100) == b"abcd4567"
    assert files.free_bytes(path) > 0


def test_a_write_is_torn_after_so_many_and_kills(tmp_path: Path) -> None:
    harmed = Harmed(Harm(tear_after=2, tear_share=0.75), die=kill)
    file = HarmedFiles(harmed).open(str(tmp_path / "log"), create=True)
    file.write_at(0, b"aaaa")
    file.write_all_at(4, [b"bb", b"bb"])
    with pytest.raises(KilledError):
        file.write_at(8, b"cccc")
    assert (tmp_path / "log").read_bytes() == b"aaaabbbbccc"


def test_a_slow_disk_makes_everybody_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("semel.verify.faults.harm.time.sleep", waited.append)
    files = HarmedFiles(Harmed(Harm(write_seconds=0.25, sync_seconds=2.0)))
    file = files.open(str(tmp_path / "log"), create=True)
    file.write_at(0, b"0123")
    file.write_all_at(4, [b"45"])
    assert file.read_at(0, 10) == b"012345"
    file.sync()
    files.sync_directory(str(tmp_path))
    assert waited == [0.25, 0.25, 0.25, 2.0, 2.0]


def test_only_the_wall_clock_jumps() -> None:
    true = RealClock()
    clock = HarmedClock(Harmed(Harm(clock_ms=-HOUR_MS)))
    assert clock.now_ms() - true.now_ms() < -HOUR_MS + 60_000
    before = true.monotonic()
    assert before <= clock.monotonic() <= true.monotonic()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("full", "says nothing of a harm"),
        ('{"fulll": true}', "fulll"),
        ('{"write_seconds": 61}', "not between 0 and 60 s"),
        ('{"tear_share": 1}', "from 0 to below 1"),
    ],
)
def test_a_wrong_order_says_what_is_wrong(line: str, why: str) -> None:
    with pytest.raises(HarmError, match=why):
        Harm.from_line(line)
    assert Harm.from_line(Harm(full=True).to_line()) == Harm(full=True)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HarmedBroker]:
    broker = HarmedBroker(tmp_path / "data", QUICK)
    broker.start()
    yield broker
    broker.kill()


def write(broker: HarmedBroker, values: list[bytes], *, patience_ms: int = 60_000) -> list[bytes]:
    """What of these was acknowledged."""
    acknowledged = []
    with Producer(
        bootstrap_servers=broker.bootstrap,
        delivery_timeout_ms=patience_ms,
        request_timeout_ms=patience_ms // 2,
        linger_ms=0,
    ) as producer:
        for value in values:
            try:
                producer.send(NOTES.topic, value, partition=NOTES.partition).result()
            except KafkaException:
                continue
            acknowledged.append(value)
    return acknowledged


def stored(broker: HarmedBroker) -> list[tuple[bytes, int]]:
    """Values and timestamps of what is there."""
    found: list[tuple[bytes, int]] = []
    with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([NOTES])
        consumer.seek_to_beginning([NOTES])
        end = consumer.end_offsets([NOTES])[NOTES]
        while consumer.position(NOTES) < end:
            found += [(record.value, record.timestamp) for record in consumer.poll(timeout_ms=1000)]
    return found


def test_a_broker_lives_through_a_full_disk_and_dies_of_a_torn_write(
    broker: HarmedBroker, tmp_path: Path
) -> None:
    kept = write(broker, [b"first"])
    broker.harm(Harm(full=True))
    assert write(broker, [b"refused"], patience_ms=600) == []
    broker.heal()
    kept += write(broker, [b"second"])
    assert [value for value, _ in stored(broker)] == kept == [b"first", b"second"]

    log = tmp_path / "data" / "notes-0" / names.file_name(0, names.LOG)
    before = log.stat().st_size
    broker.harm(Harm(tear_after=0, tear_share=0.5))
    assert write(broker, [b"torn"], patience_ms=600) == []
    assert broker.is_dead_within(30)
    assert log.stat().st_size > before, "a part of the write is in the file"
    age = broker.age_seconds
    broker.kill()
    broker.start()
    assert age > broker.age_seconds > 0, "a new life"
    assert log.stat().st_size == before, "and cut off by the next life"
    assert [value for value, _ in stored(broker)] == kept


@pytest.mark.campaign
def test_the_clock_of_a_broker_stays_wrong_over_a_restart(broker: HarmedBroker) -> None:
    broker.harm(Harm(clock_ms=-2 * HOUR_MS))
    assert write(broker, [b"from the future"]) == [], "more than an hour ahead of the broker's clock"
    broker.harm(Harm(clock_ms=HOUR_MS))
    assert write(broker, [b"from the past"]) == [b"from the past"]
    broker.kill()
    broker.start()
    assert broker.clock_ms == HOUR_MS
    assert [value for value, _ in stored(broker)] == [b"from the past"]


def test_a_broker_ends_with_whoever_started_it(broker: HarmedBroker) -> None:
    assert broker._child is not None
    stdin = broker._child._process.stdin
    assert stdin is not None
    stdin.close()
    assert broker.is_dead_within(30)
