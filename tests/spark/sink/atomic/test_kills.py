"""A driver, a worker and the broker are killed for real, and every row is there once.

Method: two queries of `kill_lives`, each with a kill it survives and one that takes its driver along, at the steps where most is at
stake; while a query stands still at a step, exactly the batches before it are seen. Hundreds of such kills, at every step, on
clusters and on Apache Kafka too, are in `make campaign` (docs/spark-kills.md).
"""

from pathlib import Path

import pyarrow as pa
import pytest

from semel.spark.sink.atomic.shared_transaction import Step
from support.compat.compat_kit import BrokerProcess
from support.spark.kill_lives import Lives, Verdict, judged
from support.spark.kill_page import Part, add
from support.spark.kill_plan import (
    BROKER,
    DRIVER,
    EXECUTOR,
    STEPS,
    TASK_BEGUN,
    TASK_WROTE,
    WORKER,
    ZOMBIE,
    Kill,
    plan,
)
from support.spark.spark_cluster import standalone_cluster


@pytest.mark.mission("STR-14")
def test_whatever_is_killed_every_row_is_there_once(tmp_path: Path, java_installed: None) -> None:
    with (
        BrokerProcess(tmp_path / "broker") as broker,
        Lives(tmp_path / "spark", broker, "atomic", count=2) as lives,
    ):
        lives.live(
            [
                [Kill(BROKER, Step.BATCH_STORED.value), Kill(DRIVER, Step.COMMITTED.value)],
                [Kill(WORKER, TASK_WROTE), Kill(DRIVER, Step.WRITTEN.value)],
            ]
        )
        verdict = lives.finish([[], []])
    assert verdict.is_right, verdict
    assert verdict.batches > 4
    assert lives.tally.runs.total() == 4
    assert lives.tally.deaths == {BROKER: 1, WORKER: 1, DRIVER: 1}
    assert lives.tally.restarts == 0, "the sink rides out what is killed around it"


@pytest.mark.campaign  # Six JVMs, and one for every executor that is killed.
@pytest.mark.timeout(900)
@pytest.mark.mission("STR-14")
def test_executors_are_killed_in_the_middle_of_a_batch(tmp_path: Path, java_installed: None) -> None:
    with (
        standalone_cluster(tmp_path / "cluster", cores=4) as cluster,
        BrokerProcess(tmp_path / "broker") as broker,
        Lives(tmp_path / "spark", broker, "atomic", count=2, cluster=cluster) as lives,
    ):
        verdict = lives.finish(
            [
                [Kill(EXECUTOR, TASK_BEGUN), Kill(EXECUTOR, Step.WRITTEN.value)],
                [Kill(EXECUTOR, TASK_WROTE), Kill(WORKER, TASK_BEGUN)],
            ]
        )
    assert verdict.is_right, verdict
    assert lives.tally.deaths == {EXECUTOR: 3, WORKER: 1}


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


def test_the_judge_lets_a_batch_be_under_way_and_nothing_be_repeated() -> None:
    topics = [pa.array(numbers, pa.int64()) for numbers in ([0, 1, 2, 2], [0, 1])]
    assert judged(topics, rows=2, open_batch=1) == Verdict(batches=1, lost=0, duplicated=1, torn=0)


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_whole_plan_kills_everybody_at_every_step(on_cluster: bool) -> None:
    lives = plan("atomic", runs=95, queries=5, on_cluster=on_cluster, seed=7)
    kills = {kill for life in lives for kills in life for kill in kills}
    victims = {DRIVER, WORKER, BROKER, *([EXECUTOR] if on_cluster else [])}
    assert kills >= {Kill(who, step) for who in victims for step in STEPS["atomic"]}
    assert {kill.who for kill in kills if kill.step is None} >= {DRIVER}
    assert (ZOMBIE in {kill.who for kill in kills}) is not on_cluster
    for life in lives[:-1]:
        assert len({kills[-1].who for kills in life}) == 1, "a driver dies once"
        assert all(kills[-1].ends_the_life for kills in life)
    for life in lives:
        assert not [kill for kills in life for kill in kills[:-1] if kill.ends_the_life]


def test_parts_of_the_campaign_add_up_and_what_went_wrong_stays(tmp_path: Path) -> None:
    page = tmp_path / "kills.md"

    def part(seed: int, *, lost: int = 0, story: str = "") -> Part:
        return Part(
            sink="atomic",
            broker="semel",
            where="one process",
            seed=seed,
            runs={"driver at random": 3, "broker at 'written'": 2},
            deaths={"driver": 1},
            restarts=0,
            batches=10,
            lost=lost,
            duplicated=0,
            torn=0,
            cpu_seconds=20.0,
            seconds=9.0,
            commit="abc",
            date="today",
            machine="one",
            story=story,
        )

    add(page, [part(1)])
    add(page, [part(2, lost=4, story="it was so")])
    add(page, [part(2, lost=4, story="it was so")])
    text = page.read_text()
    assert "**10 runs of Semel's sinks**: 4 lost, 0 duplicated, 0 torn." in text
    assert "| `TopicSink` | Semel | one process | 10 | 2 driver | 20 | 4 | 0 | 0 | 0 | 4.0 |" in text
    assert "| driver at random | 6 |" in text
    assert "it was so" in text
