"""A digest of a task's rows tells whether they are the same.

Method: digests by property, cutting the same rows in different ways and changing one cell.
"""

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semel.spark.sink.dropin.digest import Digest

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
text = st.text(max_size=6)
header = st.fixed_dictionaries({"key": text, "value": st.none() | st.binary(max_size=4)})
rows = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(["a", "b"]),
            "key": st.none() | st.binary(max_size=5),
            "value": st.none() | text,
            "headers": st.none() | st.lists(header, max_size=2),
            "partition": st.none() | st.integers(0, 9),
            "timestamp": st.none() | st.integers(0, 2**50),
        }
    ),
    min_size=1,
    max_size=12,
)


def digest_of(*batches: pa.RecordBatch) -> tuple[int, str]:
    digest = Digest()
    for batch in batches:
        digest.add(batch)
    return digest.rows, digest.text


@given(given_rows=rows, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_the_digest_does_not_depend_on_batches(given_rows: list[dict[str, object]], cuts: list[int]) -> None:
    whole = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    edges = sorted({0, *(min(cut, len(given_rows)) for cut in cuts), len(given_rows)})
    parts = [whole.slice(start, end - start) for start, end in itertools.pairwise(edges)]
    assert digest_of(*parts) == digest_of(whole)


@given(given_rows=rows, data=st.data())
def test_the_digest_sees_every_cell(given_rows: list[dict[str, object]], data: st.DataObject) -> None:
    whole = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    changed = [dict(one) for one in given_rows]
    index = data.draw(st.integers(0, len(changed) - 1))
    column = data.draw(st.sampled_from(SCHEMA.names))
    other = data.draw(rows)[0][column]
    changed[index][column] = other
    again = pa.RecordBatch.from_pylist(changed, schema=SCHEMA)
    assert (digest_of(again) == digest_of(whole)) == (again.equals(whole))


def test_a_digest_of_an_earlier_semel() -> None:
    """Rows of a batch that an earlier version decided, and this one completes: their digests are in its ledger."""
    rows_then = [
        {"key": b"k", "value": "one", "topic": "a", "partition": 3, "timestamp": 1_700_000_000_000_000},
        {"key": None, "value": None, "topic": "b", "headers": [{"key": "h", "value": b"\x00"}]},
    ]
    assert digest_of(pa.RecordBatch.from_pylist(rows_then, schema=SCHEMA)) == (
        2,
        "h625cc87a-hb96298fc-hc514cfad-h527d5351-hc514cfad-kaa326b08-k74336e59-p5188fa19-pe2c3efa5-t915003de-te2c3efa5-te2a22936-tf940ea33-v2a94b2e9-v95c70354",
    )


def test_the_digest_sees_the_order() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
    assert digest_of(batch) != digest_of(batch.take([1, 0]))


def test_bytes_behind_nulls_do_not_count() -> None:
    """The same rows with other bytes where there is nothing, as a filter may leave them."""
    values = pa.array(["aa", "xx", "bb"], pa.string())
    hidden = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(bytes([0b101])), *values.buffers()[1:]], null_count=1
    )
    plain = pa.array(["aa", None, "bb"], pa.string())
    assert hidden.equals(plain)
    assert digest_of(pa.RecordBatch.from_arrays([hidden], ["value"])) == digest_of(
        pa.RecordBatch.from_arrays([plain], ["value"])
    )
