"""Figures of two brokers side by side: medians, intervals, ratios, and whether a target was reached.

Role.   `figure` summarises what the rounds gave; `page` is all of it as Markdown; `as_json` as data.
Rules.  * A ratio is Semel's over Kafka's, taken inside each round, then summarised.
        * A target is decided by the median; an interval that reaches beyond it is said.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from semel.bench.measure import BenchError, Estimate, coverage, estimate
from semel.bench.report import number_text
from semel.runtime.environment import Environment

_SPEED: Final = re.compile(r"/s\b")
HEADER: Final = """\
# The broker beside Apache Kafka

Written by `python -m semel.bench broker --write docs/benchmarks-broker.md`; do not edit. Both brokers ran on this
machine at the same time, one process each, Apache Kafka {version} at the settings it ships with and its heap of 1 GB; each
round loads one and then the other, every second round in the opposite order. A figure is the median of the rounds, the
brackets hold the true median with the probability below. *Semel ÷ Kafka* is taken inside each round. CPU is that of the
whole broker process, all threads. *The loader* sends requests built beforehand over a plain socket and is not what
limits either broker.

![Semel beside Apache Kafka]({plot})

"""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the ratio, or, `absolute`, on Semel's own figure."""

    limit: float
    at_least: bool = False
    absolute: bool = False

    def text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}" + (" alone" if self.absolute else "")

    def meets(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity of both brokers; where Kafka has none, of Semel."""

    group: str
    work: str
    quantity: str
    semel: Estimate
    kafka: Estimate | None
    ratio: Estimate | None
    rounds: int
    targets: tuple[Target, ...] = ()

    @property
    def more_is_better(self) -> bool:
        """By its target; without one, of speeds: whatever is counted per second."""
        if self.targets:
            return self.targets[0].at_least
        return _SPEED.search(self.quantity) is not None

    def verdicts(self) -> list[str]:
        """ "≤ 0.5: reached" for each target."""
        said: list[str] = []
        for target in self.targets:
            measured = self.semel if target.absolute else self.ratio
            if measured is None:
                said.append(f"{target.text()}: not decided")
            elif not target.meets(measured.median):
                said.append(f"{target.text()}: **missed**")
            elif not (target.meets(measured.low) and target.meets(measured.high)):
                said.append(f"{target.text()}: reached by the median")
            else:
                said.append(f"{target.text()}: reached")
        return said


def figure(
    group: str,
    work: str,
    quantity: str,
    semel: Sequence[float],
    kafka: Sequence[float] = (),
    *,
    targets: Sequence[Target] = (),
) -> Figure:
    """The summary of one value per round. A peer whose values cannot be seen (not a number) has none."""
    if any(map(math.isnan, kafka)):
        kafka = ()
    if not semel or (kafka and len(kafka) != len(semel)):
        raise BenchError(f"{work}, {quantity}: {len(semel)} rounds of Semel beside {len(kafka)} of Kafka")
    ratio = [ours / theirs for ours, theirs in zip(semel, kafka, strict=True)] if kafka else []
    return Figure(
        group=group,
        work=work,
        quantity=quantity,
        semel=estimate(semel),
        kafka=estimate(kafka) if kafka else None,
        ratio=estimate(ratio) if ratio else None,
        rounds=len(semel),
        targets=tuple(targets),
    )


def table(figures: Sequence[Figure]) -> str:
    """Figures of one group."""
    lines = ["| | | Semel | Kafka | Semel ÷ Kafka | target |", "|---|---|---:|---:|---:|---|"]
    work = ""
    for one in figures:
        cells = [
            "" if one.work == work else one.work,
            one.quantity,
            number_text(one.semel.median) if one.ratio else _with_interval(one.semel),
            "" if one.kafka is None else number_text(one.kafka.median),
            "" if one.ratio is None else _with_interval(one.ratio),
            "; ".join(one.verdicts()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
        work = one.work
    return "\n".join(lines) + "\n"


def page(
    figures: Sequence[Figure],
    where: Environment,
    notes: Sequence[str],
    *,
    kafka_version: str,
    plot: str,
    header: str = HEADER,
    also: str = "",
) -> str:
    """The whole page. `header` names `{version}` and `{plot}`; `also` comes before the groups."""
    text = header.format(version=kafka_version, plot=plot)
    text += where.text
    text += "\n" + summary(figures) + also
    for group in dict.fromkeys(one.group for one in figures):
        members = [one for one in figures if one.group == group]
        text += f"\n## {group}\n\n{table(members)}\n{rounds_text(members)}"
    if notes:
        text += "\n## Notes\n\n" + "".join(f"- {note}\n" for note in notes)
    return text


def rounds_text(figures: Sequence[Figure]) -> str:
    """How many rounds there were, and what that makes of the intervals."""
    rounds = min(one.rounds for one in figures)
    return "One look.\n" if rounds == 1 else f"{rounds} rounds; intervals hold with {coverage(rounds):.1%}.\n"


def summary(figures: Sequence[Figure]) -> str:
    """How many targets were reached, and every one that was not, in words."""
    verdicts = [(one, said) for one in figures for said in one.verdicts()]
    verdicts = [
        (one, said) for one, said in verdicts if not said.endswith("not decided")
    ]  # There was no peer.
    missed = [f"- {one.work}, {one.quantity}: {said}" for one, said in verdicts if "**missed**" in said]
    reached = len(verdicts) - len(missed)
    if not verdicts:
        return "No target was decided.\n"
    if not missed:
        return f"All {reached} targets were reached.\n"
    return f"{reached} of {len(verdicts)} targets were reached. Missed:\n\n" + "\n".join(missed) + "\n"


def as_json(figures: Sequence[Figure], where: Environment, notes: Sequence[str]) -> str:
    document = {
        "environment": asdict(where),
        "figures": [asdict(one) for one in figures],
        "notes": list(notes),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _with_interval(value: Estimate) -> str:
    return f"{number_text(value.median)} [{number_text(value.low)}, {number_text(value.high)}]"
