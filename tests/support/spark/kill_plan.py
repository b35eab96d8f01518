"""Who is killed when, in a part of the campaign: every victim at every step of the sink, then anybody at any time. Pure.

A plan is a list of lives of a driver. In each life every query of the driver has a few kills that the driver survives, and a last one
that takes it along, so that one death of a driver meets all of its queries, each at a step of its own.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from semel.spark.sink.atomic.shared_transaction import Step as AtomicStep
from semel.spark.sink.dropin.committing import Step as DropinStep

DRIVER, ZOMBIE, WORKER, EXECUTOR, BROKER = (
    "driver",
    "driver, as a zombie",
    "Python worker",
    "executor",
    "broker",
)
WORKER_AND_BROKER: Final = "Python worker and broker"
TASK_BEGUN, TASK_WROTE = "task begun", "task wrote"
STEPS: Final[Mapping[str, Sequence[str]]] = {
    "atomic": [*(one.value for one in AtomicStep), TASK_BEGUN, TASK_WROTE],
    "dropin": [TASK_BEGUN, TASK_WROTE, *(one.value for one in DropinStep)],
    "spark": [TASK_BEGUN],
}
"""Where a query of each sink can be stopped."""
CALM_STEP: Final = {
    "atomic": AtomicStep.BEGUN.value,
    "dropin": DropinStep.SWEPT.value,
    "spark": TASK_BEGUN,
}
"""Where nothing of a batch is under way, or little."""
ENDED_STEPS: Final = frozenset({AtomicStep.COMMITTED.value, DropinStep.ENDED.value, DropinStep.SWEPT.value})
"""From these on the batch itself is seen."""
UNSETTLED_STEPS: Final = frozenset(
    {AtomicStep.BEGUN.value, AtomicStep.LEDGER_READ.value, AtomicStep.IDENTIFIED.value}
)
"""Up to these a new driver does not know yet whether the one before has stored the batch."""
FIRST_STEPS: Final = frozenset({AtomicStep.LEDGER_READ.value, AtomicStep.LEDGER_SETTLED.value})
"""Only in the first batch after a start."""
ZOMBIE_STEPS: Final[Mapping[str, Sequence[str]]] = {
    "atomic": ["identified", TASK_WROTE, "written", "group added", "batch stored"],
    "dropin": [TASK_WROTE, "taken", "checked"],
}
"""Where a driver that was taken for dead still has something to do that must not count."""


_SURVIVED: Final = 3
"""So many kills a query has in each life before the one that takes its driver along."""


class Kill(NamedTuple):
    """Who dies, and at which step; without one, at any time."""

    who: str
    step: str | None = None

    @property
    def ends_the_life(self) -> bool:
        return self.who in (DRIVER, ZOMBIE)

    def __str__(self) -> str:
        return f"{self.who} at {self.step!r}" if self.step else f"{self.who} at random"


Life: TypeAlias = Sequence[Sequence[Kill]]
"""The kills of each query."""


def plan(sink: str, *, runs: int, queries: int, on_cluster: bool, seed: int) -> list[Life]:
    """Lives with `runs` kills or a few more: named steps first, in an order of the seed, then random ones.

    The last life has no death of its driver: somebody must see that all is well.
    """
    dice = random.Random(seed)
    around, deaths = _around(sink, on_cluster, dice), _deaths(sink, on_cluster, dice, queries)

    def survived() -> list[list[Kill]]:
        return [[next(around) for _ in range(_SURVIVED)] for _ in range(queries)]

    lives = list[Life]()
    while not lives or len(lives) * (_SURVIVED + 1) * queries + _SURVIVED * queries < runs:
        lives.append([[*kills, last] for kills, last in zip(survived(), next(deaths), strict=True)])
    return [*lives, survived()]


def _around(sink: str, on_cluster: bool, dice: random.Random) -> Iterator[Kill]:
    victims = [WORKER, BROKER, *([EXECUTOR] if on_cluster else [])]
    named = [Kill(who, step) for who in victims for step in STEPS[sink]]
    dice.shuffle(named)
    yield from named
    while True:
        yield Kill(dice.choice([*victims, WORKER_AND_BROKER]))


def _deaths(sink: str, on_cluster: bool, dice: random.Random, queries: int) -> Iterator[list[Kill]]:
    """The end of each life: what its driver's death finds its queries at."""
    named = [Kill(DRIVER, step) for step in STEPS[sink]]
    dice.shuffle(named)
    while named:
        now, named = named[:queries], named[queries:]
        yield [*now, *(Kill(DRIVER, dice.choice(STEPS[sink])) for _ in range(queries - len(now)))]
    while True:
        yield [Kill(DRIVER)] * queries
        if not on_cluster and sink in ZOMBIE_STEPS:
            yield [Kill(ZOMBIE, dice.choice(ZOMBIE_STEPS[sink])) for _ in range(queries)]
        yield [Kill(DRIVER, dice.choice(STEPS[sink])) for _ in range(queries)]
