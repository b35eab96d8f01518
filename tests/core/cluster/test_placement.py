"""Replicas are placed where Kafka places them, and evenly.

Method: random clusters with and without racks; Kafka's own class answers the same questions. What Kafka draws by chance is looked at
for what must hold whatever is drawn.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from semel.core.cluster.placement import place
from semel.errors import ErrorCode, Refuse
from semel.peers.kafka import KafkaHome

ORACLE = Path(__file__).parents[2] / "java" / "PlacementOracle.java"
MANY = 300


def _cluster(dice: random.Random) -> dict[int, str | None]:
    ids = dice.sample(range(20), dice.randint(1, 9))
    racks: list[str | None] = [f"rack{number}" for number in range(dice.randint(1, 4))]
    how = dice.random()
    if how < 0.4:
        racks = [None]
    elif how > 0.95:
        racks.append(None)  # Some brokers without: refused.
    return {broker: dice.choice(racks) for broker in ids}


def _shown(racks: dict[int, str | None]) -> str:
    return ",".join(f"{broker}:{rack or '-'}" for broker, rack in sorted(racks.items()))


@pytest.mark.java
def test_replicas_are_where_kafka_puts_them(old_kafka_home: KafkaHome) -> None:
    seed = random.SystemRandom().randrange(1 << 32)  # Fresh on purpose; a failure shows the seed.
    dice = random.Random(seed)
    asked = [
        (
            _cluster(dice),
            dice.randint(0, 30),
            dice.randint(0, 6),
            dice.randint(0, 8),
            dice.choice([0, 0, dice.randint(1, 20)]),
        )
        for _ in range(MANY)
    ]
    lines = [
        f"{_shown(racks)} {count} {factor} {start} {first}\n" for racks, count, factor, start, first in asked
    ]
    answers = old_kafka_home.run(str(ORACLE), stdin="".join(lines)).splitlines()
    for (racks, count, factor, start, first), answer in zip(asked, answers, strict=True):
        placed = place(
            racks,
            partitions=count,
            replication_factor=factor,
            draw=lambda _below: 0,
            start=start,
            first=first,
        )
        shown = f"seed {seed}: {racks} {count} {factor} {start} {first}"
        if isinstance(placed, Refuse):
            assert answer.startswith("error "), shown
            assert placed.reason.startswith(answer.removeprefix("error ").rstrip(".")), shown
        else:
            assert " ".join(",".join(map(str, replicas)) for replicas in placed) == answer, shown


@pytest.mark.parametrize("seed", range(20))
def test_every_broker_leads_as_many_and_racks_are_used_first(seed: int) -> None:
    dice = random.Random(seed)
    racks = {broker: f"rack{broker % 3}" for broker in range(6)}
    placed = place(racks, partitions=60, replication_factor=3, draw=dice.randrange)
    assert not isinstance(placed, Refuse)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in placed)


def test_too_few_brokers_are_refused() -> None:
    refused = place({1: None}, partitions=1, replication_factor=2, draw=lambda _below: 0)
    assert refused == Refuse(
        ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor: 2 larger than available brokers: 1."
    )
