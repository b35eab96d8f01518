"""Replicas of a partition are the same at rest, whatever happened to their brokers.

Method: stories from seeds (`support.broker.replica_story`). Where brokers die by kill -9 only, or have every record on disk before it
counts, all that a leader has shown is kept as well. Nothing in a story is an error to the brokers.
"""

import logging

import pytest

from semel.broker import turns
from semel.broker.replicas import followed_partition
from support.broker.replica_story import Shape, Story

SHAPES = pytest.mark.parametrize(
    "shape",
    [Shape(power=False, flush=False), Shape(power=True, flush=True), Shape(power=True, flush=False)],
    ids=("killed", "durable", "lossy"),
)


def play(shape: Shape, seeds: range, caplog: pytest.LogCaptureFixture) -> dict[str, int]:
    """Play stories; how often each thing happened in all of them."""
    happened: dict[str, int] = {}
    caplog.set_level(logging.ERROR)
    for seed in seeds:
        story = Story(seed, shape)
        story.run()
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert not errors, f"seed {seed}: {errors}"
        for what, times in story.counts.items():
            happened[what] = happened.get(what, 0) + times
    return happened


@SHAPES
def test_replicas_are_alike_at_rest(shape: Shape, caplog: pytest.LogCaptureFixture) -> None:
    happened = play(shape, range(15), caplog)
    assert min(happened.values()) > 10, f"too little happened: {happened}"


@SHAPES
def test_they_are_where_every_batch_has_a_turn_of_its_own(
    shape: Shape, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are appended in pieces, and anything may happen between them."""
    monkeypatch.setattr(turns, "TURN_SECONDS_MAX", 0.0)
    monkeypatch.setattr(followed_partition, "BATCHES_AT_ONCE", 1)
    play(shape, range(100, 110), caplog)


@pytest.mark.campaign
@SHAPES
def test_they_are_in_many_stories(shape: Shape, caplog: pytest.LogCaptureFixture) -> None:
    play(shape, range(1000, 1500), caplog)
