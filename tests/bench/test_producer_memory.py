"""A producer's memory is bounded by its configuration, however much is written.

Method: a process of its own writes many times its `buffer.memory` to a broker; the peak of its resident memory must not have
grown by more than a few times that. `python -m semel.bench.producer_memory` writes 10 GB.
"""

import pytest

from semel.bench.producer_memory import WAYS, as_text, measure

_BUFFER_BYTES = 8 << 20
_WRITTEN_BYTES = 25 * _BUFFER_BYTES


@pytest.mark.parametrize("way", WAYS)
def test_writing_much_takes_no_more_than_the_buffer(way: str) -> None:
    peak = measure(_WRITTEN_BYTES, buffer_memory_bytes=_BUFFER_BYTES, record_bytes=4000, way=way)
    print(as_text(peak))
    assert peak.written_bytes >= _WRITTEN_BYTES
    assert peak.held_bytes < 4 * _BUFFER_BYTES
