"""Deltas say everything that the image knows, and a row that changes nothing gives none.

Method: rows by hand, and random ones; a shadow that is built from deltas alone is compared with the image, after every row and from
a snapshot. Compaction is played by applying the last row of every key, in any order.
"""

import random
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.client_quotas import Entity
from semel.core.metadata.deltas import (
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    ClusterNamed,
    ControllerChanged,
    CredentialChanged,
    Delta,
    FeatureChanged,
    GroupConfigured,
    LeaderEpochsRaised,
    PartitionsChanged,
    ProducerIdsReserved,
    QuotasChanged,
    TopicAdded,
    TopicConfigured,
    TopicRemoved,
)
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import NO_LEADER, NOT_TOLD, PartitionState, alone
from semel.core.metadata.rows import (
    BrokerConfigRow,
    BrokerRow,
    BrokersRow,
    Change,
    ClientQuotaRow,
    ClusterRow,
    ControllerRow,
    FeatureRow,
    GroupConfigRow,
    LeaderEpochRow,
    ProducerIdsRow,
    Row,
    ScramRow,
    Told,
    TopicConfigRow,
    TopicGoneRow,
    TopicRow,
    TopicStatesRow,
    encode,
)
from semel.core.security.scram_credentials import Credential
from semel.types import TopicPartition

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)
ORDERS = TopicRow("orders", FIRST, alone(1, 2), {"retention.ms": "1"})
ANNA: Entity = (("user", "anna"),)
CREDENTIAL = Credential(4096, b"salt", b"stored", b"server")
HERE = RegisteredBroker(1, {"PLAINTEXT": Endpoint("here", 9092)})
THERE = RegisteredBroker(2, {"PLAINTEXT": Endpoint("there", 9092)})
MOVED = PartitionState((2, 1), (2,), 2, leader_epoch=4, partition_epoch=9)
TOLD: list[Change] = [TopicConfigRow("orders", {"a": "1"}), TopicStatesRow("orders", FIRST, {1: MOVED})]
LATE = TopicRow("orders", FIRST, (NOT_TOLD, MOVED), {"a": "1"})


@dataclass
class Shadow:
    """The image as its deltas tell it."""

    cluster_id: str | None = None
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], Credential] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    features_epoch: int = 0
    next_producer_id_block: int = 0
    leader_epoch_min: int = 0
    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    controller_id: int = NO_LEADER

    def apply(self, delta: Delta) -> None:  # noqa: C901  # one case per kind of delta
        match delta:
            case ClusterNamed(cluster_id):
                self.cluster_id = cluster_id
            case TopicAdded(topic):
                assert topic.name not in self.topic_ids
                self.topic_ids[topic.name] = topic.topic_id
                self.topic_configs[topic.name] = topic.configs
                self._put(topic, range(topic.partitions))
            case TopicRemoved(topic):
                assert self.topic_ids.pop(topic.name) == topic.topic_id
                del self.topic_configs[topic.name]
                self.partitions = {tp: one for tp, one in self.partitions.items() if tp.topic != topic.name}
            case TopicConfigured(topic):
                assert self.topic_ids[topic.name] == topic.topic_id
                self.topic_configs[topic.name] = topic.configs
            case PartitionsChanged(topic, indexes):
                assert self.topic_ids[topic.name] == topic.topic_id
                assert indexes
                self._put(topic, indexes)
            case LeaderEpochsRaised(epoch):
                self.leader_epoch_min = epoch
            case BrokerRegistered(broker):
                self.brokers[broker.broker_id] = broker
            case BrokerGone(broker_id):
                del self.brokers[broker_id]
            case ControllerChanged(broker_id):
                self.controller_id = broker_id
            case BrokerConfigured(name, configs):
                self.broker_configs[name] = dict(configs)
            case GroupConfigured(name, configs):
                self.group_configs[name] = dict(configs)
            case QuotasChanged(entity, values):
                self.quotas[entity] = dict(values)
            case CredentialChanged(user, mechanism, credential):
                self.scram.pop((user, mechanism), None)
                if credential is not None:
                    self.scram[user, mechanism] = credential
            case FeatureChanged(name, level, epoch):
                self.features[name] = level
                self.features_epoch = max(self.features_epoch, epoch)
            case ProducerIdsReserved(next_block):
                self.next_producer_id_block = next_block

    def _put(self, topic: TopicRow, indexes: Iterable[int]) -> None:
        self.partitions |= {TopicPartition(topic.name, index): topic.states[index] for index in indexes}

    def check(self, image: MetadataImage) -> None:
        assert self.cluster_id == image.cluster_id
        assert self.topic_ids == {row.name: row.topic_id for row in image}
        assert self.topic_configs == {row.name: row.configs for row in image}
        assert self.partitions == {
            TopicPartition(row.name, index): state for row in image for index, state in enumerate(row.states)
        }
        for name, configs in self.broker_configs.items():
            assert configs == image.broker_configs(name)
        assert {name: one for name, one in self.group_configs.items() if one} == image.group_configs
        assert {entity: one for entity, one in self.quotas.items() if one} == image.client_quotas
        assert self.scram == image.scram
        assert (self.features, self.features_epoch) == (image.features, image.features_epoch)
        assert self.next_producer_id_block == image.next_producer_id_block
        assert self.leader_epoch_min == image.leader_epoch_min
        assert self.brokers == image.brokers
        assert self.controller_id == image.controller_id


@pytest.mark.parametrize(
    ("before", "change", "deltas"),
    [
        ([], ClusterRow("c"), [ClusterNamed("c")]),
        ([], ORDERS, [TopicAdded(ORDERS)]),
        ([ORDERS], ORDERS, []),
        ([ORDERS], TopicGoneRow("orders"), [TopicRemoved(ORDERS)]),
        ([], TopicGoneRow("orders"), []),
        (
            [ORDERS],
            TopicRow("orders", SECOND, alone(1, 1)),
            [TopicRemoved(ORDERS), TopicAdded(TopicRow("orders", SECOND, alone(1, 1)))],
        ),
        (
            [ORDERS],
            TopicRow("orders", FIRST, alone(1, 2)),
            [TopicConfigured(TopicRow("orders", FIRST, alone(1, 2)))],
        ),
        (
            [ORDERS],
            grown := TopicRow("orders", FIRST, alone(1, 4), ORDERS.configs),
            [PartitionsChanged(grown, (2, 3))],
        ),
        (
            [ORDERS],
            moved := TopicRow("orders", FIRST, (ORDERS.states[0], MOVED), {}),
            [TopicConfigured(moved), PartitionsChanged(moved, (1,))],
        ),
        (
            [TopicRow("orders", FIRST, (ORDERS.states[0], MOVED))],
            LeaderEpochRow(3),
            [
                LeaderEpochsRaised(3),
                PartitionsChanged(
                    TopicRow("orders", FIRST, (ORDERS.states[0].led_from(3), MOVED)),
                    (0,),
                ),
            ],
        ),
        ([LeaderEpochRow(3)], LeaderEpochRow(2), []),
        (
            [LeaderEpochRow(3)],
            ORDERS,
            [TopicAdded(TopicRow("orders", FIRST, (ORDERS.states[0].led_from(3),) * 2, ORDERS.configs))],
        ),
        ([], BrokerConfigRow("1", {"a": "1"}), [BrokerConfigured("1", {"a": "1"})]),
        ([BrokerConfigRow("1", {"a": "1"})], BrokerConfigRow("1", {"a": "1"}), []),
        ([BrokerConfigRow("1", {"a": "1"})], BrokerConfigRow("1"), [BrokerConfigured("1", {})]),
        ([], BrokerConfigRow("1"), []),
        ([], GroupConfigRow("g", {"a": "1"}), [GroupConfigured("g", {"a": "1"})]),
        ([GroupConfigRow("g", {"a": "1"})], GroupConfigRow("g"), [GroupConfigured("g", {})]),
        ([], ClientQuotaRow(ANNA, {"r": 1.0}), [QuotasChanged(ANNA, {"r": 1.0})]),
        ([ClientQuotaRow(ANNA, {"r": 1.0})], ClientQuotaRow(ANNA), [QuotasChanged(ANNA, {})]),
        ([], ScramRow("anna", 1, CREDENTIAL), [CredentialChanged("anna", 1, CREDENTIAL)]),
        ([], ScramRow("anna", 1, None), []),
        ([], FeatureRow("f", 0, 1), [FeatureChanged("f", 0, 1)]),
        ([FeatureRow("f", 0, 1)], FeatureRow("f", 0, 1), []),
        ([], ProducerIdsRow(1000), [ProducerIdsReserved(1000)]),
        ([], BrokerRow(HERE), [BrokerRegistered(HERE)]),
        ([BrokerRow(HERE)], BrokerRow(HERE), []),
        ([], ControllerRow(1), [ControllerChanged(1)]),
        (
            [BrokersRow((HERE, THERE))],
            BrokersRow((replace(HERE, epoch=9),)),
            [BrokerGone(THERE.broker_id), BrokerRegistered(replace(HERE, epoch=9))],
        ),
        ([BrokersRow((HERE, THERE))], BrokersRow((THERE, HERE)), []),
        ([], TopicConfigRow("orders", {"a": "1"}), []),
        (
            [TopicConfigRow("orders", {"a": "1"})],
            TopicStatesRow("orders", FIRST, {1: MOVED}),
            [TopicAdded(LATE)],
        ),
        (TOLD, TopicConfigRow("orders"), [TopicConfigured(replace(LATE, configs={}))]),
        (
            TOLD,
            TopicStatesRow("orders", FIRST, {0: MOVED}),
            [PartitionsChanged(replace(LATE, states=(MOVED, MOVED)), (0,))],
        ),
        (
            TOLD,
            TopicStatesRow("orders", SECOND, {0: MOVED}),
            [TopicRemoved(LATE), TopicAdded(TopicRow("orders", SECOND, (MOVED,), {"a": "1"}))],
        ),
        (TOLD, TopicStatesRow("orders", FIRST, {1: None}), [TopicRemoved(LATE)]),
        (TOLD, TopicStatesRow("orders", SECOND, {1: None}), []),
    ],
)
def test_a_change_gives_the_deltas_it_makes(
    before: list[Change], change: Change, deltas: list[Delta]
) -> None:
    image = MetadataImage()
    for row in before:
        image.apply(row)
    assert image.apply(change) == deltas


names = st.sampled_from("ab")
numbers = st.integers(0, 3)
configs = st.dictionaries(names, names, max_size=1)
states = st.builds(
    PartitionState,
    st.sampled_from([(1,), (1, 2)]),
    st.just((1,)),
    st.sampled_from([1, 2, NO_LEADER]),
    numbers,
    numbers,
)
topics = st.builds(
    lambda name, life, partitions, own: TopicRow(
        name, uuid.UUID(int=life * 2 + (name == "b")), tuple(partitions), own
    ),
    names,
    numbers,
    st.lists(states, min_size=1, max_size=3),
    configs,
)
rows: st.SearchStrategy[Row] = st.one_of(
    topics,
    st.builds(TopicGoneRow, names),
    st.builds(LeaderEpochRow, numbers),
    st.builds(ClusterRow, names),
    st.builds(BrokerConfigRow, names, configs),
    st.builds(GroupConfigRow, names, configs),
    st.builds(ClientQuotaRow, st.just(ANNA), st.dictionaries(names, st.just(1.0), max_size=1)),
    st.builds(ScramRow, names, st.just(1), st.none() | st.just(CREDENTIAL)),
    st.builds(ProducerIdsRow, numbers),
)
changes: st.SearchStrategy[Change] = st.one_of(
    rows,
    st.builds(FeatureRow, names, numbers, numbers),
    st.builds(lambda number: BrokerRow(RegisteredBroker(number, {}, epoch=number)), numbers),
    st.builds(ControllerRow, numbers),
    st.builds(
        lambda alive: BrokersRow(tuple(RegisteredBroker(one, {}, epoch=one) for one in alive)),
        st.lists(numbers, unique=True),
    ),
    st.builds(TopicConfigRow, names, configs),
    st.builds(
        lambda name, life, told: TopicStatesRow(name, uuid.UUID(int=life * 2 + (name == "b")), told),
        names,
        numbers,
        st.dictionaries(numbers, st.none() | states, min_size=1, max_size=3),
    ),
)


def never_shrinking(written: Iterable[Change]) -> Iterable[Change]:
    """No broker takes partitions from a topic."""
    widths: dict[uuid.UUID, int] = {}
    for row in written:
        if isinstance(row, TopicRow):
            if row.partitions < widths.get(row.topic_id, 0):
                continue
            widths[row.topic_id] = row.partitions
        yield row


@given(st.lists(changes, max_size=30))
def test_deltas_say_all_that_the_image_knows(written: list[Change]) -> None:
    image, shadow = MetadataImage(), Shadow()
    for row in never_shrinking(written):
        for delta in image.apply(row):
            shadow.apply(delta)
        shadow.check(image)
        assert image.apply(row) == [], "a second time nothing changes"


@given(st.lists(changes, max_size=30))
def test_a_snapshot_says_all_that_the_image_knows(written: list[Change]) -> None:
    image, shadow = MetadataImage(), Shadow()
    for row in written:
        image.apply(row)
    for delta in image.snapshot():
        shadow.apply(delta)
    shadow.check(image)


@given(st.lists(rows, max_size=30), st.randoms(use_true_random=False))
def test_the_last_row_of_every_key_is_enough_in_any_order(written: list[Row], dice: random.Random) -> None:
    """Compaction leaves these rows, with the least leader epoch before or after the topics it was written for."""
    lived = MetadataImage()
    least = 0
    last: dict[bytes | None, Row] = {}
    for row in never_shrinking(written):
        if isinstance(row, LeaderEpochRow):  # It only rises.
            least += row.epoch
            row = LeaderEpochRow(least)
        elif isinstance(row, TopicRow):  # Written as it is known: a decision is made on the image.
            known = lived.topic(row.name)
            if known is not None and known.topic_id == row.topic_id:
                kept = zip(known.states, row.states, strict=False)
                later = [old if old.leader_epoch > new.leader_epoch else new for old, new in kept]
                grown = (*later, *row.states[len(later) :])
                row = TopicRow(row.name, row.topic_id, grown, row.configs)
        assert not isinstance(row, Told)
        lived.apply(row)
        last[encode(row, 0).key] = row
    left = list(last.values())
    dice.shuffle(left)
    read = MetadataImage()
    for row in left:
        read.apply(row)
    assert read == lived
    for topic in read:
        assert all(state.leader_epoch >= least for state in topic.states), "no lost record had its epoch"
