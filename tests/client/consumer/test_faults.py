"""A group of our consumers loses nothing and ends at the end, whatever happens to them, to the broker and to the network.

Method: seeded worlds, told in tests/support/client/consumer_faults.py: every record is handed to somebody, nobody is handed one twice in a turn, and
what is committed in the end is the end. Run that file for more seeds than these.
"""

import pytest

from support.client import consumer_faults


@pytest.mark.parametrize("kind", consumer_faults.SETTINGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_whatever_happens(seed: int, kind: str) -> None:
    consumer_faults.run(seed, kind, rounds=8)
