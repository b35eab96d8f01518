"""`semel verify --sim` plays a mix of stories and says how to play a failing seed again; `--self-test` misses nothing unnoticed.

Method: the command with stories and hunts that are made up; the real ones are played by the tests of the simulation.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from semel.verify import campaign
from semel.verify.campaign_page import Run
from semel.verify.mutations import self_test
from semel.verify.mutations.mutation import Hunt
from semel.verify.proof.examples import BROKEN


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Which stories the command plays; the second seed of `produce` fails."""
    played = []

    def run(name: str, first: int, seeds: int, _progress: object) -> Run:
        played.append((name, first, seeds))
        failures = ((first + 1, "offset 7 is gone"),) if name == "produce" else ()
        return Run(name, first, seeds, 1.0, failures, "commit", "2026-01-01 00:00 UTC", "machine")

    monkeypatch.setattr(campaign, "run", run)
    return played


def test_the_seeds_are_shared_out_and_a_failing_one_is_told(
    played: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    page = tmp_path / "campaign.md"
    done = CliRunner().invoke(
        cli, ["verify", "--sim", "--seeds", "1000", "--seed", "10", "--write", str(page)]
    )
    assert {name: seeds for name, _first, seeds in played} == dict(campaign.MIX)
    assert {first for _name, first, _seeds in played} == {10}
    assert done.exit_code == 1
    assert "seed 11: offset 7 is gone" in done.output
    assert "again: semel verify --sim --story produce --seeds 1 --seed 11" in done.output
    assert "| all | 1,000 | | 1 |" in page.read_text(encoding="utf-8")


def test_one_story_is_played_alone(played: list[tuple[str, int, int]]) -> None:
    done = CliRunner().invoke(cli, ["verify", "--sim", "--story", "groups", "--seeds", "7"])
    assert done.exit_code == 0
    assert played == [("groups", 0, 7)]


def test_a_story_that_is_none_names_those_there_are() -> None:
    done = CliRunner().invoke(cli, ["verify", "--sim", "--story", "nothing"])
    assert done.exit_code == 2
    assert "'nothing' is not a story; there are bursts, client_matrix" in done.output


@pytest.mark.parametrize("seeds", [1, 5, 11, 100, 99_999])
def test_the_shares_add_up(seeds: int) -> None:
    shares = campaign.shares(seeds)
    assert sum(shares.values()) == seeds
    assert seeds < 100 or set(shares) == set(campaign.MIX)
    assert set(campaign.MIX) == set(campaign.SCENARIOS)


@pytest.mark.parametrize("seed", [3, None])
def test_the_command_tests_itself(seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def hunts(names: object = (), processes: int | None = None) -> Iterator[Hunt]:
        yield Hunt("no duplicate is known", seed, 4, 0.5, "stored twice")

    monkeypatch.setattr(self_test, "hunt_all", hunts)
    done = CliRunner().invoke(cli, ["verify", "--self-test"])
    assert done.output.count("found ") == len(BROKEN) + 1 + (seed is not None)
    assert done.exit_code == (seed is None)
    assert ("MISSED" in done.output) == (seed is None)
