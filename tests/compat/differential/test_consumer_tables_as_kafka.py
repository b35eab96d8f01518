"""The tables of KIP-848 groups are true: Apache Kafka answers every input in every state as they say.

Method: tests/core/groups/consumer holds a shard to its tables. Here each cell is a group of its own on one real broker,
brought into the same state by the same requests; its answer must be the text of the table.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from compat.differential.comparison import kafka_side
from compat.differential.exchange import Side
from compat.differential.group_stories import Pair
from semel.peers.kafka import KafkaHome
from support.groups.consumer_stories import PARTITIONS, Story
from support.groups.heartbeat_table import (
    ANSWERS,
    HEARTBEATS,
    ME,
    MEMBERS,
    STATIC_ANSWERS,
    STATIC_HEARTBEATS,
    STATIC_MEMBERS,
    Act,
    Scene,
    answer_of,
)

pytestmark = pytest.mark.java
SETTINGS = {
    "group_consumer_assignment_interval_ms": "0",
    "group_consumer_session_timeout_ms": "1800000",  # Nobody shall be put out because the machine is busy.
    "group_consumer_max_session_timeout_ms": "1800000",
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "4",
}


@pytest.fixture(scope="module")
def kafka(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with kafka_side(kafka_home, tmp_path_factory.mktemp("tables"), **SETTINGS) as side:
        alone = Pair(side, side)
        alone.create_topics(**PARTITIONS)
        alone.wait_for_coordinator("g")
        yield side


TAKES_ANOTHER: Final = {
    ("behind", "epoch 0, an instance id"): "5 nothing",
    ("unrevoked", "epoch 0, an instance id"): "5 nothing",
    ("released", "epoch 0, an instance id"): "5 nothing",
    ("static away", "epoch 0, another instance id"): "4 nothing",
    ("static unrevoked", "epoch 0, another instance id"): "5 nothing",
    ("static away, unrevoked", "epoch 0, another instance id"): "5 nothing",
}
"""A member rejoins with an instance id nobody has. Kafka looks for its target under that id, finds none, and takes its
partitions away; until the next epoch nobody reads them. Ours keeps the member's target. No client takes another instance
id under the same member id."""


@pytest.mark.parametrize("scene", MEMBERS)
def test_heartbeats(kafka: Side, scene: str) -> None:
    _compare(
        kafka, scene, MEMBERS[scene], HEARTBEATS, {said: cells[scene] for said, cells in ANSWERS.items()}
    )


@pytest.mark.parametrize("scene", STATIC_MEMBERS)
def test_heartbeats_of_static_members(kafka: Side, scene: str) -> None:
    expected = {said: cells[scene] for said, cells in STATIC_ANSWERS.items()}
    _compare(kafka, f"static {scene}", STATIC_MEMBERS[scene], STATIC_HEARTBEATS, expected)


def _compare(
    kafka: Side, title: str, scene: Scene, acts: Mapping[str, Act], expected: Mapping[str, str]
) -> None:
    answers = {}
    for said, act in acts.items():
        story = Story(kafka, f"{title}: {said}")
        scene(story)
        answers[said] = act(story)
        if (title, said) in TAKES_ANOTHER:
            epoch, _, _ = answers[said].partition(" ")
            assert story.confirm(ME) == epoch, "nothing more comes in this epoch"
    known = {said: answer for (where, said), answer in TAKES_ANOTHER.items() if where == title}
    assert answers == {said: answer_of(cell) for said, cell in expected.items()} | known
