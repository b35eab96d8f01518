"""Records go to the partitions Kafka's own client would send them to.

Method: the same questions to Apache Kafka's partitioner, in one JVM: ten thousand keys, loads of partitions, and when a record
without a key goes elsewhere. Keys are hashed one by one and by column.
"""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from semel.client.partitioner import partition_for_key
from semel.core.client.partition_kernels import partitions_of_keys
from semel.core.client.sticky import Sticky
from semel.peers.kafka import KafkaHome

ORACLE = Path(__file__).parents[2] / "java" / "PartitionerOracle.java"
KEYS = 10_000


def keys(dice: random.Random) -> list[bytes]:
    return [dice.randbytes(dice.choice([0, 1, 2, 3, 4, 5, 8, 16, 31, 100])) for _ in range(KEYS)]


def loads(dice: random.Random) -> list[tuple[int, list[int], list[int]]]:
    """(partitions, how many batches wait for those that have a leader, which those are)."""
    found = []
    for _ in range(300):
        count = dice.randint(1, 8)
        led = sorted(dice.sample(range(count), dice.randint(1, count)))
        most = dice.choice([0, 1, 5])
        found.append((count, [dice.randint(0, most) for _ in led], led))
    return found


def records(dice: random.Random) -> list[tuple[int, list[tuple[int, bool]]]]:
    """(batch size, (bytes, whether the batch is full now) of records one after the other)."""
    return [
        (dice.choice([1, 100, 1000]), [(dice.randint(1, 400), dice.random() < 0.3) for _ in range(60)])
        for _ in range(100)
    ]


@pytest.mark.java
@pytest.mark.mission("PROD-01")
def test_partitions_are_those_of_the_java_client(kafka_home: KafkaHome) -> None:
    dice = random.Random(7)
    some_keys, some_loads, some_records = keys(dice), loads(dice), records(dice)
    counts = [dice.randint(1, 100) for _ in some_keys]
    asked = [
        *(f"key {key.hex() or '-'} {count}" for key, count in zip(some_keys, counts, strict=True)),
        *(
            f"load {count} {','.join(map(str, queued))} {','.join(map(str, led))}"
            for count, queued, led in some_loads
        ),
        *(
            f"switch {size} {','.join(f'{count}:{int(full)}' for count, full in sent)}"
            for size, sent in some_records
        ),
    ]
    answers = iter(kafka_home.run(str(ORACLE), stdin="\n".join(asked) + "\n").split("\n"))
    theirs = [int(next(answers)) for _ in some_keys]
    assert [partition_for_key(key, count) for key, count in zip(some_keys, counts, strict=True)] == theirs
    for count, queued, led in some_loads:
        told = next(answers)
        sticky = Sticky(1, random.Random(1).getrandbits)
        sticky.update_load(led, queued, count)
        assert sticky._cumulated == ([] if told == "none" else json.loads(told))
    for size, sent in some_records:
        sticky = Sticky(size, random.Random(1).getrandbits)
        changed = []
        for at, (count, full) in enumerate(sent):
            sticky.partition(10, range(10))
            before = sticky._produced_bytes
            sticky.appended(count, batch_is_full=full, partitions_count=10, available=range(10))
            if sticky._produced_bytes != before + count:
                changed.append(at)
        assert changed == json.loads(next(answers))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_column_of_keys_is_hashed_as_single_keys_are(kind: pa.DataType) -> None:
    dice = random.Random(3)
    some: list[bytes | None] = [None if dice.random() < 0.1 else key for key in keys(dice)]
    for start in (0, 3):
        column = pa.array(some, kind)[start:]
        expected = [-1 if key is None else partition_for_key(key, 13) for key in some[start:]]
        assert partitions_of_keys(column, 13).tolist() == expected
    assert partitions_of_keys(pa.array([], kind), 5).tolist() == []


def test_the_choice_follows_the_weights() -> None:
    sticky = Sticky(1, random.Random(1).getrandbits)
    sticky.update_load([0, 2, 3], [4, 0, 2], 4)  # Weights 1, 5 and 3.
    assert [sticky.choice(number, 4, [0, 2, 3]) for number in range(9)] == [0, 2, 2, 2, 2, 2, 3, 3, 3]
    sticky.update_load([0, 1, 2, 3], [7, 7, 7, 7], 4)
    assert [sticky.choice(number, 4, [0, 1, 2, 3]) for number in range(5)] == [0, 1, 2, 3, 0]
    assert [sticky.choice(number, 4, [1, 3]) for number in range(4)] == [1, 3, 1, 3], "those with a leader"
    assert [sticky.choice(number, 4, []) for number in range(4)] == [0, 1, 2, 3], "nobody has one"
