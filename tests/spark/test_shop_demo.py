"""The demonstration, small: everything is killed once, and every order is counted once.

Method: the story of `semel demo` as it is, with fewer orders: a broker's process, a till's and a Spark driver's, a connection that
is cut again and again, kill -9 for each of the three; then every topic is read and held against the model. That the same judgement
can come to another verdict is in `tests/verify/demo`.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from semel.spark.java import find_java
from semel.verify.demo.shop.model import Shop
from semel.verify.demo.shop.story import Kill, Script, Story
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL, Timeline

KILLS = (Kill((TILL,), 0.3), Kill((BROKER,), 0.25), Kill((DRIVER,), 0.5))


@pytest.mark.timeout(900)
@pytest.mark.campaign  # `make demo`, small.
def test_every_order_is_counted_once_whoever_is_killed(tmp_path: Path) -> None:
    find_java()
    states: list[str] = []

    def show(timeline: Timeline, now: Mapping[str, str]) -> None:
        states.append(now.get(DRIVER, ""))

    script = Script(
        Shop(seed=9, transactions=50, orders=60, minutes=8),
        transactions_per_second=8,
        kills=KILLS,
        batch_rows_max=2500,
        seconds_max=840,
    )
    outcome = Story(script, tmp_path, show).play()
    assert outcome.verdict.kept, "\n".join(map(str, outcome.verdict.lines))
    timeline = outcome.timeline
    assert {who: timeline.kills(who) for who in (BROKER, DRIVER, TILL)} == {BROKER: 1, DRIVER: 1, TILL: 1}
    # Nothing else may end a program: Spark gives up a source whose process was not there in ten seconds.
    log = (tmp_path / "pipeline.log").read_text(errors="replace")
    alone = [fault for fault in timeline.faults if not fault.on_purpose]
    assert len(alone) <= log.count("terminated with exception: Python worker failed to connect back"), log
    assert timeline.last.cuts > 0
    assert {"starting", "up"} <= set(states)
