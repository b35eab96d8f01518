"""How a broker comes back after kill -9 with many transactions in one active segment, beside Apache Kafka.

Role.   The second part of `python -m semel.bench recovery`: transactions that were committed, that were aborted, and that committed a
        group's offset.
Flow.   Both brokers make the topics and are killed -> one segment, written without a broker, is put into the partition's directory
        of each -> rounds of starts on copies, one broker and then the other.
Rules.  * Both recover the same bytes: the formats are one.
        * A start is timed until the broker answers right: a partition's last stable offset is its end and its last aborts are
          listed; the coordinator gives the offset of the last transaction. CPU seconds and memory are those of the process then.
        * The bytes are in the system's page cache.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench.broker_figures import Figure, figure
from semel.bench.broker_lives import Restart
from semel.bench.broker_load import FETCH_VERSION, LoadError, Wire, check
from semel.bench.broker_workloads import KAFKA, SEMEL
from semel.bench.peer import Maker
from semel.bench.transaction_logs import OPEN_TOGETHER, TransactionLog
from semel.broker.coordinators.java_hash import partition_for
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.core.wire.registry import ApiKey
from semel.log.names import LOG, file_name
from semel.peers.processes import clone, cpu_seconds, pid_of, resident_bytes

GROUP: Final = "Transactions"
COMMITS, ABORTS, OFFSETS = "committed", "aborted", "that commit an offset"
_TOPIC: Final = "transactions"
_CONSUMERS: Final = "recovery"
_OFFSETS_PARTITIONS: Final = 50
_READ_COMMITTED: Final = 1
_LIST_OFFSETS_VERSION: Final = 5
_OFFSET_FETCH_VERSION: Final = 5
_FIND_VERSION: Final = 2
_PATIENCE_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.005
_TAIL: Final = 2 * OPEN_TOGETHER  # Offsets at the end that are fetched: their aborts must be listed.


@dataclass(frozen=True, slots=True)
class TransactionCase:
    """So many transactions of a kind."""

    count: int
    kind: str

    @property
    def topic(self) -> str:
        return OFFSETS_TOPIC if self.kind == OFFSETS else _TOPIC

    @property
    def partition(self) -> int:
        return partition_for(_CONSUMERS, _OFFSETS_PARTITIONS) if self.kind == OFFSETS else 0

    def text(self) -> str:
        where = f"in a partition of {OFFSETS_TOPIC}" if self.kind == OFFSETS else "in one partition"
        return f"{self.count:,} transactions {self.kind}, {where}"

    def log(self, now_ms: int) -> TransactionLog:
        def aborts(_number: int) -> bool:
            return self.kind == ABORTS

        if self.kind == OFFSETS:
            return TransactionLog.of_offsets(self.count, _CONSUMERS, _TOPIC, aborts=aborts, now_ms=now_ms)
        return TransactionLog.of_records(self.count, aborts=aborts, now_ms=now_ms)


CASES: Final = (
    TransactionCase(10_000, COMMITS),
    TransactionCase(40_000, COMMITS),
    TransactionCase(1_000_000, COMMITS),
    TransactionCase(1_000_000, ABORTS),
    TransactionCase(1_000_000, OFFSETS),
)
QUICK_CASES: Final = tuple(TransactionCase(20_000, kind) for kind in (COMMITS, ABORTS, OFFSETS))


def prepare(make: Maker, case: TransactionCase, segment: Path, directory: Path) -> None:
    """A directory after kill -9, with this segment as the active one of the case's partition."""
    broker = make(directory)
    try:
        broker.start()
        with Wire(broker.bootstrap) as wire:
            wire.create_topic(_TOPIC)
            if case.kind == OFFSETS:
                _await_coordinator(wire)
                wire.await_leaders(OFFSETS_TOPIC)
    finally:
        broker.kill()
    shutil.copyfile(segment, _segment_in(directory, case))


def _segment_in(directory: Path, case: TransactionCase) -> Path:
    name = f"{case.topic}-{case.partition}"
    found = [path for path in directory.rglob(name) if path.is_dir()]
    if len(found) != 1:
        raise LoadError(f"{directory} has {len(found)} directories {name}, not one")
    return found[0] / file_name(0, LOG)


def _await_coordinator(wire: Wire) -> None:
    """Ask for the group's coordinator, which makes the topic of offsets, until there is one."""
    request = FindCoordinatorRequest(key=_CONSUMERS, key_type=0)
    _until(
        lambda: not wire.ask(ApiKey.FIND_COORDINATOR, request, _FIND_VERSION).error_code,
        f"a coordinator of {_CONSUMERS}",
    )


def restart(make: Maker, case: TransactionCase, prepared: Path, directory: Path) -> Restart:
    """Start on a copy of what was left, until the broker answers as if it had never been killed."""
    clone(prepared, directory)
    segment = _segment_in(directory, case)
    os.unlink(segment)  # Linked; a coordinator may append to its own.
    shutil.copyfile(_segment_in(prepared, case), segment)
    broker = make(directory)
    began = time.perf_counter()
    try:
        broker.start()
        ready = time.perf_counter() - began
        with Wire(broker.bootstrap) as wire:
            (_await_offset if case.kind == OFFSETS else _await_stable)(wire, case)
        answered = time.perf_counter() - began
        pid = pid_of(broker)
        return Restart(ready, answered, cpu_seconds(pid), resident_bytes(pid))
    finally:
        broker.kill()


def _await_stable(wire: Wire, case: TransactionCase) -> None:
    """Until the last stable offset is the log's end; then the aborts at the end must be listed."""
    end_offset = 2 * case.count
    asked = ListOffsetsTopic(name=_TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=_READ_COMMITTED, topics=[asked])

    def is_there() -> bool:
        (found,) = wire.ask(ApiKey.LIST_OFFSETS, request, _LIST_OFFSETS_VERSION).topics[0].partitions
        return not found.error_code and found.offset == end_offset

    _until(is_there, f"the last stable offset {end_offset}")
    start = end_offset - _TAIL
    one = FetchPartition(partition=0, fetch_offset=start, partition_max_bytes=1 << 20)
    answer = wire.ask(
        ApiKey.FETCH,
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=_READ_COMMITTED,
            topics=[FetchTopic(topic=_TOPIC, partitions=[one])],
        ),
        FETCH_VERSION,
    )
    found = answer.responses[0].partitions[0]
    check(f"fetching {_TOPIC} from {start}", found.error_code)
    wanted = min(OPEN_TOGETHER, case.count) if case.kind == ABORTS else 0
    if len(found.aborted_transactions or ()) != wanted:
        raise LoadError(
            f"from offset {start} on {len(found.aborted_transactions or ())} transactions are listed as aborted, not {wanted}"
        )


def _await_offset(wire: Wire, case: TransactionCase) -> None:
    """Until the coordinator gives the offset the last transaction committed. Kafka gives older ones before, without an error."""
    asked = [OffsetFetchRequestTopic(name=_TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=_CONSUMERS, topics=asked)

    def is_there() -> bool:
        answer = wire.ask(ApiKey.OFFSET_FETCH, request, _OFFSET_FETCH_VERSION)
        if answer.error_code:
            return False  # Not loaded yet.
        (found,) = answer.topics[0].partitions
        check(f"fetching the offset of {_CONSUMERS}", found.error_code)
        return found.committed_offset == case.count - 1

    _until(is_there, f"the offset of {_CONSUMERS}")


def _until(is_there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_there():
        if time.monotonic() > deadline:
            raise LoadError(f"{what} was not to be had for {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def measured(makers: Mapping[str, Maker], case: TransactionCase, rounds: int, root: Path) -> list[Figure]:
    """The figures of one case."""
    segment = root / "segment"
    case.log(int(time.time() * 1000)).write(segment)
    seen: dict[str, list[Restart]] = {name: [] for name in makers}
    for name, make in makers.items():
        prepare(make, case, segment, root / name)
    for number in range(rounds):
        for name in makers if number % 2 == 0 else reversed(list(makers)):
            seen[name].append(restart(makers[name], case, root / name, root / "run"))
            shutil.rmtree(root / "run")
    for name in makers:
        shutil.rmtree(root / name)
    segment.unlink()
    answered = "s to the group's offset" if case.kind == OFFSETS else "s to the right last stable offset"

    def both(quantity: str, value: Callable[[Restart], float]) -> Figure:
        semel, kafka = ([value(one) for one in seen.get(name, ())] for name in (SEMEL, KAFKA))
        return figure(GROUP, case.text(), quantity, semel, kafka)

    return [
        both("s until it serves", lambda one: one.ready_seconds),
        both(answered, lambda one: one.first_fetch_seconds),
        both("CPU s until then", lambda one: one.cpu_seconds),
        both("MB resident then", lambda one: one.resident_bytes / 1e6),
    ]


def run_all(
    cases: Sequence[TransactionCase],
    rounds: int,
    root: Path,
    show: Callable[[Sequence[Figure]], object],
    makers: Mapping[str, Maker],
) -> list[Figure]:
    """Every case."""
    made: list[Figure] = []
    for case in cases:
        made += (fresh := measured(makers, case, rounds, root))
        show(fresh)
    return made
