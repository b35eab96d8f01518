"""The assignments equal those of Kafka 4.3.1's Java client.

Method: random groups live through some rebalances; each question goes to our assignor and, all of them in one JVM, to
Kafka's own. The same for the bytes members put into JoinGroup. Where Kafka fails, or gives a member a topic it did not
ask for, ours must do better: each partition to somebody who wants it.
"""

import base64
import random
from collections.abc import Sequence
from typing import Any

import pytest

from semel.core.groups.assignors import ASSIGNORS
from semel.core.groups.assignors.members import Assignment, Member
from semel.core.groups.assignors.protocol import decode_subscription, encode_subscription
from semel.peers.kafka import KafkaHome
from semel.types import TopicPartition
from support.groups.assignor_cases import Case, ask, member_json, story

pytestmark = pytest.mark.java
SEEDS = 120
ROUNDS = 4


def test_equal_assignments(kafka_home: KafkaHome) -> None:
    cases = [
        case
        for name in ASSIGNORS
        for racks in (False, True)
        for seed in range(SEEDS)
        for case in story(seed, name, rounds=ROUNDS, racks=racks)
    ]
    answers = ask(kafka_home, [case.question() for case in cases])
    compared = dict.fromkeys(ASSIGNORS, 0)
    for case, theirs in zip(cases, answers, strict=True):
        mine = case.answer()
        wanted = {member.member_id: member.topics for member in case.members}
        if "error" in theirs or not _is_sound(theirs, wanted) or _is_odd(case):
            assert _is_sound(mine, wanted), case
            continue
        compared[case.assignor] += 1
        assert {member: sorted(map(list, given)) for member, given in mine.items()} == {
            member: sorted(given) for member, given in theirs.items()
        }, case
    assert min(compared.values()) >= SEEDS * ROUNDS * 2 * 0.8


def _is_sound(assignment: Assignment | dict[str, list[list[Any]]], wanted: dict[str, Sequence[str]]) -> bool:
    return all(topic in wanted[member] for member, given in assignment.items() for topic, _index in given)


def _is_odd(case: Case) -> bool:
    """Some want nothing, the others the same: Kafka may take them all to want the same."""
    wishes = {frozenset(member.topics) for member in case.members}
    return "sticky" in case.assignor and frozenset() in wishes and len(wishes) == 2


def test_the_bytes_members_exchange(kafka_home: KafkaHome) -> None:
    """User data of every assignor, and subscriptions in every version."""
    randomness = random.Random(5)
    questions: list[dict[str, Any]] = []
    expected: list[bytes | None] = []
    for number in range(120):
        partitions = [
            TopicPartition(f"topic-{randomness.randrange(40)}", index)
            for index in range(randomness.randrange(0, 30))
        ]
        name = randomness.choice(sorted(ASSIGNORS))
        asked = {"ask": "user_data", "assignor": name, "generation": number}
        questions.append({**asked, "partitions": [list(one) for one in partitions]})
        expected.append(ASSIGNORS[name].user_data(partitions, number))
        questions.append({**asked, "partitions": None})
        expected.append(ASSIGNORS[name].user_data((), -1))
        member = Member(
            member_id="",
            topics=[f"t{index}" for index in range(randomness.randrange(5))],
            owned_partitions=sorted(partitions),
            generation_id=randomness.choice([None, 0, number]),
            rack_id=randomness.choice([None, "r"]),
            user_data=randomness.choice([None, b"", b"\x00\x01data"]),
        )
        version = randomness.randrange(4)
        questions.append({"ask": "subscription", "version": version, **member_json(member)})
        expected.append(encode_subscription(member, version))
    answers = ask(kafka_home, questions)
    for question, answer, mine in zip(questions, answers, expected, strict=True):
        theirs = None if answer is None else base64.b64decode(answer)
        if question["ask"] == "subscription":
            assert theirs is not None
            assert mine is not None
            # Kafka groups owned partitions in the order of its maps: the same content, another order.
            assert _sorted(decode_subscription("", theirs)) == _sorted(decode_subscription("", mine)), (
                question
            )
            assert len(theirs) == len(mine), question
        else:
            assert theirs == mine, question


def _sorted(member: Member) -> Member:
    return member._replace(owned_partitions=sorted(member.owned_partitions), topics=sorted(member.topics))
