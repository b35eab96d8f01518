"""A campaign finds what is broken and says so; it never passes over a failing seed.

Method: a scenario that fails for chosen seeds, run through the same code as the real ones.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import Runtime
from semel.verify import campaign, campaign_page
from semel.verify.campaign_page import Run
from semel.verify.simulation.promise import PromiseBroken
from semel.verify.simulation.scenarios import directory_crash, log_crash, produce


def test_a_failing_seed_is_reported_with_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_at_three(seed: int) -> None:
        if seed == 3:
            raise PromiseBroken("seed 3: offset 7 is gone")

    monkeypatch.setattr(campaign, "SCENARIOS", {"made_up": breaks_at_three})
    assert campaign.play(("made_up", 2)) is None
    assert campaign.play(("made_up", 3)) == (3, "PromiseBroken: seed 3: offset 7 is gone")


class Livelocked(produce.Story):
    """A client of its broker is busy for ever, and no time goes by."""

    async def _play(self) -> None:
        self._start([Busy()])
        await asyncio.sleep(60)


class Busy:
    """Waits for nothing."""

    name = "busy"

    async def run(self, runtime: Runtime) -> None:
        while True:
            await runtime.tasks.sleep(0)

    def finish(self) -> None:
        """It never does."""

    def owes(self) -> str | None:
        return None


def test_a_story_that_never_ends_is_stopped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "SCENARIOS", {"made_up": lambda seed: Livelocked(seed).run()})
    failure = campaign.play(("made_up", 3))
    assert failure is not None
    seed, story = failure
    assert seed == 3
    assert "seed 3: the run failed: SimulationLivelockError: livelock: " in story
    assert "busy#1 busy main: Busy.run (test_campaign.py:" in story
    assert "the broker serves" in story  # What led to it.


def run(first: int, seeds: int, failures: tuple[tuple[int, str], ...] = (), commit: str = "c0ffee") -> Run:
    return Run("log_crash", first, seeds, 1.5, failures, commit, "2026-01-01 00:00 UTC", "a machine")


def test_the_page_adds_up_the_parts_of_a_campaign(tmp_path: Path) -> None:
    page = tmp_path / "campaign.md"
    for part in (run(10, 10), run(0, 10, ((7, "a story"),)), run(50, 10), run(0, 5, commit="decaf")):
        campaign_page.add(page, [part])
    text = page.read_text(encoding="utf-8")
    assert "| `log_crash` | 30 | 0 to 19, 50 to 59 | 1 | c0ffee | 2026-01-01 00:00 UTC | 4 |" in text
    assert "| `log_crash` | 5 | 0 to 4 | 0 | decaf |" in text
    assert "## log_crash, seed 7, commit c0ffee\n\n```\na story\n```" in text


def test_a_failure_leaves_the_page_when_its_seed_was_played_again(tmp_path: Path) -> None:
    page = tmp_path / "campaign.md"
    campaign_page.add(page, [run(0, 10, ((7, "a story"),))])
    campaign_page.add(page, [run(0, 6, commit="decaf")])
    assert "a story" in page.read_text(encoding="utf-8")
    campaign_page.add(page, [run(0, 10, commit="decaf")])
    assert "a story" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("only", "message"),
    [("nothing", "'nothing' is not a scenario"), ("log_crash:many", "'many' is not a number of seeds")],
)
def test_a_scenario_that_is_none_names_those_there_are(
    only: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        campaign.main(["--only", only])
    assert message in capsys.readouterr().err


def test_real_seeds_run_on_every_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.main(["--only", "log_crash:20"]) == 0
    assert "log_crash: 20 seeds in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "break_it"),
    [
        ("an acknowledged batch is dropped", lambda story: story.model.append(story.model[-1])),
        ("a producer is forgotten", lambda story: story.log.producers.clear()),
        (
            "the last stable offset runs ahead",
            lambda story: story.log.producers.__setattr__("first_unstable_offset", 10**6),
        ),
    ],
)
def test_the_scenario_notices(what: str, break_it: Callable[[log_crash.Story], object]) -> None:
    """A check that cannot fail is none: break one thing, and the story must end badly."""
    story = log_crash.Story(2)
    while len(story.model) < 4 or story.log.producers.first_unstable_offset is None:
        story._append()
    break_it(story)
    with pytest.raises(PromiseBroken):
        story._check()


@pytest.mark.parametrize(
    ("what", "break_it"),
    [
        ("an acknowledged batch is dropped", lambda kept, _log: kept.batches.append(kept.batches[-1])),
        ("a producer is forgotten", lambda _kept, log: log.producers.clear()),
        ("a byte changes", lambda _kept, log: log.active.file.write_at(70, b"?")),
    ],
)
def test_the_scenario_of_a_directory_notices(
    what: str, break_it: Callable[[directory_crash.Kept, PartitionLog], object]
) -> None:
    story = directory_crash.Story(2)
    while (chosen := story._choose()) is None or len(chosen[1].batches) < 4:
        story._create()
        story._append()
    partition, kept, log = chosen
    break_it(kept, log)
    with pytest.raises(PromiseBroken):
        story._check(partition, kept, log)
