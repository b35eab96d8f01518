"""Random groups for the tests of assignors, and a way to ask Kafka's own about them (tests/java/AssignorOracle.java)."""

import base64
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from semel.core.groups.assignors import ASSIGNORS
from semel.core.groups.assignors.members import Assignment, Member, Racks, Topics
from semel.peers.kafka import KafkaHome
from semel.types import TopicPartition

_ORACLE: Final = Path(__file__).parents[2] / "java" / "AssignorOracle.java"
_RACKS: Final = ("a", "b", "c")


class Case(NamedTuple):
    """What an assignor is asked."""

    assignor: str
    topics: Topics
    members: list[Member]

    def question(self) -> dict[str, Any]:
        topics = {name: [sorted(racks) for racks in partitions] for name, partitions in self.topics.items()}
        return {
            "ask": "assign",
            "assignor": self.assignor,
            "topics": topics,
            "members": [member_json(member) for member in self.members],
        }

    def answer(self) -> Assignment:
        return ASSIGNORS[self.assignor].assign(self.topics, self.members)


def member_json(member: Member) -> dict[str, Any]:
    return {
        "id": member.member_id,
        "topics": list(member.topics),
        "instance": member.group_instance_id,
        "owned": [list(one) for one in member.owned_partitions],
        "generation": -1 if member.generation_id is None else member.generation_id,
        "rack": member.rack_id,
        "user_data": None if member.user_data is None else base64.b64encode(member.user_data).decode(),
    }


def ask(home: KafkaHome, questions: Sequence[dict[str, Any]]) -> list[Any]:
    """Kafka's answers, from one JVM."""
    said = home.run(str(_ORACLE), stdin="".join(json.dumps(question) + "\n" for question in questions))
    return [json.loads(line) for line in said.splitlines()]


def fresh(randomness: random.Random, assignor: str, *, racks: bool) -> Case:
    """A group that has owned nothing yet."""
    names = [f"{word}-{number}" for number, word in enumerate(("orders", "a", "payments", "Z", "clicks"))]
    topics: dict[str, list[Racks]] = {}
    for name in names[: randomness.randint(1, 5)]:
        count = randomness.choice([0, 1, 2, 3, 5, 7, 8, 12])
        topics[name] = [
            frozenset(randomness.sample(_RACKS, randomness.randint(1, 2))) if racks else frozenset()
            for _ in range(count)
        ]
    same = randomness.random() < 0.5
    everybody = [name for name in names if randomness.random() < 0.7] or names[:1]
    members = []
    for number in range(randomness.choice([1, 2, 3, 3, 4, 5, 8, 13, 30, 50])):
        wanted = everybody if same else [name for name in names if randomness.random() < 0.5]
        members.append(
            Member(
                member_id=f"consumer-{number}-{randomness.getrandbits(64):016x}",
                topics=randomness.sample(wanted, len(wanted)),
                group_instance_id=f"i{randomness.getrandbits(16)}-{number}"
                if randomness.random() < 0.3
                else None,
                rack_id=randomness.choice((*_RACKS, None, "")) if racks else None,
            )
        )
    return Case(assignor, topics, members)


def remembering(case: Case, randomness: random.Random, owned: Assignment, generation: int) -> Case:
    """The same group with what its members own or remember."""
    members = []
    for member in case.members:
        mine = owned.get(member.member_id, [])
        data = ASSIGNORS[case.assignor].user_data(mine, generation)
        if case.assignor == "cooperative-sticky":
            by_field = randomness.random() < 0.8
            member = member._replace(owned_partitions=mine, generation_id=generation if by_field else None)
        elif case.assignor == "sticky" and randomness.random() < 0.7:
            member = member._replace(generation_id=generation)
        members.append(member._replace(user_data=data))
    return case._replace(members=members)


def changed(case: Case, randomness: random.Random, *, generation: int) -> Case:
    """What may happen to a group between two rebalances: members come, go, want other topics; topics come and grow.

    Now and then a member has slept through a generation, or claims what another one has.
    """
    members = [member for member in case.members if randomness.random() < 0.8] or case.members[:1]
    names = sorted(case.topics)
    members = [
        member._replace(topics=[name for name in names if randomness.random() < 0.5])
        if randomness.random() < 0.1
        else member
        for member in members
    ]
    for number in range(randomness.choice([0, 0, 1, 2])):
        alike = randomness.choice(members)
        members.append(
            Member(f"new-{number}-{randomness.getrandbits(64):016x}", alike.topics, rack_id=alike.rack_id)
        )
    topics = {
        name: [*partitions, *partitions[: randomness.choice([0, 0, 0, 2])]]
        for name, partitions in case.topics.items()
        if randomness.random() < 0.95
    }
    if randomness.random() < 0.2:
        sleeper = randomness.randrange(len(members))
        stolen = [
            TopicPartition(name, randomness.randrange(len(partitions)))
            for name, partitions in sorted(topics.items())
            if partitions
        ]
        late = generation - randomness.choice([0, 1, 2])
        members[sleeper] = members[sleeper]._replace(
            owned_partitions=stolen if case.assignor == "cooperative-sticky" else (),
            generation_id=late if randomness.random() < 0.8 else None,
            user_data=ASSIGNORS[case.assignor].user_data(stolen, late),
        )
    return Case(case.assignor, topics, randomness.sample(members, len(members)))


def story(seed: int, assignor: str, *, rounds: int, racks: bool) -> list[Case]:
    """A group through some rebalances, each starting from what our assignor decided in the one before."""
    randomness = random.Random(seed)
    case = fresh(randomness, assignor, racks=racks)
    cases = [case]
    for generation in range(1, rounds):
        owned = case.answer()
        case = changed(remembering(case, randomness, owned, generation), randomness, generation=generation)
        cases.append(case)
    return cases
