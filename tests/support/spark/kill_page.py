"""The page of the kill campaign: what was played, at which commit, and what came of it. Parts add up.

`docs/spark-kills.md` for people and `docs/spark-kills.json` beside it, which holds every part: a campaign of hundreds of kills is
played in as many calls as one likes. A part that went wrong stays on the page with its story.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

NAMES: Final = {
    "atomic": "`TopicSink`",
    "dropin": '`writeStream.format("semel")`',
    "spark": "Spark's own Kafka sink 4.2.0",
}
FOUND: Final = (
    (
        "A query that was started while its broker was restarting failed at once, again and again until the broker was back: an address that "
        "had never answered was taken for a wrong one. Both sinks wait for `max.block.ms` now (49d7d6c). Nothing was lost or repeated by it."
    ),
    (
        "On a busy machine a batch of the drop-in sink on Apache Kafka was not whole for readers of committed records half a minute after it had "
        "been ended, in the batch after the broker's death, and later it was. What readers waited for was not asked then. Played again with "
        "the question, the same seed ended with a query that stood still, and the answer: killed while it commits, Kafka's only broker can call "
        "a transaction complete of which no partition has a marker (docs/transactions.md; `tests/support/transactions/markers_story.py` plays it without Spark). "
        "A story now looks for such transactions before it calls anything a sink's doing, and its part ends there; what was judged before, "
        "and other queries, count. A third time the seed came to its end."
    ),
    (
        "Looking for that, a flaw of ours was found and mended: an attempt that Spark had given up could begin its transaction after its batch "
        "had ended, and readers waited for it until the next batch or its timeout."
    ),
)
"""What the campaign has found so far."""
BROKERS: Final = {"semel": "Semel", "kafka": "Apache Kafka 4.3.1"}


@dataclass(frozen=True, slots=True)
class Part:
    """The lives of one set of queries."""

    sink: str
    broker: str
    where: str
    """local, or a standalone cluster."""
    seed: int
    runs: dict[str, int]
    """Kills met by a live query and judged afterwards, by who and when."""
    deaths: dict[str, int]
    """Processes killed, by what they were."""
    restarts: int
    batches: int
    lost: int
    duplicated: int
    torn: int
    cpu_seconds: float
    seconds: float
    commit: str
    date: str
    machine: str
    story: str = ""
    """What went wrong."""
    is_theirs: bool = False
    """It went wrong because the broker left transactions without a marker; what it did to others is judged all the same."""

    @property
    def is_right(self) -> bool:
        return (self.lost, self.duplicated, self.torn) == (0, 0, 0) and (not self.story or self.is_theirs)


@dataclass(slots=True)
class _Row:
    """Parts of the same sink, broker and place, added up."""

    parts: list[Part] = field(default_factory=list)

    def sum(self, name: str) -> float:
        return sum(float(getattr(part, name)) for part in self.parts)

    def count(self, name: str) -> Counter[str]:
        total = Counter[str]()
        for part in self.parts:
            total.update(getattr(part, name))
        return total


def add(page: Path, parts: Sequence[Part]) -> None:
    """Put parts on the page; one that was played before, with the same seed at the same commit, is replaced."""
    data = page.with_suffix(".json")
    known = [Part(**one) for one in json.loads(data.read_text(encoding="utf-8"))] if data.exists() else []
    kept = [one for one in known if _key(one) not in {_key(part) for part in parts}]
    together = sorted([*kept, *parts], key=_key)
    data.write_text(json.dumps([asdict(one) for one in together], indent=1) + "\n", encoding="utf-8")
    page.write_text(as_markdown(together), encoding="utf-8")


def as_markdown(parts: Sequence[Part]) -> str:
    """The page."""
    rows = dict[tuple[str, str, str], _Row]()
    for part in parts:
        rows.setdefault((part.sink, part.broker, part.where), _Row()).parts.append(part)
    ours = sum(row.count("runs").total() for (sink, _, _), row in rows.items() if sink != "spark")
    lines = [
        "# Kills of the Spark sinks",
        "",
        "Written by `python tests/support/spark/kill_story.py --write docs/spark-kills.md`; do not edit. Queries write every number to two",
        "topics of three partitions each. Drivers, executors, Python workers and brokers are killed with `kill -9`: at every named step of",
        "the sink, two of which are in its tasks, and at random; a driver may also be stopped, replaced, and woken up again. After",
        "each kill the query recovers, by itself or with a new driver on the same checkpoint, and while it stands still at its next",
        "step a `read_committed` reader must see exactly the batches before, whole and once. A **run** is one kill met by a live query,",
        "with its recovery and judgement. Several queries share a driver, so its death is a run for each, at a step of its own; any other",
        "death is one run, however many it disturbs. Speculation is on.",
        "",
        f"**{ours} runs of Semel's sinks**: "
        + ", ".join(
            f"{sum(int(row.sum(name)) for (sink, _, _), row in rows.items() if sink != 'spark')} {name}"
            for name in ("lost", "duplicated", "torn")
        )
        + ".",
        "",
        "| sink | broker | Spark | runs | processes killed | batches | lost | duplicated | torn | queries that failed and were started again | CPU s per run |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (sink, broker, where), row in sorted(rows.items()):
        runs = row.count("runs").total()
        deaths = ", ".join(f"{count} {who}" for who, count in sorted(row.count("deaths").items()))
        lines.append(
            f"| {NAMES[sink]} | {BROKERS[broker]} | {where} | {runs} | {deaths} | {row.sum('batches'):.0f} | {row.sum('lost'):.0f} "
            f"| {row.sum('duplicated'):.0f} | {row.sum('torn'):.0f} | {row.sum('restarts'):.0f} | {row.sum('cpu_seconds') / max(runs, 1):.1f} |"
        )
    lines += ["", "## What it found", "", *(f"- {one}" for one in FOUND)]
    lines += ["", "## Who was killed when", "", *_matrix(rows), "", "## Parts", ""]
    lines += [
        f"- {part.date}, commit {part.commit}: {NAMES[part.sink]}, {BROKERS[part.broker]}, {part.where}, seed {part.seed}: "
        f"{sum(part.runs.values())} runs in {part.seconds:.0f} s{_early(part)}"
        for part in parts
    ]
    lines += ["", "Played on " + "; ".join(sorted({part.machine for part in parts})) + "."]
    for part in parts:
        if part.story:
            lines += ["", f"## {NAMES[part.sink]}, {BROKERS[part.broker]}, {part.where}, seed {part.seed}"]
            lines += ["", "```", part.story, "```"]
    return "\n".join(lines) + "\n"


def _early(part: Part) -> str:
    return ", then transactions without a marker" if part.is_theirs else ""


def _matrix(rows: dict[tuple[str, str, str], _Row]) -> list[str]:
    """How often each kill was met, by row of the table above."""
    columns = sorted(rows)
    heads = [f"{NAMES[sink]}, {BROKERS[broker]}, {where}" for sink, broker, where in columns]
    counts = [rows[column].count("runs") for column in columns]
    kills = sorted({kill for each in counts for kill in each})
    lines = ["| kill | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    lines += [f"| {kill} | " + " | ".join(str(each[kill] or "") for each in counts) + " |" for kill in kills]
    return lines


def _key(part: Part) -> tuple[str, str, str, str, int]:
    return part.sink, part.broker, part.where, part.commit, part.seed
