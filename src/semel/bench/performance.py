"""The performance page: the last run of every suite, ratios first, with its date and machine.

Role.   `write` makes `performance.md`, its pictures and those of the suites from the figures that the suites keep as JSON.
Flow.   `semel bench --write DIR` calls it after each suite; `semel bench --page DIR` calls it alone.
Rules.  * Nothing is measured and nothing is rounded up here: a figure that is not in the JSON is not on the page. Suites that never
          ran are named as such.
        * A missed target is on the page with the others.
        * Rows are those that have a target, and what brokers spent; everything else is on the suite's own page.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from semel.bench import pictures, suites
from semel.bench.broker_figures import Figure, Target, summary
from semel.bench.idempotence import seeds_table
from semel.bench.measure import BenchError, Estimate
from semel.bench.report import Section, number_text, read, verdict, with_interval
from semel.bench.suites import Suite
from semel.runtime.environment import Environment

PAGE: Final = "performance.md"
_GROWTH: Final = ("scale",)
_HEADER: Final = """\
# Performance

Made by `semel bench` from the last run of every suite; do not edit. *Semel ÷ Kafka* comes first: both ran on the same machine in turn,
and a ratio was taken inside each round, so it holds where absolute figures depend on the machine. For speeds more is better, for
seconds, CPU and memory less. A figure is the median of the rounds, the brackets hold the true median (the suite's own page says with
which probability). Missed targets are marked. In the pictures one direction is better everywhere: costs and times are inverted there.

    semel bench                      # everything, beside the Apache Kafka installed here: hours
    semel bench broker --quick       # a first look: minutes
    semel bench groups --against kafka.example:9092
    semel bench --write docs         # measure, and write this page

"""


def write(directory: Path) -> Path:
    """Make the page of a directory with figures; where it is."""
    target = directory / PAGE
    pictures.redraw(directory, _drawn(directory))  # First: the page shows the pictures that are there.
    target.write_text(page(directory), encoding="utf-8")
    return target


def page(directory: Path) -> str:
    """The text of the page."""
    measured = _measured(directory)
    lines = ["| suite | measured | commit | machine | targets |", "|---|---|---|---|---|"]
    parts: list[str] = []
    for one in suites.SUITES:
        found = next(((where, figures) for which, where, figures in measured if which is one), None)
        if found is not None:
            where, figures = found
            lines.append(_line(one, where, _counted(figures)))
            parts.append(_part(one, where, _text_of(one, figures, directory)))
        elif (section := _section(one, directory)) is not None:
            lines.append(_line(one, section.environment, _counted_section(section)))
            parts.append(_part(one, section.environment, _section_text(section)))
        else:
            lines.append(f"| {one.name} | not yet | | | |")
    picture = f"\n![Semel beside Apache Kafka: every figure with a target]({pictures.PICTURE})\n"
    return _HEADER + "\n".join(lines) + "\n" + picture + "".join(parts)


def figures_of(path: Path) -> tuple[Environment, list[Figure]]:
    """The stored results of a suite."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Environment(**document["environment"]), [_figure(entry) for entry in document["figures"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(
            f"{path} holds no figures of this version ({error!r}): measure again or remove it"
        ) from error


def _figure(entry: dict[str, Any]) -> Figure:
    estimates = {key: Estimate(**entry[key]) if entry[key] else None for key in ("semel", "kafka", "ratio")}
    targets = tuple(Target(**target) for target in entry["targets"])
    return Figure(**{**entry, **estimates, "targets": targets})


def _measured(directory: Path) -> list[tuple[Suite, Environment, list[Figure]]]:
    """Every suite that compares brokers and has run."""
    made: list[tuple[Suite, Environment, list[Figure]]] = []
    for one in suites.SUITES:
        path = (directory / one.page).with_suffix(".json")
        if not one.compares_programs and path.exists():
            made.append((one, *figures_of(path)))
    return made


def _drawn(directory: Path) -> dict[str, list[Figure]]:
    """What has a picture, by suite; a suite may keep a second part beside its first."""
    found = dict[str, list[Figure]]()
    for one, _where, figures in _measured(directory):
        parts = sorted(directory.glob(f"benchmarks-{one.name}-*.json"))
        found[one.name] = [*figures, *(more for part in parts for more in figures_of(part)[1])]
    return {name: figures for name, figures in found.items() if any(more.ratio for more in figures)}


def _section(one: Suite, directory: Path) -> Section | None:
    """The stored results of a comparing suite, if it has run."""
    kept = read((directory / one.page).with_suffix(".json")) if one.compares_programs else []
    return next((section for section in kept if section.name == one.name), None)


# Parts of the page


def _line(one: Suite, where: Environment, targets: str) -> str:
    name = f"[{one.name}](#{one.name})"
    machine = f"{where.processor}, {where.cores} cores, {where.python}"
    return f"| {name} | {where.date} | {where.commit} | {machine} | {targets} |"


def _part(one: Suite, where: Environment, text: str) -> str:
    return (
        f"\n## {one.name}\n\n{one.line[0].upper()}{one.line[1:]}. All figures: [{one.page}]({one.page}).\n\n"
        f"    {where.command}\n\n{text}"
    )


def _text_of(one: Suite, figures: Sequence[Figure], directory: Path) -> str:
    shown = [figure for figure in figures if figure.targets or "broker CPU" in figure.quantity]
    if not any(figure.targets for figure in figures):
        shown = list(figures)
    text = summary(figures).splitlines()[0].removesuffix(" Missed:") + "\n"
    if one.name in _GROWTH:
        picture = Path(one.page).with_suffix(".svg").name
        if (directory / picture).exists():
            text += f"\n![How cost grows]({picture})\n"
        shown = _largest(figures)
    if one.name == "idempotence":
        text += seeds_table(figures)
    return f"{text}\n{ratios_first(shown)}" if shown else text


def _largest(figures: Sequence[Figure]) -> list[Figure]:
    """The values at the largest size of each axis."""
    last = {figure.group: figure.work for figure in figures}
    return [figure for figure in figures if figure.work == last[figure.group]]


def ratios_first(figures: Sequence[Figure]) -> str:
    """A table whose first figure is the ratio."""
    lines = ["| | | Semel ÷ Kafka | Semel | Kafka | target |", "|---|---|---:|---:|---:|---|"]
    work = ""
    for one in figures:
        cells = [
            "" if one.work == work else one.work,
            one.quantity,
            "" if one.ratio is None else with_interval(one.ratio),
            number_text(one.semel.median) if one.ratio else with_interval(one.semel),
            "" if one.kafka is None else number_text(one.kafka.median),
            "; ".join(one.verdicts()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
        work = one.work
    return "\n".join(lines) + "\n"


def _section_text(section: Section) -> str:
    """Comparisons of one process: how many times the speed, at what share of the CPU."""
    lines = ["| | beside | speed | CPU | |", "|---|---|---:|---:|---|"]
    for result in section.results:
        for number, ratio in enumerate(result.ratios):
            cells = [
                result.title if number == 0 else "",
                ratio.peer,
                with_interval(ratio.speed),
                "" if ratio.cpu is None else with_interval(ratio.cpu),
                (verdict(result) or "") if number == 0 else "",
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _counted(figures: Sequence[Figure]) -> str:
    said = [words for one in figures for words in one.verdicts() if not words.endswith("not decided")]
    return f"{sum('**missed**' not in words for words in said)} of {len(said)}" if said else "none set"


def _counted_section(section: Section) -> str:
    said = [words for one in section.results if one.target_ratio is not None and (words := verdict(one))]
    return f"{sum('**' not in words for words in said)} of {len(said)}" if said else "none set"
