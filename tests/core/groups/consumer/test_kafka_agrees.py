"""The server's assignors and the metadata hash must equal those of Apache Kafka's own classes.

Method: groups of every shape are drawn from a seed and live through rounds of change: members come and go, subscribe to
other topics, topics grow. Each round's target is the next round's starting point. All rounds of all groups go to one JVM
(`tests/java/ServerAssignorOracle.java`), and every answer must be the same, partition by partition.
"""

import json
import random
import uuid
from pathlib import Path

import pytest

from semel.core.groups.consumer.assignor_spec import Assigned, GroupSpec, MemberSpec
from semel.core.groups.consumer.assignors import ASSIGNORS
from semel.core.groups.consumer.metadata_hash import group_hash, topic_hash
from semel.peers.kafka import KafkaHome

ORACLE = Path(__file__).parents[3] / "java" / "ServerAssignorOracle.java"
GROUPS = 120
ROUNDS = 5


def _spec(
    members: dict[str, tuple[str | None, tuple[bytes, ...]]],
    target: dict[str, Assigned],
    counts: dict[bytes, int],
) -> GroupSpec:
    owners: dict[bytes, dict[int, str]] = {}
    for member_id in members:
        for topic_id, partitions in target.get(member_id, {}).items():
            for partition in partitions:
                owners.setdefault(topic_id, {})[partition] = member_id
    return GroupSpec(
        members={
            member_id: MemberSpec(topic_ids, target.get(member_id, {}), instance_id)
            for member_id, (instance_id, topic_ids) in members.items()
        },
        partition_counts=counts,
        homogeneous=len({frozenset(topic_ids) for _, topic_ids in members.values()}) <= 1,
        owners=owners,
    )


def _case(assignor: str, spec: GroupSpec) -> dict[str, object]:
    return {
        "assignor": assignor,
        "homogeneous": spec.homogeneous,
        "topics": {topic_id.hex(): count for topic_id, count in spec.partition_counts.items()},
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "topics": [topic_id.hex() for topic_id in member.topic_ids],
                "assigned": [[topic_id.hex(), list(parts)] for topic_id, parts in member.assigned.items()],
            }
            for member_id, member in spec.members.items()
        ],
    }


def _life_of_a_group(seed: int) -> list[tuple[str, GroupSpec, dict[str, Assigned]]]:
    draw = random.Random(seed)
    counts = {
        draw.randbytes(16): draw.randint(1, draw.choice([3, 12, 40])) for _ in range(draw.randint(1, 20))
    }
    topics = list(counts)
    alike = draw.random() < 0.5
    shared = tuple(draw.sample(topics, draw.randint(1, len(topics))))

    def subscription() -> tuple[bytes, ...]:
        return shared if alike else tuple(draw.sample(topics, draw.randint(0, len(topics))))

    members: dict[str, tuple[str | None, tuple[bytes, ...]]] = {}
    target: dict[str, Assigned] = {}
    rounds = []
    assignor = draw.choice(["uniform", "uniform", "range"])
    for _ in range(ROUNDS):
        for _ in range(draw.randint(1, draw.choice([2, 30]))):
            name = str(uuid.UUID(bytes=draw.randbytes(16)))
            members[name] = (name[:4] if draw.random() < 0.3 else None, subscription())
        for gone in draw.sample(sorted(members), draw.randint(0, len(members) - 1)):
            del members[gone]
        if draw.random() < 0.4:
            shared = tuple(draw.sample(topics, draw.randint(1, len(topics))))
            changed = sorted(members) if alike else draw.sample(sorted(members), 1)
            for member_id in changed:
                members[member_id] = (members[member_id][0], subscription())
        if draw.random() < 0.3:
            counts = {**counts, draw.choice(topics): 0} | {t: counts[t] + draw.randint(0, 4) for t in topics}
        spec = _spec(members, {m: target[m] for m in members if m in target}, dict(counts))
        target = ASSIGNORS[assignor](spec)
        rounds.append((assignor, spec, target))
    return rounds


@pytest.mark.java
def test_every_target_is_the_one_kafka_computes(kafka_home: KafkaHome) -> None:
    rounds = [one for seed in range(GROUPS) for one in _life_of_a_group(seed)]
    answers = json.loads(kafka_home.run(str(ORACLE), stdin=json.dumps([_case(a, s) for a, s, _ in rounds])))
    assert len(answers) == len(rounds) == GROUPS * ROUNDS
    for number, ((assignor, spec, target), theirs) in enumerate(zip(rounds, answers, strict=True)):
        ours = {m: {t.hex(): list(p) for t, p in own.items()} for m, own in target.items()}
        shared = {member_id: theirs.get(member_id, {}) for member_id in ours}
        assert ours == shared, f"round {number}: {assignor}, {len(spec.members)} members"
        assert not set(theirs) - set(ours)


@pytest.mark.java
def test_the_hash_of_topics_is_the_one_kafka_computes(kafka_home: KafkaHome) -> None:
    draw = random.Random(848)
    topics = [
        (
            "".join(draw.choices("abcXYZ019._-", k=draw.randint(1, 60))),
            draw.randbytes(16),
            draw.randint(1, 300),
        )
        for _ in range(60)
    ]
    hashes = {name: topic_hash(name, topic_id, partitions) for name, topic_id, partitions in topics}
    cases: list[object] = [
        {"hash": {"name": name, "id": topic_id.hex(), "partitions": partitions}}
        for name, topic_id, partitions in topics
    ]
    some = [dict(list(hashes.items())[:count]) for count in (0, 1, 2, 5, 40)]
    cases += [{"group": list(of_group.items())} for of_group in some]
    answers = json.loads(kafka_home.run(str(ORACLE), stdin=json.dumps(cases)))
    assert answers == [*hashes.values(), *(group_hash(of_group) for of_group in some)]


@pytest.mark.parametrize("seed", range(GROUPS))
def test_every_partition_has_one_subscriber(seed: int) -> None:
    for assignor, spec, target in _life_of_a_group(seed):
        seen: set[tuple[bytes, int]] = set()
        for member_id, own in target.items():
            for topic_id, partitions in own.items():
                assert topic_id in spec.members[member_id].topic_ids
                assert not seen & {(topic_id, partition) for partition in partitions}
                seen |= {(topic_id, partition) for partition in partitions}
        subscribed = {topic_id for member in spec.members.values() for topic_id in member.topic_ids}
        assert seen == {
            (topic_id, p) for topic_id in subscribed for p in range(spec.partition_counts[topic_id])
        }
        if assignor == "uniform" and spec.homogeneous and target:
            sizes = {sum(map(len, own.values())) for own in target.values()}
            assert max(sizes) - min(sizes) <= 1
