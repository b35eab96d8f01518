"""A driver, a worker and the broker are killed for real, and every row is there once.

Method: two lives of `kill_story`: at the step where most is at stake, and one that survives what is killed around it. Every step is
in `test_topic_sink`, with drivers that die softer; hundreds of lives, on clusters too, are in `make campaign`.
"""

from pathlib import Path

import pyarrow as pa
import pytest

from compat_kit import BrokerProcess
from semel.spark.sink.shared_transaction import Step
from spark.kill_story import Kill, Story, Verdict, judged


@pytest.mark.mission("STR-14")
def test_whatever_is_killed_every_row_is_there_once(tmp_path: Path, java_installed: None) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        story = Story(tmp_path / "spark", broker)
        story.live(Kill("driver", step=Step.COMMITTED.value, after_batches=1))
        story.check_whole()
        story.live(Kill("worker, broker", after_batches=1))  # It rides that out, and ends by itself.
        verdict = story.verdict()
    assert verdict.is_right, verdict
    assert verdict.batches > 4


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        ([], [], Verdict(batches=0, lost=0, duplicated=0, torn=0)),
        ([0, 1, 2, 3], [0, 1, 2, 3], Verdict(batches=2, lost=0, duplicated=0, torn=0)),
        ([0, 1, 2, 3, 1], [0, 1, 2, 3], Verdict(batches=2, lost=0, duplicated=1, torn=0)),
        ([0, 1, 2], [0, 1, 2, 3], Verdict(batches=2, lost=1, duplicated=0, torn=1)),
        ([0, 1], [0, 1, 2, 3], Verdict(batches=2, lost=2, duplicated=0, torn=1)),
        ([2, 3], [2, 3], Verdict(batches=2, lost=4, duplicated=0, torn=0)),
    ],
)
def test_the_judge_sees_what_is_lost_repeated_or_torn(
    left: list[int], right: list[int], verdict: Verdict
) -> None:
    topics = [pa.array([str(one) for one in numbers], pa.string()) for numbers in (left, right)]
    assert judged(topics, rows=2) == verdict
