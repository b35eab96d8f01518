"""A reader of committed records passes over a control batch whose marker the cleaner took out."""

from semel.core.records.batch import read_header
from semel.core.records.build import RecordInput, build_batch
from semel.core.records.control import build_marker
from semel.core.records.visibility import CommittedOnly


def test_a_control_batch_without_its_marker_ends_nothing() -> None:
    is_shown = CommittedOnly([(1, 0)])
    data = build_batch([RecordInput(None, b"void", 1)], transactional=True, producer_id=1, producer_epoch=0)
    emptied = build_batch([], control=True, transactional=True, producer_id=1, producer_epoch=0)
    marker = build_marker(producer_id=1, producer_epoch=0, coordinator_epoch=0, commit=False, timestamp_ms=1)
    assert not is_shown(data, 0, read_header(data))
    assert is_shown(emptied, 0, read_header(emptied))
    assert not is_shown(data, 0, read_header(data)), "the transaction goes on"
    assert is_shown(marker, 0, read_header(marker))
    assert is_shown(data, 0, read_header(data)), "and is over"
