"""Every kind of fault once: none forgotten, none twice but for want of an effect, and then the run ends.

Method: the disturber's own choice, with faults that only say that they were done.
"""

import asyncio
import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.verify.faults import disturber
from semel.verify.faults.disturber import CUT_OFF, DRIVER, FAULTS, FREEZE, KILL, NETWORK, TORN, Disturber
from semel.verify.proof.programs import Stage


@dataclass(slots=True)
class Saying(Disturber):
    """Faults take no time; those named in `idle` have an effect only at the given try."""

    idle: dict[str, int] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)

    async def _do(self, kind: str, way: str) -> tuple[str, bool]:
        self.done.append((kind, way))
        tries = sum(one == kind for one, _way in self.done)
        return f"{kind} {way}{': nobody met it' if tries < self.idle.get(kind, 0) else ''}", False


def played(seed: int, chosen: tuple[str, ...] = FAULTS, **idle: int) -> Saying:
    stage = Stage({}, "run", iter(range(10**9)).__next__, 10**9, 1, 0.0, 1000)
    proxy = cast("Any", SimpleNamespace(plan=None))
    broker = cast("Any", SimpleNamespace(age_seconds=100.0))
    saying = Saying(stage, proxy, random.Random(seed), 1e-6, broker, chosen, once=True, idle=idle)
    asyncio.run(saying.run())
    return saying


def test_every_kind_that_can_be_played_is_played_once() -> None:
    saying = played(1)
    ways = list(disturber._WAY)
    assert sorted(way for kind, way in saying.done if kind == NETWORK) == sorted(ways)
    others = [kind for kind, _way in saying.done if kind != NETWORK]
    assert sorted(others) == sorted(set(FAULTS) - {NETWORK, CUT_OFF, DRIVER})
    assert saying.played == {NETWORK: len(ways), **dict.fromkeys(others, 1)}
    assert saying.impossible() == [CUT_OFF, DRIVER]
    assert saying.stage.is_over()
    assert len(saying.stage.history) == len(saying.done)


def test_the_seed_decides_the_order() -> None:
    assert played(1).done == played(1).done
    assert played(1).done != played(2).done


@pytest.mark.parametrize(("needed", "tries"), [(2, 2), (3, 3), (99, 3)])
def test_a_fault_without_effect_is_played_again_a_few_times(needed: int, tries: int) -> None:
    saying = played(1, (KILL, FREEZE, TORN), **{TORN: needed})
    assert saying.played == {KILL: 1, FREEZE: 1, TORN: tries}
    assert saying.stage.is_over()
