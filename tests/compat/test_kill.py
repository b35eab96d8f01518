"""A broker that is killed, and one that stands still, under the load of every client at once.

Method: `semel broker` runs in a process of its own. Four clients send to their own topics, idempotent and with five in
flight, while it gets kill -9 or SIGSTOP at moments the dice choose, and comes back. The files must hold every record
once and in order, and every offset a client was told must be the record's own.
"""

import random
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from support.compat.compat_clients import PYTHON_CLIENTS, Client
from support.compat.compat_kit import BrokerProcess, eventually, numbered, stored

RECORDS = 12_000
PARTITIONS = 3
SENT = numbered(RECORDS, PARTITIONS)


def send(client: Client, bootstrap: str) -> list[int]:
    return client.produce(bootstrap, f"by-{client.name}", SENT, lossy=True, batch_bytes=400)


def check(directory: Path, topic: str, offsets: Sequence[int]) -> None:
    """Each record once, in order, at the offset the client was told."""
    for partition in range(PARTITIONS):
        held = stored(directory, topic, partition)
        assert [record.value for record in held] == [r.value for r in SENT if r.partition == partition]
        told = [o for o, record in zip(offsets, SENT, strict=True) if record.partition == partition]
        assert told == [record.offset for record in held]


def all_begun(directory: Path, names: Sequence[str]) -> bool:
    return all(any(path.stat().st_size for path in directory.glob(f"by-{name}-*/*.log")) for name in names)


def moved_on(directory: Path, goal: int, loads: Sequence[Future[list[int]]]) -> bool:
    return progress(directory) >= goal or all(load.done() for load in loads)


def progress(directory: Path) -> int:
    """Bytes in the logs of the clients' topics."""
    return sum(path.stat().st_size for path in directory.glob("by-*/*.log"))


def ways_to_suffer(broker: BrokerProcess) -> list[Callable[[float], None]]:
    def killed(pause_seconds: float) -> None:
        broker.kill()
        time.sleep(pause_seconds)
        broker.start()

    def frozen(pause_seconds: float) -> None:
        broker.signal(signal.SIGSTOP)
        time.sleep(1 + pause_seconds)  # The clients' request timeout is 1 s.
        broker.signal(signal.SIGCONT)

    return [killed, frozen, killed, killed]


@pytest.mark.java
def test_nothing_is_lost_or_doubled_when_the_broker_is_killed_under_load(
    tmp_path: Path, java_client: Client
) -> None:
    dice = random.Random(7)
    with (
        BrokerProcess(tmp_path / "data", num_partitions=str(PARTITIONS)) as broker,
        # In processes of their own: kafka-python forgets to close sockets that were refused.
        ProcessPoolExecutor(len(PYTHON_CLIENTS), mp_context=get_context("spawn")) as processes,
        ThreadPoolExecutor(1) as threads,
    ):
        loads = {client.name: processes.submit(send, client, broker.bootstrap) for client in PYTHON_CLIENTS}
        loads[java_client.name] = threads.submit(send, java_client, broker.bootstrap)
        # A client that finds no broker at its start may give up at once: let all begin.
        eventually(partial(all_begun, broker.directory, list(loads)), "every client has sent something", 90)
        under_load = 0
        for strike in ways_to_suffer(broker):
            goal = progress(broker.directory) + dice.randrange(20_000, 60_000)
            eventually(
                partial(moved_on, broker.directory, goal, list(loads.values())), "the clients go on", 90
            )
            under_load += not all(load.done() for load in loads.values())
            strike(dice.uniform(0, 0.3))
        for name, load in loads.items():
            check(broker.directory, f"by-{name}", load.result(120))
        assert under_load >= 2, "the clients were done too early for this to say anything"
