"""kill -9 in the middle of ten commits: every partition has the marker of every transaction that is called complete.

Method: the rounds of `markers_story`, with librdkafka. On a busy machine Apache Kafka 4.3.1 misses a marker in every other round
(`python tests/support/transactions/markers_story.py --broker kafka`, docs/transactions.md); Semel must in none.
"""

import random
from pathlib import Path

import pytest

from support.compat.compat_kit import BrokerProcess
from support.transactions.markers_story import play


@pytest.mark.mission("TXN-07")
def test_no_transaction_is_complete_without_its_markers(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        for number in range(3):
            assert play(broker, number, random.Random(number)) == []
