"""Where rows go: as Kafka's own producer would send them, decided on columns.

Method: the plain partitioner, key by key, is the reference for the columns' result.
"""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.client.partitioner import partition_for_key
from semel.spark.sink.atomic.routing import NOWHERE, Router

COUNTS = {"orders": 7, "bills": 3}

rows = st.lists(
    st.tuples(
        st.sampled_from(["orders", "bills"]),
        st.none() | st.binary(max_size=12),
        st.none() | st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(given_rows=rows)
def test_a_partition_that_is_named_wins_then_the_key_then_one_for_all(
    given_rows: list[tuple[str, bytes | None, int | None]],
) -> None:
    topics, keys, partitions = zip(*given_rows, strict=True)
    router = Router(COUNTS.get, topic=None, first=4)
    found = router.targets(
        len(given_rows),
        topics=pa.array(topics, pa.string()),
        keys=pa.array(keys, pa.binary()),
        partitions=pa.array(partitions, pa.int32()),
    )
    for (topic, key, partition), target in zip(given_rows, found.to_pylist(), strict=True):
        if partition is not None:
            assert target == partition
        elif key is not None:
            assert target == partition_for_key(key, COUNTS[topic])
        else:
            assert target == 5 % COUNTS[topic]


def test_one_topic_needs_no_column_and_keys_may_be_text() -> None:
    router = Router({"orders": 7}.get, topic="orders")
    keys = pa.array(["a", "b", None, "käse"])
    found = router.targets(4, topics=None, keys=keys, partitions=None).to_pylist()
    assert [found[0], found[1], found[3]] == [
        partition_for_key(key.encode(), 7) for key in ("a", "b", "käse")
    ]
    assert found[2] == 1


def test_keyless_rows_take_turns_batch_by_batch() -> None:
    router = Router({"orders": 3}.get, topic="orders", first=1)
    turns = [router.targets(2, topics=None, keys=None, partitions=None).to_pylist() for _ in range(4)]
    assert turns == [[2, 2], [0, 0], [1, 1], [2, 2]]


def test_what_cannot_be_is_left_to_the_task_that_refuses_it() -> None:
    router = Router(COUNTS.get, topic=None)
    topics = pa.array(["nowhere", None, "orders"])
    given_partitions = pa.array([None, None, 99], pa.int32())
    found = router.targets(3, topics=topics, keys=pa.array([b"k", b"k", b"k"]), partitions=given_partitions)
    assert found.to_pylist() == [NOWHERE, NOWHERE, 99]
    assert found.type == pa.int32()
