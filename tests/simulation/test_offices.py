"""Three members that direct their cluster themselves, through everything that befalls a controller.

Method: whole worlds on the simulated runtime, each from one integer: real brokers that all stand for election, ZooKeeper's stand-in,
idempotent producers with acks=all. And a look at the judgement itself: without the fence in front of a controller's writes, or with a
controller that leaves partitions as they are, it must notice.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from semel.cluster.controller import election
from semel.cluster.controller.election import Fence, Office
from semel.cluster.zookeeper.client import ZooKeeperClient
from semel.core.cluster.controller.operations import Result
from semel.core.zookeeper.wire.messages import Failed, MultiOperation, StatOf
from semel.runtime.randomness import seeded_dice
from semel.verify.faults import office_disturbances
from semel.verify.history.events import Settled
from semel.verify.simulation import offices as judgement
from semel.verify.simulation.offices import EpochSeen, OfficesSeen, StateWritten
from semel.verify.simulation.promise import PromiseBroken
from semel.verify.simulation.scenarios import offices
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 10
_FIXED = 20
_RANDOM = 5
_HUNTED = 10


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(offices.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(offices.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("offices", 4)


def test_the_office_changes_hands_and_records_are_acknowledged() -> None:
    epochs, holders, writes, acknowledged = 0, Counter[int | None](), 0, 0
    for seed in range(5):
        story = offices.Story(seed)
        story.run()
        epochs += len(story.watch.seen.epochs)
        holders.update(one.holder for one in story.watch.seen.epochs)
        writes += len(story.watch.seen.writes)
        acknowledged += sum(1 for _ in story.world.history.of(Settled))
    assert epochs > 15
    assert set(holders) == {1, 2, 3}
    assert writes > 100
    assert acknowledged > 50


def test_every_blow_is_drawn() -> None:
    dice = seeded_dice(0, "blows")
    blows = Counter(office_disturbances.depose(dice).how for _ in range(100))
    assert len(blows) == 6


def _hunted() -> Iterator[str]:
    """Broken promises of the first seeds."""
    for seed in range(_HUNTED):
        try:
            offices.run(seed)
        except PromiseBroken as broken:
            yield str(broken)


def test_a_broker_that_takes_itself_for_elected_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lost the election, and does not look; nothing stands in front of its writes."""

    async def won(_client: ZooKeeperClient, _office: Office) -> bool:
        return True

    async def holds(_fence: Fence, *, watch: bool) -> bool:
        del watch
        return True

    async def unfenced(fence: Fence, operation: MultiOperation) -> Result:
        (result,) = (await fence._client.multi(operation)).results
        match result:
            case StatOf(stat):
                return Result(stat=stat)
            case Failed(code):
                return Result(code)
            case _:
                return Result()

    monkeypatch.setattr(election, "_is_ours", won)
    monkeypatch.setattr(Fence, "holds", holds)
    monkeypatch.setattr(Fence, "_write", unfenced)
    assert any("I7" in one for one in _hunted())


# The judgement


def test_epochs_and_writes_that_must_not_be_are_named() -> None:
    good = OfficesSeen(
        [EpochSeen(0.1, 1, 1), EpochSeen(0.2, 2, 3)],
        [StateWritten(0.15, "t", 0, 1, 1), StateWritten(0.3, "t", 0, 2, 2)],
    )
    assert judgement.judge(good) == []
    bad = OfficesSeen(
        [EpochSeen(0.1, 1, 1), EpochSeen(0.2, 3, None)],
        [StateWritten(0.3, "t", 0, 1, 3)],
    )
    assert len(judgement.judge(bad)) == 3
    assert all("I7" in one.why for one in judgement.judge(bad))
