"""The story is played with real processes, and its verdict can be guilty.

Method: a broker, a till and the bad connection as in the demonstration, with a pipeline that has no memory in the place of Spark's.
Killed once, it counts again what it had counted. That the real pipeline is found innocent is in `tests/spark/test_shop_demo.py`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from semel.verify.demo.processes import DemoFailedError
from semel.verify.demo.shop.model import Shop
from semel.verify.demo.shop.story import Kill, Script, Story
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL, Timeline

SHOP = Shop(seed=6, transactions=40, orders=50, minutes=8)
FORGETFUL = (sys.executable, str(Path(__file__).parents[2] / "support" / "verify" / "forgetful_pipeline.py"))


def seen(_timeline: Timeline, _states: Mapping[str, str]) -> None:
    """What is shown is tested elsewhere."""


@pytest.mark.timeout(900)  # Three processes, each killed once, beside everything else.
def test_a_pipeline_that_forgets_is_found_out(tmp_path: Path) -> None:
    kills = (Kill((TILL,), 0.3), Kill((BROKER, DRIVER), 0.4))
    script = Script(
        SHOP, transactions_per_second=40, kills=kills, batch_rows_max=100, pipeline=FORGETFUL, seconds_max=600
    )
    outcome = Story(script, tmp_path, seen).play()
    sent, clean = outcome.verdict.lines[:2]
    assert sent.kept, sent  # The till was killed as well, and has a memory.
    assert (clean.lost, clean.wrong) == (0, 0)
    assert clean.duplicated > 0
    assert not outcome.verdict.kept
    timeline = outcome.timeline
    assert {who: timeline.kills(who) for who in (BROKER, DRIVER, TILL)} == {BROKER: 1, DRIVER: 1, TILL: 1}
    assert all(fault.back_seconds is not None for fault in timeline.faults)
    assert timeline.last.sent == timeline.total
    assert timeline.last.cuts > 0


def test_a_pipeline_that_ends_again_and_again_ends_the_story_with_its_last_words(tmp_path: Path) -> None:
    broken = (sys.executable, "-c", "import sys; sys.exit('no more paper')")
    script = Script(SHOP, kills=(), pipeline=broken, seconds_max=600)
    with pytest.raises(DemoFailedError, match=r"the pipeline's driver ended 6 times: no more paper"):
        Story(script, tmp_path, seen).play()


def test_a_story_that_comes_to_no_end_says_how_far_it_was(tmp_path: Path) -> None:
    idle = (sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read()")
    script = Script(SHOP, kills=(), pipeline=idle, seconds_max=2)
    with pytest.raises(DemoFailedError, match=r"not done after 2 s: 0 of [\d,]+ order events are counted"):
        Story(script, tmp_path, seen).play()
