"""What an earlier Semel left in topics and checkpoints is read, and written again byte for byte.

Method: the bytes as they were found, written out here; names under which brokers know a sink. A query goes on from its checkpoint
after an upgrade only if none of this changes.
"""

import json

from semel.spark.sink.common import names
from semel.spark.sink.dropin.batch_ledger import LedgerRow, Place, TaskTransaction
from semel.spark.source.offsets import as_json, began_in, from_json
from semel.types import TopicPartition

QUERY = "0b1c9a3e-7a43-4a63-b9ef-5f0c2c5e8d11"
ROW = (
    b'{"version":1,"query_id":"0b1c9a3e-7a43-4a63-b9ef-5f0c2c5e8d11","batch_id":41,"run_id":"6f1e0d2c9b8a","tasks":['
    b'[0,"semel-sink:orders:6f1e0d2c9b8a:0.0",4001,7,125000,"k1f2e3d4c-v9a8b7c6d",1789000000123],'
    b'[1,"semel-sink:orders:6f1e0d2c9b8a:1.1-905",4002,0,3,"k00000000-v0badf00d",1789000000456]]}'
)
NOTE = "0b1c9a3e-7a43-4a63-b9ef-5f0c2c5e8d11 6f1e0d2c9b8a 41"
OFFSETS = '{"orders": {"0": 17, "9": 2, "10": 0}, "payments": {"0": 5}}'
FIRST_OFFSETS = '{"orders": {"0": 17}, "first batch began at": {"orders": {"0": 3}}}'


def test_a_row_of_the_drop_in_ledger() -> None:
    row = LedgerRow.decoded(ROW)
    assert row == LedgerRow(
        QUERY,
        41,
        (
            TaskTransaction(
                0,
                "semel-sink:orders:6f1e0d2c9b8a:0.0",
                4001,
                7,
                125_000,
                "k1f2e3d4c-v9a8b7c6d",
                1789000000123,
            ),
            TaskTransaction(
                1, "semel-sink:orders:6f1e0d2c9b8a:1.1-905", 4002, 0, 3, "k00000000-v0badf00d", 1789000000456
            ),
        ),
        "6f1e0d2c9b8a",
    )
    assert row.encoded() == ROW


def test_the_note_beside_the_pointer_to_a_row() -> None:
    place = Place.of_note(NOTE)
    assert place == Place(QUERY, "6f1e0d2c9b8a", 41)
    assert place is not None
    assert place.as_note() == NOTE


def test_offsets_of_a_checkpoint() -> None:
    kept = {
        TopicPartition("orders", 0): 17,
        TopicPartition("orders", 9): 2,
        TopicPartition("orders", 10): 0,
        TopicPartition("payments", 0): 5,
    }
    assert from_json(json.loads(OFFSETS)) == kept
    assert json.dumps(as_json(kept)) == OFFSETS


def test_offsets_of_a_first_batch() -> None:
    ended, began = {TopicPartition("orders", 0): 17}, {TopicPartition("orders", 0): 3}
    kept = json.loads(FIRST_OFFSETS)
    assert (from_json(kept), began_in(kept)) == (ended, began)
    assert json.dumps(as_json(ended, began=began)) == FIRST_OFFSETS


def test_names_under_which_brokers_know_a_sink() -> None:
    assert names.ATOMIC_LEDGER_TOPIC == "__semel_sinks"
    assert names.DROP_IN_LEDGER_TOPIC == "__semel_sink_ledger"
    assert names.atomic_id("orders") == "semel-sink-orders"
    assert names.prefix_of("orders") == "semel-sink:orders:"
    assert names.run_prefix("orders", "6f1e0d2c9b8a") == "semel-sink:orders:6f1e0d2c9b8a:"
    assert names.ledger_id("orders") == "semel-ledger:orders"
    assert names.over_id("orders", "6f1e0d2c9b8a") == "semel-ledger:orders:6f1e0d2c9b8a"
