"""Twelve partitions of three topics and a group's offsets: all of a transaction or nothing, wherever the broker dies.

Method: whole worlds on the simulated runtime, in each of which the broker dies tens of times, inside changes of its disk and
between them; `make campaign` plays as many as give ten thousand deaths. Then the broker is broken on purpose.
"""

from collections.abc import Awaitable
from typing import Any

import pytest

from semel.broker.markers import Markers
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.verify.scenarios import wide_transactions
from story_kit import must_be_noticed, must_be_reproduced, run_random_seeds

_FIXED = 2


@pytest.mark.mission("TXN-14")
@pytest.mark.parametrize("seed", range(_FIXED))
def test_fixed_seeds(seed: int) -> None:
    story = wide_transactions.Story(seed)
    story.run()
    print(f"{story.deaths} deaths")
    assert story.deaths >= wide_transactions.DEATHS // 4  # Some that were planned fell together.


def test_random_seeds() -> None:
    run_random_seeds(wide_transactions.run, 2)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("wide_transactions", 2)


def test_a_topic_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions of the third topic are told of an abort."""
    write = Markers.write

    def torn(
        self: Markers, topic_partition: TopicPartition, *, commit: bool, **more: Any
    ) -> ErrorCode | Awaitable[ErrorCode]:
        return write(self, topic_partition, commit=commit and topic_partition.topic != "others", **more)

    monkeypatch.setattr(Markers, "write", torn)
    must_be_noticed(wide_transactions.run, "is torn", range(2))
