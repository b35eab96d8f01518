"""Members of groups that read and store how far they are: they join, leave, vanish, and are frozen.

Role.   `GroupMember` reads a topic together with the others of its group and commits after every poll.
Flow.   Each member has a thread and an event loop of its own. So it can stand still like a paused process, heartbeats and all,
        and go on afterwards with the records it was handed before.
Rules.  * It stores only positions of records it was handed. The answer to each commit is written down, with the moment of asking.
        * A failed commit is tried again after the next poll, as long as the partition is its own. A member that keeps a
          partition through a rebalance is not handed its records again.
        * It is disturbed until the stage is over; then it reads in peace until it is told to end.
        * It adds to the history from its own thread; an event is added whole.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from semel.client.consumer.consumer import AsyncConsumer
from semel.exceptions import (
    CommitFailedException,
    FencedInstanceIdException,
    IllegalGenerationException,
    KafkaException,
    RebalanceInProgressException,
    StaleMemberEpochException,
    UnknownMemberIdException,
)
from semel.types import TopicPartition
from semel.verify.history.events import COMMITTED, Assigned, Commit, CommitOutcome
from semel.verify.proof.programs import Stage, add_polls

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_POLL_MS: Final = 200
_CLOSE_MS: Final = 2000
_FREEZE_MAX_SECONDS: Final = 9.0
"""Longer than the session timeout below: the others take over what it has."""
SESSION_TIMEOUT_MS: Final = 6000
HEARTBEAT_INTERVAL_MS: Final = 1000
_REFUSED: Final = (
    CommitFailedException,
    FencedInstanceIdException,
    IllegalGenerationException,
    RebalanceInProgressException,
    StaleMemberEpochException,
    UnknownMemberIdException,
)


def protocol_settings(protocol: str, dice: random.Random) -> dict[str, Any]:
    """How a group is held together: its members all have these."""
    if protocol == CONSUMER:
        return {"group.protocol": CONSUMER}
    return {
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        "partition.assignment.strategy": dice.choice(["range", "cooperative-sticky"]),
    }


@dataclass(slots=True)
class GroupMember:
    """One member, one life after the other."""

    stage: Stage
    name: str
    topic: str
    group: str
    dice: random.Random
    until: Callable[[], float]
    """It goes on a while after the others, for their last records."""
    settings: Mapping[str, Any]
    may_vanish: bool = True
    """Whether the group notices within the time of a proof that a member is gone without a word."""
    lives: int = 0

    def run(self) -> None:
        """To its end; in a thread of its own."""
        while self.stage.now() < self.until():
            self.lives += 1
            asyncio.run(self._live(f"{self.name}.{self.lives}"))

    async def _live(self, process: str) -> None:
        stage, dice = self.stage, self.dice
        consumer = AsyncConsumer(
            {
                **stage.settings,
                "client.id": self.name,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": COMMITTED,
                **self.settings,
            }
        )

        def given(partitions: Iterable[TopicPartition]) -> None:
            for place in partitions:
                stage.add(Assigned(stage.now(), process, self.group, place.topic, place.partition))

        owed: dict[TopicPartition, int] = {}

        def gone(partitions: Iterable[TopicPartition]) -> None:
            for place in partitions:
                owed.pop(place, None)

        consumer.subscribe([self.topic], on_assign=given, on_revoke=gone, on_lost=gone)
        polls_left = dice.randint(20, 150)
        vanishes = dice.random() < 0.3 and self.may_vanish
        try:
            while stage.now() < self.until() and (polls_left > 0 or stage.is_over()):
                polls_left -= 1
                await self._read(consumer, process, owed)
        except KafkaException as error:
            stage.trouble(error)
        finally:
            try:
                # Without time to say goodbye the group learns of it when the session is over.
                await consumer.close(timeout_ms=0 if vanishes and not stage.is_over() else _CLOSE_MS)
            except KafkaException as error:
                stage.trouble(error)

    async def _read(self, consumer: AsyncConsumer, process: str, owed: dict[TopicPartition, int]) -> None:
        """One poll, and a commit of what it gave and of the positions still `owed`."""
        stage = self.stage
        records = await consumer.poll(_POLL_MS, 500)
        behind = add_polls(stage, process, COMMITTED, records)
        if behind and not stage.is_over() and self.dice.random() < 0.02:
            time.sleep(
                self.dice.uniform(0.5, _FREEZE_MAX_SECONDS)
            )  # The whole member: nothing of this thread's loop runs.
        owed.update(behind)
        if owed and await self._commit(consumer, process, dict(owed)) == "stored":
            owed.clear()

    async def _commit(
        self, consumer: AsyncConsumer, process: str, offsets: Mapping[TopicPartition, int]
    ) -> CommitOutcome:
        stage = self.stage
        asked_at = stage.now()
        outcome: CommitOutcome = "stored"
        failure: KafkaException | None = None
        try:
            await consumer.commit(offsets)
        except _REFUSED as error:
            outcome, failure = "refused", error
        except KafkaException as error:
            outcome, failure = "unknown", error
        for place, offset in offsets.items():
            stage.add(
                Commit(
                    stage.now(), asked_at, process, self.group, place.topic, place.partition, offset, outcome
                )
            )
        if failure is not None:
            stage.trouble(failure)
        return outcome


def in_thread(work: Callable[[], None], name: str) -> "asyncio.Future[None]":
    """Do it in a thread of its own; the future is done when it is, or fails with it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            work()
        except BaseException as error:
            loop.call_soon_threadsafe(settle, error)
        else:
            loop.call_soon_threadsafe(settle, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
