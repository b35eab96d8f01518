"""Workers and brokers that are killed, with real clients and real databases: in the end every row is as in the model.

Method: a life counts its steps (every statement, commit, poll, seek, send) and kills itself with SIGKILL at one of them; the
next life goes on; the last one is left alone. The kills of a test are spread over all steps a life has. Then rows and totals
are compared one by one with the topic. `make campaign` plays 1,000 rounds of each.
"""

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.compat.compat_kit import BrokerProcess
from support.once.once_story import Rounds, Zygote, world

World = tuple[BrokerProcess, list[int], Zygote]


@pytest.fixture(scope="module")
def the_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("kills")) as made:
        yield made


@pytest.fixture
def rounds(request: pytest.FixtureRequest, the_world: World, database_url: str) -> Iterator[Rounds]:
    broker, ends, zygote = the_world
    played = Rounds(broker.bootstrap, database_url, ends, zygote)
    played.names = re.sub(r"[^\w.-]", "-", request.node.name)  # They name topics as well.
    yield played
    played.engine.dispose()


def play(rounds: Rounds, kind: str, count: int) -> None:
    for seed in range(count):
        rounds.play(kind, seed, of=count)
    assert rounds.kills >= count


@pytest.mark.mission("CID-06", "CID-10", "EX-06")
def test_positions_with_results(rounds: Rounds) -> None:
    play(rounds, "sink", 4)


@pytest.mark.mission("CID-08")
def test_the_inbox(rounds: Rounds) -> None:
    play(rounds, "inbox", 2)


@pytest.mark.mission("CID-05")
def test_message_ids(rounds: Rounds) -> None:
    """The topic repeats ids as well: no repeat and no loss, since mark and work are one transaction."""
    play(rounds, "claims", 2)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # The store is tried on both above.
def test_message_ids_of_work_elsewhere(rounds: Rounds) -> None:
    """Claim, work, done: nothing is lost, and at most one message is repeated for each kill."""
    play(rounds, "leases", 1)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # Any database does: only offsets matter.
@pytest.mark.mission("CID-03")
def test_the_worker_pool_loses_nothing(rounds: Rounds) -> None:
    play(rounds, "pool", 2)


@pytest.mark.mission("CID-09")
def test_the_outbox(rounds: Rounds) -> None:
    play(rounds, "outbox", 2)


@pytest.mark.parametrize("part", [0.4, 0.8])
def test_a_frozen_worker_wakes_up_late(rounds: Rounds, part: float) -> None:
    """It stops in the middle, also inside a transaction; another one counts the rest; then it goes on."""
    name = rounds.names
    freeze_at = int(rounds.span("sink") * part)
    frozen = rounds.zygote.start(rounds.life("sink", name, freeze_at=freeze_at, assign=True))
    wait_for_state(frozen, "T")
    other = rounds.zygote.start(rounds.life("sink", name, assign=True))
    end = time.monotonic() + 1.0  # The other one may be waiting for a lock the frozen one holds.
    while time.monotonic() < end and state_of(other) not in ("Z", "X"):
        time.sleep(0.02)
    os.kill(frozen, signal.SIGCONT)
    assert rounds.zygote.wait(other)[0] == 0
    assert rounds.zygote.wait(frozen)[0] == 0
    rounds.compare("sink", name)


def test_three_workers_at_once_count_once(rounds: Rounds) -> None:
    """Without a group, all of them read everything: each batch is counted by the one that moves the position."""
    name = rounds.names
    workers = [rounds.zygote.start(rounds.life("sink", name, assign=True)) for _ in range(3)]
    for worker in workers:
        assert rounds.zygote.wait(worker)[0] == 0
    rounds.compare("sink", name)


@pytest.mark.parametrize("kind", ["sink", "outbox"])
def test_the_broker_is_killed(rounds: Rounds, the_world: World, kind: str) -> None:
    """At any moment of a life; it comes back with its data, and the worker goes on by itself."""
    kill_the_broker(rounds, the_world, kind)


@pytest.mark.parametrize(
    "database_url", ["sqlite"], indirect=True
)  # What the broker's end does to clients is tried above.
@pytest.mark.parametrize("kind", ["inbox", "claims", "leases"])
def test_the_broker_is_killed_under_an_inbox_and_under_claims(
    rounds: Rounds, the_world: World, kind: str
) -> None:
    """Nothing is lost; and since no worker died, no claimed work is repeated."""
    kill_the_broker(rounds, the_world, kind)


def kill_the_broker(rounds: Rounds, the_world: World, kind: str) -> None:
    broker, _, zygote = the_world
    dice = random.Random(kind)
    worker = zygote.start(rounds.life(kind, rounds.names))
    time.sleep(dice.random() * 0.3)  # Anywhere: no particular moment is waited for.
    broker.kill()
    broker.start()
    assert zygote.wait(worker)[0] == 0
    rounds.compare(kind, rounds.names)


def state_of(pid: int) -> str:
    """The letter the kernel gives a process: T stopped, Z ended and not yet waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


def wait_for_state(pid: int, wanted: str) -> None:
    end = time.monotonic() + 60
    while (state := state_of(pid)) != wanted:
        assert state not in ("Z", "X"), "it ended before it froze"
        assert time.monotonic() < end
        time.sleep(0.01)
