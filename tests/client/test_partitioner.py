"""Keys go where every other client sends them.

Method: the Java client's published hashes, and kafka-python's own code on keys by property.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"abc", 479470107),
    ],
)
def test_the_hashes_of_the_java_client(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


@given(key=st.binary(max_size=40), partitions=st.integers(1, 100))
def test_partitions_are_those_of_kafka_python(key: bytes, partitions: int) -> None:
    from kafka.partitioner.default import murmur2 as theirs

    assert murmur2(key) == theirs(key) & 0xFFFFFFFF
    assert partition_for_key(key, partitions) == (theirs(key) & 0x7FFFFFFF) % partitions
