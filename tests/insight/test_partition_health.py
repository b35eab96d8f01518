"""Partitions are judged by leader, ISR and min.insync.replicas, and brokers by what they carry.

Method: tables. `tests/cli/test_cluster.py` looks at a cluster of three Kafka brokers that loses one.
"""

import uuid

import pytest

from semel.client.cluster import PartitionView, TopicView
from semel.insight.partition_health import Burden, Health, burdens, placed


def _topic(name: str, *partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> TopicView:
    return TopicView(
        name,
        uuid.UUID(int=1),
        False,
        tuple(
            PartitionView(index, leader, 3, replicas, isr, ())
            for index, (leader, replicas, isr) in enumerate(partitions)
        ),
    )


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "health"),
    [
        (1, (1, 2, 3), (1, 2, 3), 2, Health.OK),
        (1, (1, 2, 3), (1, 2), 1, Health.UNDER_REPLICATED),
        (1, (1, 2, 3), (1, 2), 2, Health.AT_MIN_ISR),
        (1, (1, 2, 3), (1,), 1, Health.AT_MIN_ISR),
        (1, (1, 2, 3), (1,), 2, Health.UNDER_MIN_ISR),
        (-1, (1, 2, 3), (2,), 1, Health.OFFLINE),
        (1, (1,), (1,), 1, Health.OK),
        (1, (1,), (1,), 2, Health.OK),  # As brokers: no more than all are asked for.
        (-1, (1,), (1,), 1, Health.OFFLINE),
        (1, (1, 2), (1,), 3, Health.UNDER_MIN_ISR),
        (1, (1, 2), (1, 2), 2, Health.OK),
    ],
)
def test_the_worst_state_counts(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], min_isr: int, health: Health
) -> None:
    (found,) = placed([_topic("t", (leader, replicas, isr))], {"t": min_isr})
    assert found.health is health
    assert found.missing == tuple(one for one in replicas if one not in isr)


def test_a_topic_whose_minimum_is_unknown_has_kafkas_default() -> None:
    (found,) = placed([_topic("t", (1, (1, 2), (1,)))], {})
    assert found.health is Health.AT_MIN_ISR


def test_brokers_are_added_up_dead_ones_too() -> None:
    partitions = placed([_topic("t", (1, (1, 2), (1,)), (1, (3, 1), (1,)), (-1, (2, 3), (2,)))], {"t": 1})
    assert burdens(partitions, [1, 4]) == {
        1: Burden(leaders=2, replicas=2, not_in_sync=0, not_preferred=1),
        2: Burden(leaders=0, replicas=2, not_in_sync=1, not_preferred=0),
        3: Burden(leaders=0, replicas=2, not_in_sync=2, not_preferred=0),
        4: Burden(),
    }
