"""Members of the client's core and the broker's classic coordinator in one process without I/O, on a clock of ticks.

Between them lies a network that delays and loses. Members freeze, die, come back, change their minds; the broker crashes
and reads its log again. `MemberWorld` says at every tick who owns what, and fails if two do.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from semel.core.coordination.outcome import Ticket
from semel.core.groups.assignors.members import without_racks
from semel.core.groups.group import Caller, GroupOutcome, GroupSettings
from semel.core.groups.member import Member
from semel.core.groups.member_words import (
    Fail,
    FindCoordinator,
    GroupRequest,
    GroupResponse,
    Instruction,
    LookAtTopics,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
    Send,
)
from semel.core.wire.messages.heartbeat import HeartbeatRequest
from semel.core.wire.messages.join_group import JoinGroupRequest
from semel.core.wire.messages.leave_group import LeaveGroupRequest
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.types import TopicPartition
from support.groups.classic_kit import ClassicWorld

TICK_MS = 20
SESSION_MS = 10_000
POLL_MS = 400
SILENCE_MS = 2_000
"""After this long a lost request counts as unanswered."""


@dataclass
class Actor:
    """A consumer: the member and what it owns."""

    name: str
    member: Member
    owned: set[TopicPartition] = field(default_factory=set)
    is_alive: bool = True
    frozen_until_ms: int = 0
    next_poll_ms: int = 0
    story: list[str] = field(default_factory=list)
    failure: Fail | None = None


class MemberWorld:
    """Everybody, and the time."""

    def __init__(self, seed: int, *, loss: float = 0.0, **counts: int) -> None:
        self.randomness = random.Random(seed)
        self.loss = loss
        self.topics = dict(counts)
        self.broker = ClassicWorld(settings=GroupSettings(group_initial_rebalance_delay_ms=200))
        self.actors: list[Actor] = []
        self._letters: list[tuple[int, int, Actor, list[object]]] = []
        self._waiting: dict[int, tuple[Actor, GroupRequest]] = {}
        self._letter_number = 0
        self._of_generation: dict[tuple[TopicPartition, int], str] = {}

    @property
    def now_ms(self) -> int:
        return self.broker.now_ms

    def start(
        self, name: str, topics: Sequence[str], assignors: Sequence[str], *, instance: str | None = None
    ) -> Actor:
        """A consumer that polls from now on."""
        config = MemberConfig(
            group_id="readers",
            partition_assignment_strategy=tuple(assignors),
            group_instance_id=instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=20_000,
        )
        actor = Actor(name, Member(config))
        actor.member.subscribe(topics)
        self.actors.append(actor)
        return actor

    def owners(self) -> dict[TopicPartition, str]:
        """Who owns what at this moment; two owners of one partition fail, at a time and in a generation."""
        found: dict[TopicPartition, str] = {}
        for actor in self.actors:
            if not actor.is_alive or actor.frozen_until_ms > self.now_ms:
                continue
            for partition in sorted(actor.owned):
                generation = actor.member._owned_generation
                who = actor.member.config.group_instance_id or actor.name
                other = self._of_generation.setdefault((partition, generation), who)
                assert other == who, f"{partition} is {other}'s and {who}'s in {generation}"
                if actor.frozen_until_ms + SESSION_MS > self.now_ms:
                    continue  # It slept, maybe through the answer to its join: a heartbeat tells it, if it is alive.
                other = found.setdefault(partition, actor.name)
                assert other == actor.name, f"{partition} is {other}'s and {actor.name}'s at {self.now_ms}"
        return found

    def run(self, ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.broker.pass_time(TICK_MS)
            self._collect()
            for actor in self.actors:
                if actor.is_alive and actor.frozen_until_ms <= self.now_ms:
                    self._live(actor)
            self.owners()

    def run_until_settled(self, most_ms: int = 120_000) -> None:
        """Until everybody is stable and every partition somebody wants has an owner."""
        for _ in range(most_ms // 200):
            self.run(200)
            if self.is_settled():
                return
        phases = {actor.name: (actor.member.phase, sorted(actor.owned)) for actor in self.actors}
        raise AssertionError(f"the group does not settle: {phases}, {self.broker.state}")

    def is_settled(self) -> bool:
        alive = [actor for actor in self.actors if actor.is_alive]
        wanted = {topic for actor in alive for topic in actor.member.topics}
        existing = {
            TopicPartition(topic, index) for topic in wanted for index in range(self.topics.get(topic, 0))
        }
        stable = all(
            actor.member.phase is (Phase.STABLE if actor.member.topics else Phase.OUT) for actor in alive
        )
        return stable and set(self.owners()) == existing

    def crash_broker(self) -> None:
        """It reads its log again; who waited for an answer gets none."""
        for actor, request in self._waiting.values():
            self._post(actor, SILENCE_MS, "unanswered", request)
        self._waiting.clear()
        self.broker.reload()

    # One actor

    def _live(self, actor: Actor) -> None:
        due = [letter for letter in self._letters if letter[2] is actor and letter[0] <= self.now_ms]
        for letter in sorted(due, key=lambda one: one[:2]):
            self._letters.remove(letter)
            self._read(actor, letter[3])
        deadline = actor.member.next_deadline_ms()
        if deadline is not None and deadline <= self.now_ms:
            self._do(actor, actor.member.due(self.now_ms))
        if self.now_ms >= actor.next_poll_ms:
            actor.next_poll_ms = self.now_ms + POLL_MS
            self._do(actor, actor.member.polled(self.now_ms))

    def _read(self, actor: Actor, letter: list[object]) -> None:
        member, now_ms = actor.member, self.now_ms
        match letter:
            case ["answered", request, response]:
                self._do(
                    actor,
                    member.answered(cast("GroupRequest", request), cast("GroupResponse", response), now_ms),
                )
            case ["unanswered", request]:
                self._do(actor, member.unanswered(cast("GroupRequest", request), now_ms))
            case ["found"]:
                self._do(actor, member.coordinator_found(now_ms))
            case ["lost"]:
                self._do(actor, member.coordinator_lost(now_ms))
            case ["topics", names]:
                known = {name: self.topics.get(name, 0) for name in cast("tuple[str, ...]", names)}
                self._do(actor, member.topics_known(without_racks(known), now_ms))
            case ["revoked", partitions]:
                actor.owned -= set(cast("tuple[TopicPartition, ...]", partitions))
                self._do(actor, member.revoked(now_ms))
            case _:
                raise AssertionError(letter)

    def leave(self, actor: Actor) -> None:
        """The user closes the consumer's subscription."""
        actor.member.subscribe([])
        self._do(actor, actor.member.leave(self.now_ms))

    def _do(self, actor: Actor, instructions: list[Instruction]) -> None:
        for one in instructions:
            actor.story.append(f"{self.now_ms} {one}")
            match one:
                case FindCoordinator():
                    self._post(actor, self._delay(), "lost" if self._is_lost() else "found")
                case LookAtTopics(topics):
                    self._post(actor, self._delay(), "topics", topics)
                case Revoke(partitions):
                    self._post(actor, self._delay() * 3, "revoked", partitions)
                case Lose(partitions):
                    actor.owned -= set(partitions)
                case Own(partitions):
                    assert not actor.owned & set(partitions), f"{actor.name} is given again what it owns"
                    actor.owned |= set(partitions)
                case Fail():
                    actor.failure = one
                case Send(request):
                    if self._is_lost():
                        self._post(actor, SILENCE_MS, "unanswered", request)
                    else:
                        self._ask(actor, request)

    def _is_lost(self) -> bool:
        return self.randomness.random() < self.loss

    def _delay(self) -> int:
        return self.randomness.randrange(0, 120)

    def _post(self, actor: Actor, delay_ms: int, *letter: object) -> None:
        self._letter_number += 1
        self._letters.append((self.now_ms + delay_ms, self._letter_number, actor, list(letter)))

    # The broker's end

    def _ask(self, actor: Actor, request: GroupRequest) -> None:
        broker = self.broker
        ticket = broker._ticket(type(request).__name__)
        self._waiting[cast("int", ticket)] = (actor, request)
        broker.settle(self._operate(actor, request, ticket))
        self._collect()

    def _operate(self, actor: Actor, request: GroupRequest, ticket: Ticket) -> GroupOutcome:
        coordinator, now_ms = self.broker.coordinator, self.now_ms
        match request:
            case JoinGroupRequest():
                caller = Caller(actor.name, "/127.0.0.1", 9)
                unique = f"{self._letter_number}-{len(self._waiting)}-{self.randomness.random()}"
                return coordinator.join(request, ticket, caller, now_ms, unique=unique)
            case SyncGroupRequest():
                return coordinator.sync(request, ticket, Caller(actor.name, "/127.0.0.1", 5), now_ms)
            case HeartbeatRequest():
                return coordinator.heartbeat(request, ticket, now_ms)
            case LeaveGroupRequest():
                return coordinator.leave(request, ticket, Caller(actor.name, "/127.0.0.1", 5), now_ms)

    def _collect(self) -> None:
        """Put what the broker has answered into the post."""
        for number in [one for one in self._waiting if one in self.broker.answers]:
            actor, request = self._waiting.pop(number)
            response = self.broker.answers.pop(number)
            if self._is_lost():
                self._post(actor, SILENCE_MS, "unanswered", request)
            else:
                self._post(actor, self._delay(), "answered", request, response)
