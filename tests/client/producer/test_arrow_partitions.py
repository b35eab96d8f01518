"""Rows of columns go where their partition, their key or their turn says, and keep their order there.

Method: random rows by property; the plain partitioner, row by row, is the reference. Batches are decoded and compared with it.
"""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.client.cluster import PartitionView, TopicView
from semel.client.partitioner import partition_for_key
from semel.client.producer.arrow import Columns
from semel.client.producer.encoding import Codec
from semel.client.producer.intake import RoundRobin
from semel.client.producer.topics import KnownTopic
from semel.client.settings import ProducerConfig
from semel.core.client.sticky import Sticky
from semel.core.records.arrow import decode_batches
from semel.exceptions import IllegalArgumentException

Row = tuple[bytes | None, int | None]
KEY_TYPES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.null())
PARTITION_TYPES = (pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64())


def known(count: int) -> KnownTopic:
    partitions = tuple(PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(count))
    return KnownTopic(TopicView("t", uuid.uuid4(), False, partitions), Sticky(1, lambda _bits: 0), 0)


def columns(partitioner: RoundRobin | None = None) -> Columns:
    return Columns(ProducerConfig.of({"bootstrap.servers": "a:1"}), Codec(0, None, False), partitioner)


def batch_of(rows: Sequence[Row], keys: pa.DataType, partitions: pa.DataType) -> pa.RecordBatch:
    values = [b"%d" % number for number in range(len(rows))]
    named = [partition for _key, partition in rows]
    return pa.record_batch(
        {
            "key": pa.array([None if pa.types.is_null(keys) else key for key, _partition in rows], keys),
            "value": values,
            "partition": pa.array(named, partitions),
        }
    )


def placed(made: Columns, rows: pa.RecordBatch, count: int) -> dict[int | None, list[Any]]:
    """The values of each partition, in order."""
    found = defaultdict[int | None, list[Any]](list)
    for partition, batch in made.batches(rows, known(count), timestamp_ms=5):
        found[partition] += decode_batches(batch.data, check_crcs=False).records.column("value").to_pylist()
    return dict(found)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.none() | st.binary(max_size=6), st.none() | st.integers(0, 99)), min_size=1, max_size=40
    ),
    count=st.integers(1, 9),
    keys=st.sampled_from(KEY_TYPES),
    partitions=st.sampled_from((*PARTITION_TYPES, pa.null())),
    is_sliced=st.booleans(),
    turns=st.none() | st.integers(0, 12),
)
def test_every_row_goes_where_the_plain_partitioner_says(
    rows: list[Row],
    count: int,
    keys: pa.DataType,
    partitions: pa.DataType,
    is_sliced: bool,
    turns: int | None,
) -> None:
    rows = [
        (key, None if place is None or pa.types.is_null(partitions) else place % count) for key, place in rows
    ]
    partitioner = None
    if turns is not None:
        partitioner = RoundRobin()
        partitioner.take("t", turns)
    given_rows = batch_of(rows, keys, partitions)
    if is_sliced:
        around = pa.Table.from_batches([given_rows, given_rows, given_rows]).combine_chunks()
        given_rows = around.slice(len(rows), len(rows)).to_batches()[0]

    wanted = defaultdict[int | None, list[Any]](list)
    turn = turns or 0
    for number, (key, partition) in enumerate(rows):
        target = partition
        if partition is None and turns is not None:
            target, turn = turn % count, turn + 1
        elif partition is None and key is not None and not pa.types.is_null(keys):
            target = partition_for_key(key, count)
        wanted[target].append(b"%d" % number)
    found = placed(columns(partitioner), given_rows, count)
    if count == 1:  # Rows for any partition and those for the only one are not divided.
        assert [one for values in found.values() for one in values] == [
            b"%d" % number for number in range(len(rows))
        ]
    else:
        assert found == wanted
    if partitioner is not None:
        assert partitioner.take("t", 0) == turn, "rows with a partition take no turn"


@pytest.mark.parametrize("count", [2, 300, 70_000])
def test_many_rows_keep_their_order_whatever_the_number_of_partitions(count: int) -> None:
    """Arrow counts where numbers are small, and compares where they are not."""
    rows: list[Row] = [(None, number * 7919 % count) for number in range(5_000)]
    found = placed(columns(), batch_of(rows, pa.null(), pa.int64()), count)
    wanted = defaultdict[int | None, list[Any]](list)
    for number, (_key, partition) in enumerate(rows):
        wanted[partition].append(b"%d" % number)
    assert found == wanted
    assert [*found] == sorted(one for one in wanted if one is not None)


@pytest.mark.parametrize("kind", PARTITION_TYPES, ids=str)
def test_a_partition_the_topic_lacks_is_named_with_its_row(kind: pa.DataType) -> None:
    wrong = [3, 127]
    wrong += [] if pa.types.is_unsigned_integer(kind) else [-1]
    wrong += [2**64 - 1, 2**63] if kind == pa.uint64() else []
    for partition in wrong:
        rows = batch_of([(b"k", None), (b"k", 2), (b"k", partition)], pa.binary(), kind)
        with pytest.raises(
            IllegalArgumentException, match=rf"row 12: partition {partition}, t has 3 partitions"
        ):
            list(columns().batches(rows, known(3), timestamp_ms=5, rows_before=10))
