"""The promises of elections: a pure judgement over what ZooKeeper held.

Rules.  * Every epoch has one leader, and the next epoch is the next number.
        * Every write with an epoch was made by its leader.
        * Nothing is written with an epoch once a later one was written with.
"""

from collections.abc import Iterator

from semel.verify.history.events import Elected, Wrote
from semel.verify.history.run import History
from semel.verify.simulation.invariants import Broken


def judge(history: History) -> list[Broken]:
    """Everything that is broken."""
    return [*_elections(history), *_writes(history)]


def _elections(history: History) -> Iterator[Broken]:
    epoch = 0
    for one in history.of(Elected):
        if one.epoch != epoch + 1:
            yield Broken(f"epoch {one.epoch} of {one.elector} follows epoch {epoch}", at=one.at)
        epoch = one.epoch


def _writes(history: History) -> Iterator[Broken]:
    leaders = {one.epoch: one.elector for one in history.of(Elected)}
    last: Wrote | None = None
    for one in history.of(Wrote):
        if leaders.get(one.epoch) != one.elector:
            yield Broken(
                f"{one.elector} wrote with epoch {one.epoch}, which {leaders.get(one.epoch)} leads", at=one.at
            )
        if last is not None and one.epoch < last.epoch:
            yield Broken(
                f"{one.elector} wrote with epoch {one.epoch} after {last.elector} had with {last.epoch}",
                at=one.at,
            )
        last = one
