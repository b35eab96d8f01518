"""A campaign finds what is broken and says so; it never passes over a failing seed.

Method: a scenario that fails for chosen seeds, run through the same code as the real ones.
"""

from collections.abc import Callable

import pytest

from semel.log.partition_log import PartitionLog
from semel.verify import campaign
from semel.verify.promise import PromiseBroken
from semel.verify.scenarios import directory_crash, log_crash


def test_a_failing_seed_is_reported_with_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_at_three(seed: int) -> None:
        if seed == 3:
            raise PromiseBroken("seed 3: offset 7 is gone")

    monkeypatch.setattr(campaign, "SCENARIOS", {"made_up": breaks_at_three})
    assert campaign.play(("made_up", 2)) is None
    assert campaign.play(("made_up", 3)) == (3, "PromiseBroken: seed 3: offset 7 is gone")


def test_the_page_says_what_was_run_and_what_failed() -> None:
    page = campaign.as_markdown(
        [campaign.Outcome("log_crash", 5, 10, 1.5, ((7, "a story"),))], "make campaign"
    )
    assert "| `semel.verify.scenarios.log_crash` | 5 to 14 | 1 | 2 |" in page
    assert "## log_crash, seed 7" in page
    assert "a story" in page
    assert "`make campaign`" in page


@pytest.mark.parametrize(
    ("only", "message"),
    [("nothing", "'nothing' is no scenario"), ("log_crash:many", "'many' is no number of seeds")],
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
