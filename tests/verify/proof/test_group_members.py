"""Members of a group write down what they were given, handed and told; a broken one is found by what they wrote.

Method: real members on a broker inside this process, each life of which is ended by the test. A member that is frozen past its
session loses its partitions and is refused; one whose commits never leave is found by the life after it.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from semel import Admin, Broker, NewTopic, Producer
from semel.verify.history.events import Assigned, Commit, Polled
from semel.verify.proof import group_members
from semel.verify.proof.anomalies import Anomaly
from semel.verify.proof.group_members import CLASSIC, CONSUMER, GroupMember, protocol_settings
from semel.verify.proof.judge import judge
from semel.verify.proof.programs import Stage

TOPIC = "grouped"
SHORT = {"session.timeout.ms": 400, "heartbeat.interval.ms": 50}
FOREVER = float("inf")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_min_session_timeout_ms=100, group_initial_rebalance_delay_ms=0) as running:
        with Admin(bootstrap_servers=running.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 2)])
        with Producer(bootstrap_servers=running.bootstrap) as producer:
            for number in range(20):
                producer.send(TOPIC, f"value {number}".encode(), partition=number % 2)
        yield running


@pytest.fixture
def stage(broker: Broker) -> Stage:
    """Over from the start: nobody is disturbed by chance."""
    began = time.monotonic()
    settings = {"bootstrap.servers": broker.bootstrap, "request.timeout.ms": "5000"}
    return Stage(settings, "run", lambda: time.monotonic() - began, 0.0, 2, 0.01, 1000)


def member(stage: Stage, name: str, group: str, is_done: Callable[[], bool], **settings: Any) -> GroupMember:
    return GroupMember(
        stage, name, TOPIC, group, random.Random(1), lambda: 0.0 if is_done() else FOREVER, settings
    )


def stored(stage: Stage, process: str) -> dict[int, int]:
    """How far a member's commits were stored."""
    return {
        event.partition: event.offset
        for event in stage.history
        if isinstance(event, Commit) and (event.process, event.outcome) == (process, "stored")
    }


def _has_two(stage: Stage, process: str) -> bool:
    return len(stored(stage, process)) == 2


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_member_writes_down_what_it_was_given_handed_and_told(stage: Stage, protocol: str) -> None:
    def is_done() -> bool:
        return stored(stage, "one.1") == {0: 10, 1: 10}

    settings = protocol_settings(protocol, random.Random(1))
    member(stage, "one", f"group of {protocol}", is_done, **settings).run()
    given = [(event.process, event.partition) for event in stage.history if isinstance(event, Assigned)]
    assert sorted(given) == [("one.1", 0), ("one.1", 1)]
    handed = [
        value for event in stage.history if isinstance(event, Polled) for _offset, value in event.records
    ]
    assert sorted(handed) == sorted(f"value {number}" for number in range(20))
    assert judge(stage.history) == []


def test_a_commit_that_was_never_sent_is_found_by_the_next_life(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pretend(self: GroupMember, _consumer: object, process: str, offsets: dict[Any, int]) -> None:
        now = self.stage.now()
        for (topic, partition), offset in offsets.items():
            self.stage.add(Commit(now, now, process, self.group, topic, partition, offset, "stored"))

    monkeypatch.setattr(GroupMember, "_commit", pretend)
    for name in ("one", "two"):
        member(stage, name, "forgetful", partial(_has_two, stage, f"{name}.1")).run()
    assert {one.anomaly for one in judge(stage.history)} == {Anomaly.POSITION_LOST}


def test_a_member_that_was_frozen_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with what it was handed before; by then another has its partitions."""
    stage.seconds = FOREVER
    asleep, may_go_on = threading.Event(), threading.Event()

    def freeze(_seconds: float) -> None:
        asleep.set()
        assert may_go_on.wait(60)

    class Fated(random.Random):
        """Freezes at the first chance, once."""

        def random(self) -> float:
            return 1.0 if asleep.is_set() else 0.0

    monkeypatch.setattr("semel.verify.proof.group_members.time.sleep", freeze)

    def refused() -> bool:
        return any(isinstance(event, Commit) and event.outcome == "refused" for event in stage.history)

    frozen = member(stage, "frozen", "icy", refused, **SHORT)
    frozen.dice = Fated(1)
    thread = threading.Thread(target=frozen.run)
    thread.start()
    assert asleep.wait(60)
    heir = member(stage, "heir", "icy", lambda: stored(stage, "heir.1") == {0: 10, 1: 10})
    heir.run()
    may_go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    told = {event.process: event.outcome for event in stage.history if isinstance(event, Commit)}
    assert told == {"frozen.1": "refused", "heir.1": "stored"}
    assert judge(stage.history) == []


def test_the_failure_of_a_thread_is_told() -> None:
    def fail() -> None:
        raise ValueError("no member")

    async def story() -> None:
        await group_members.in_thread(lambda: None, "good")
        with pytest.raises(ValueError, match="no member"):
            await group_members.in_thread(fail, "bad")

    asyncio.run(story())
