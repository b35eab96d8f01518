"""Where an example finds its broker: the address given as its first argument, or one inside this process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from semel import Broker


@contextmanager
def bootstrap() -> Iterator[str]:
    """`python examples/….py` starts a broker of its own; `python examples/….py localhost:9092` uses that one."""
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    with Broker(
        group_initial_rebalance_delay_ms=0
    ) as broker:  # Nobody else is about to join the groups here.
        yield broker.bootstrap
