"""`semel verify --sim` and `--self-test`: seeded stories, and the hunt for what is wrong on purpose."""

import time
from collections.abc import Callable
from pathlib import Path

import click

from semel.cli.progress import Progress
from semel.insight.sentences import several

_STORIES_MAX = 3


def simulate(first: int, seeds: int, story: str | None, page: Path | None) -> None:
    """Play so many seeds, of one story or of the mix, on every core; add the outcome to a page."""
    from semel.verify import campaign, campaign_page

    if story is not None and story not in campaign.SCENARIOS:
        there = ", ".join(sorted(campaign.SCENARIOS))
        raise click.BadParameter(f"{story!r} is not a story; there are {there}", param_hint="'--story'")
    outcomes = []
    for name, count in ({story: seeds} if story else campaign.shares(seeds)).items():
        with Progress() as progress:
            outcome = campaign.run(name, first, count, _reporting(progress, name, count))
        outcomes.append(outcome)
        click.echo(
            f"{name:<20} seeds {first} to {outcome.end - 1}: {len(outcome.failures)} failed, {outcome.seconds:.0f} s"
        )
        for seed, told in outcome.failures[:_STORIES_MAX]:
            click.echo(f"seed {seed}: {told}\nagain: {campaign.again(name, seed)}")
        for seed, _told in outcome.failures[_STORIES_MAX:]:
            click.echo(f"seed {seed} failed, too; again: {campaign.again(name, seed)}")
    broken = sum(len(outcome.failures) for outcome in outcomes)
    click.echo(f"{several(seeds, 'seed')}, {broken} failed")
    if page is not None:
        campaign_page.add(page, outcomes)
    if broken:
        raise click.exceptions.Exit(1)


def test_itself() -> None:
    """The judgement on histories written by hand, then simulation and invariants on what is wrong in one way each."""
    from semel.verify.mutations.catalogue import MUTATIONS
    from semel.verify.mutations.self_test import as_line, hunt_all
    from semel.verify.proof.examples import self_test

    click.echo("Histories written by hand, each with one promise broken:")
    results = self_test()
    for what, wanted, is_found in results:
        click.echo(f"{'found' if is_found else 'MISSED':<7} {wanted:<38} {what}")
    click.echo(f"\nBrokers, logs and clients with one thing wrong, {len(MUTATIONS)} of them, in simulation:")
    begun, missed = time.monotonic(), sum(not is_found for _, _, is_found in results)
    with Progress() as progress:
        for over, found in enumerate(hunt_all(), start=1):
            progress.end()
            click.echo(as_line(found))
            progress.show(f"{over} of {len(MUTATIONS)} hunts, {time.monotonic() - begun:.0f} s")
            missed += found.seed is None
    click.echo(f"{missed} missed, {time.monotonic() - begun:.0f} s")
    if missed:
        raise click.exceptions.Exit(1)


def _reporting(progress: Progress, name: str, count: int) -> Callable[[int], None]:
    return lambda done: progress.show(f"{name}: {done} of {count} seeds")
