"""What the log benchmark publishes of memory must hold as a budget, not only as a figure."""

import pytest

from semel.bench.log import memory_per_producer


@pytest.mark.mission("PST-12")
def test_a_producer_costs_at_most_a_kibibyte() -> None:
    assert 100 < memory_per_producer(2_000) <= 1024
