"""A group of each client, through everything that happens to groups: members that join, leave and die, a broker that dies.

Method: a process per member, a group and a topic per client, all of them at once, one step after the other. What the
members write down (see `group_kit`) says who owned what and what was processed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from semel.core.groups.assignors.protocol import decode_assignment
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.core.wire.registry import ApiKey
from semel.peers.kafka import KafkaHome
from semel.verify.fault_proxy import Exchange, FaultProxy
from support.compat.compat_clients import PYTHON_CLIENTS
from support.compat.compat_kit import BrokerProcess, Sent, ThreadBroker, eventually
from support.groups.group_kit import Crew, MemberProcess

PYTHON: Final = ("confluent-kafka", "kafka-python", "aiokafka")
EVERY: Final = (*PYTHON, "java")
PARTITIONS: Final = 4
PER_PARTITION: Final = 25
SHORT_MS: Final = 6_000
LONG_MS: Final = 15_000
"""As long as members of `group_kit` may be: their rebalance timeout."""
PATIENCE_SECONDS: Final = 60
SETTINGS: Final = {"num_partitions": str(PARTITIONS), "group_initial_rebalance_delay_ms": "300"}


class Story:
    """The same steps for every client."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        stack: ExitStack,
        clients: Sequence[str],
        home: KafkaHome | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.clients = clients
        self.produced = 0
        self.crews = []
        for client in clients:
            folder = directory / client
            folder.mkdir()
            crew = Crew(
                folder, bootstrap, f"group of {client}", f"topic-of-{client}", "range", kafka_home=home
            )
            self.crews.append(stack.enter_context(crew))

    def produce(self) -> None:
        records = [Sent(p, None, b"%d" % n) for n in range(PER_PARTITION) for p in range(PARTITIONS)]
        for crew in self.crews:
            PYTHON_CLIENTS[0].produce(self.bootstrap, crew.topic, records)
        self.produced += PER_PARTITION

    def start(self, session_ms: int) -> list[MemberProcess]:
        members = []
        for crew, client in zip(self.crews, self.clients, strict=True):
            crew.session_ms = session_ms
            members.append(crew.start(client))
        return members

    def share(self, *members: Sequence[MemberProcess], what: str) -> None:
        """Until these, and nobody else, own everything."""
        for crew, mine in zip(self.crews, zip(*members, strict=True), strict=True):
            eventually(
                lambda crew=crew, mine=mine: crew.is_shared(PARTITIONS, mine),  # type: ignore[misc]  # Bound now.
                f"{crew.group}: {what}",
                PATIENCE_SECONDS,
            )

    def everything_is_processed(self, times: int = 1, *, exactly: bool = False) -> None:
        """Every record so many times at least, or exactly."""
        wanted = Counter({(p, n): times for p in range(PARTITIONS) for n in range(self.produced)})
        for crew in self.crews:
            eventually(
                lambda crew=crew: wanted <= crew.processed(),  # type: ignore[misc]  # Bound now.
                f"{crew.group}: {self.produced} records of each partition are processed",
                PATIENCE_SECONDS,
            )
            if exactly:
                assert crew.processed() == wanted, crew.group

    def each(self, act: Callable[[Crew, MemberProcess], None], members: Sequence[MemberProcess]) -> None:
        for crew, member in zip(self.crews, members, strict=True):
            act(crew, member)


@pytest.mark.java
@pytest.mark.mission("CONS-06", "CONS-07")
def test_members_join_leave_and_die_and_so_does_the_broker(tmp_path: Path, kafka_home: KafkaHome) -> None:
    with BrokerProcess(tmp_path / "data", **SETTINGS) as broker, ExitStack() as stack:
        story = Story(tmp_path, broker.bootstrap, stack, EVERY, kafka_home)
        story.produce()
        first = story.start(LONG_MS)
        story.share(first, what="the first member owns everything")
        second = story.start(SHORT_MS)
        story.share(first, second, what="two members share")
        story.produce()
        story.everything_is_processed(exactly=True)

        # One closes: the other takes over long before a session would have ended.
        story.each(Crew.stop, first)
        story.share(second, what="who stays takes over")
        for crew, closed, heir in zip(story.crews, first, second, strict=True):
            waited_ms = (last_owned_ns(heir) - closed.diary()[-1]["at"]) / 1e6
            assert waited_ms < LONG_MS * 4 / 5, f"{crew.group}: it took a session, though the member had left"
        story.produce()
        story.everything_is_processed(exactly=True)

        # The broker dies, and comes back with everything it had promised: who was a member is one.
        broker.kill()
        broker.start()
        story.produce()
        story.everything_is_processed()
        story.share(second, what="the member is one again")

        # Whoever comes next goes on from what was committed.
        before = [set(crew.processed()) for crew in story.crews]
        third = story.start(SHORT_MS)
        story.share(second, third, what="two members share again")
        story.produce()
        story.everything_is_processed()
        for crew, member, done in zip(story.crews, third, before, strict=True):
            places = {(one["partition"], offset) for one in processed(member) for offset in one["offsets"]}
            assert places, crew.group
            assert not places & done, f"{crew.group}: committed, and read again: {sorted(places & done)[:5]}"

        # One dies: the other takes over when its session has ended, and not before.
        story.each(Crew.kill, third)
        story.share(second, what="the survivor takes over")
        for crew, dead, survivor in zip(story.crews, third, second, strict=True):
            assert dead.ended_ns is not None
            waited_ms = (last_owned_ns(survivor) - dead.ended_ns) / 1e6
            assert waited_ms > SHORT_MS / 2, f"{crew.group}: nobody waited for the session"
        story.produce()
        story.everything_is_processed()
        story.each(Crew.stop, second)


@pytest.mark.mission("CONS-18", "CONS-19")
def test_two_groups_read_everything_and_assign_in_four_steps(tmp_path: Path) -> None:
    """Two members of each client read its topic; so does another group, though the first has committed all of it."""
    with (
        ThreadBroker(tmp_path / "data", **SETTINGS) as broker,
        FaultProxy(broker.bootstrap) as proxy,
        ExitStack() as stack,
    ):
        story = Story(tmp_path, proxy.bootstrap, stack, PYTHON)
        story.produce()
        members = [story.start(LONG_MS), story.start(LONG_MS)]
        story.share(*members, what="two members share")
        story.everything_is_processed(exactly=True)
        for some in members:
            story.each(Crew.stop, some)
        for crew in story.crews:
            crew.group = f"another {crew.group}"
        others = story.start(LONG_MS)
        story.everything_is_processed(2, exactly=True)
        story.each(Crew.stop, others)
        exchanges = proxy.of(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
    for client in PYTHON:
        check_assignment(exchanges, f"group of {client}")


def last_owned_ns(member: MemberProcess) -> int:
    """When it was last given something, by the clock all processes share."""
    return max(int(one["at"]) for one in member.diary() if one["kind"] == "owned")


def processed(member: MemberProcess) -> list[dict[str, Any]]:
    return [one for one in member.diary() if one["kind"] == "processed"]


def check_assignment(exchanges: Sequence[Exchange], group: str) -> None:
    """The last generation of two: the leader gets the list, assigns, reports; the coordinator gives each its own part.

    A member that joins again with nothing changed is told its generation once more, in Kafka as here: its first steps count.
    """
    joins: dict[int, dict[str, JoinGroupResponse]] = {}
    syncs: dict[int, dict[str, tuple[SyncGroupRequest, SyncGroupResponse]]] = {}
    steps: dict[tuple[int, str, str], None] = {}
    for exchange in exchanges:
        asked = exchange.request()
        if not isinstance(asked, JoinGroupRequest | SyncGroupRequest) or asked.group_id != group:
            continue
        answer = exchange.response()
        if isinstance(answer, JoinGroupResponse) and not answer.error_code:
            joins.setdefault(answer.generation_id, {})[answer.member_id] = answer
            steps[answer.generation_id, answer.member_id, "join"] = None
        elif isinstance(answer, SyncGroupResponse) and not answer.error_code:
            assert isinstance(asked, SyncGroupRequest)
            syncs.setdefault(asked.generation_id, {})[asked.member_id] = (asked, answer)
            steps[asked.generation_id, asked.member_id, "sync"] = None
    generation = max(number for number, members in joins.items() if len(members) == 2)
    assert [what for number, _, what in steps if number == generation] == ["join", "join", "sync", "sync"]
    told, synced = joins[generation], syncs[generation]
    [leader] = {answer.leader for answer in told.values()}
    for member_id, answer in told.items():
        assert {one.member_id for one in answer.members} == (set(told) if member_id == leader else set())
    given = {one.member_id: one.assignment for one in synced[leader][0].assignments}
    assert set(given) == set(told)
    for member_id, (asked, answer_) in synced.items():
        assert bool(asked.assignments) == (member_id == leader)
        assert answer_.assignment == given[member_id]
    owned = [one.partition for part in given.values() for one in decode_assignment(part).partitions]
    assert sorted(owned) == list(range(PARTITIONS))
