"""Rows come back from their records as they went in, and what cannot be read says where it is and why.

Method: round trips by property; records by hand that are wrong in one way each.
"""

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.metadata.partition_state import PartitionState, alone
from semel.core.metadata.rows import (
    BrokerConfigRow,
    ClientQuotaRow,
    ClusterRow,
    FeatureRow,
    GroupConfigRow,
    LeaderEpochRow,
    ProducerIdsRow,
    Row,
    ScramRow,
    TopicGoneRow,
    TopicRow,
    decode,
    encode,
)
from semel.core.records.batch import read_header
from semel.core.records.build import Record, build_batch, iter_records
from semel.core.security.scram_credentials import Credential
from semel.errors import CorruptLogError

BROKER = 3
texts = st.text(max_size=20)
configs = st.dictionaries(texts, texts, max_size=3)
keys = st.binary(max_size=64)
credentials = st.builds(Credential, st.integers(1, 2**31 - 1), keys, keys, keys)
epochs = st.integers(0, 2**31 - 1) | st.sampled_from([0, 1])
states = st.lists(epochs, max_size=9).map(
    lambda leader_epochs: tuple(alone(BROKER, 1)[0].led_from(epoch) for epoch in leader_epochs)
)
rows = st.one_of(
    st.builds(ClusterRow, texts),
    st.builds(TopicRow, texts, st.uuids(), states, configs),
    st.builds(LeaderEpochRow, st.integers(0, 2**31 - 1)),
    st.builds(TopicGoneRow, texts),
    st.builds(BrokerConfigRow, texts, configs),
    st.builds(ProducerIdsRow, st.integers(0, 2**63 - 1)),
    st.builds(GroupConfigRow, texts, configs),
    st.builds(
        ClientQuotaRow,
        st.lists(st.tuples(texts, st.none() | texts), max_size=2).map(tuple),
        st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=2),
    ),
    st.builds(ScramRow, texts, st.sampled_from([1, 2]), st.none() | credentials),
    st.builds(FeatureRow, texts, st.integers(0, 9), st.integers(0, 2**31)),
)


@given(st.lists(rows, min_size=1, max_size=5))
def test_rows_come_back_from_a_batch(written: list[Row]) -> None:
    data = build_batch([encode(row, 1234) for row in written])
    records = list(iter_records(data, 0, read_header(data)))
    assert [decode(record, BROKER) for record in records] == written
    assert {record.timestamp_ms for record in records} == {1234}


def test_a_row_replaces_the_one_with_the_same_key() -> None:
    """So the log can be compacted: everything about one subject has one key."""
    orders = TopicRow("orders", uuid.UUID(int=1), alone(BROKER, 1))
    assert encode(orders, 0).key == encode(TopicRow("orders", uuid.UUID(int=2), alone(BROKER, 9)), 0).key
    assert encode(orders, 0).key == encode(TopicGoneRow("orders"), 0).key
    assert encode(TopicGoneRow("orders"), 0).value is None, "a tombstone"
    keys = {
        encode(row, 0).key
        for row in (
            orders,
            TopicGoneRow("x"),
            BrokerConfigRow("orders"),
            ClusterRow("orders"),
            ProducerIdsRow(0),
        )
    }
    assert len(keys) == 5, "subjects of different kinds never share one"


def test_bytes_are_the_same_whatever_the_order_of_settings() -> None:
    one = TopicRow("orders", uuid.UUID(int=1), alone(BROKER, 1), {"a": "1", "b": "2"})
    other = TopicRow("orders", uuid.UUID(int=1), alone(BROKER, 1), {"b": "2", "a": "1"})
    assert encode(one, 0) == encode(other, 0)


def test_a_topic_reads_as_it_was_written_before_rows_had_leader_epochs() -> None:
    value = (
        b'{"configs":{"a":"1"},"partitions":3,"topic_id":"00000000-0000-0000-0000-000000000001","version":1}'
    )
    row = TopicRow("orders", uuid.UUID(int=1), alone(BROKER, 3), {"a": "1"})
    assert decode(record(b"topic/orders", value), BROKER) == row
    assert encode(row, 0).value == value, "and earlier versions read it"
    assert row.states == (PartitionState((BROKER,), (BROKER,), BROKER, 0, 0),) * 3


def test_leader_epochs_are_kept_as_runs() -> None:
    first, later = alone(BROKER, 2), alone(BROKER, 1)[0].led_from(7)
    value = encode(TopicRow("orders", uuid.UUID(int=1), (*first, later, later)), 0).value
    assert value is not None
    assert json.loads(value)["leader_epochs"] == [[2, 0], [2, 7]]


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(offset=17, timestamp_ms=0, key=key, value=value, headers=(), sequence=-1)


def test_fields_nobody_knows_are_passed_over() -> None:
    value = json.dumps({"version": 1, "cluster_id": "c", "new": [1]}).encode()
    assert decode(record(b"cluster", value), BROKER) == ClusterRow("c")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"cluster", b'{"version":2,"cluster_id":"c"}', "version 2 is not known, only 1 is"),
        (b"cluster", b'{"cluster_id":"c"}', "version"),
        (b"cluster", b"{", "cannot be read"),
        (b"cluster", b"[]", "cannot be read"),
        (b"cluster", None, "cannot be read"),
        (b"topic/orders", b'{"version":1,"partitions":1,"configs":{}}', "topic_id"),
        (b"topic/orders", b'{"version":1,"topic_id":"x","partitions":1,"configs":{}}', "badly formed"),
        (
            b"topic/orders",
            b'{"version":1,"topic_id":"00000000-0000-0000-0000-000000000001","partitions":2,"leader_epochs":[[1,4]]}',
            "2 partitions have 1 leader epochs",
        ),
        (b"producer-ids", b'{"version":1,"next_block":"many"}', "many"),
        (b"unheard/of", b'{"version":1}', "of no kind this version knows"),
        (None, b'{"version":1}', "of no kind this version knows"),
        (b"\xff", b'{"version":1}', "of no kind this version knows"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(key: bytes | None, value: bytes | None, why: str) -> None:
    with pytest.raises(CorruptLogError, match=why) as refused:
        decode(record(key, value), BROKER)
    assert "offset 17" in str(refused.value)
