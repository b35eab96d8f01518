"""Spark in a proof: where the checkpoint says it is, and a pipeline whose driver and broker die.

Method: a checkpoint as Spark writes it, by hand; then a real driver on a real broker, both killed, judged like everything else.
"""

import asyncio
from pathlib import Path

import pytest

from semel.spark.java import find_java
from semel.verify.proof.judge import Limits
from semel.verify.proof.options import SPARK, Options
from semel.verify.proof.runner import prove
from semel.verify.proof.spark_work import checkpointed


def test_the_position_is_that_of_the_last_committed_batch(tmp_path: Path) -> None:
    assert checkpointed(tmp_path, "t") == {}
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch, end in ((9, 50), (10, 70), (11, 90)):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{{"t":{{"0":{end},"1":{end + 1}}}}}'
        (tmp_path / "offsets" / str(batch)).write_text(text)
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).write_text("v1\n{}")
    assert checkpointed(tmp_path, "t") == {0: 70, 1: 71}


@pytest.mark.timeout(900)
@pytest.mark.campaign  # Three lives of a driver.
def test_a_pipeline_keeps_its_promises_whoever_is_killed() -> None:
    find_java()
    faults = ("network", "kill", "driver")
    options = Options(
        workloads=(SPARK,),
        seconds=90,
        seed=3,
        partitions=3,
        writers=1,
        fault_seconds=8.0,
        faults=faults,
        limits=Limits(600, 600),
    )
    found = asyncio.run(prove(options, lambda _stage, _what: None))
    assert found.findings == []
    assert found.summary.acknowledged > 0
    assert found.summary.stored > found.summary.acknowledged, "outputs, too"
    assert any("driver" in what for what in found.faults), found.faults
