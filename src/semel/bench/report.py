"""Measurements as a page: where and how they were taken, the figures, and every target reached or missed.

Role.   Turns `ComparisonResult`s into Markdown for people and JSON for keeping.
Flow.   `__main__` makes a `Section` per benchmark module, merges it into the JSON beside the page with `update`, and
        the page is always rendered from the JSON: measuring one section again never loses the others.
Rules.  * A missed target is said in a sentence of its own, not left to be computed by the reader.
        * Each section names its date, commit, Python, processor and command: they may differ between sections.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from semel.bench.measure import BenchError, ComparisonResult, Estimate, Ratio, SubjectResult, coverage
from semel.runtime.environment import Environment

_HEADER: Final = """\
# Benchmarks

Written by `make bench`; do not edit. Every comparison ran its subjects in turn, in the same process and the same
minute, so that ratios hold where absolute figures depend on the machine. A figure is the median of the rounds; the
interval in brackets holds the true median with the probability given below it. *Speed* is Semel's units per second
over the peer's (more is better), *CPU* is Semel's CPU seconds over the peer's for the same work (less is better).
"""


@dataclass(frozen=True, slots=True)
class Section:
    """All comparisons of one benchmark module."""

    name: str
    about: str
    environment: Environment
    results: tuple[ComparisonResult, ...]


def update(json_path: Path, fresh: Sequence[Section], order: Sequence[str]) -> list[Section]:
    """Replace the measured sections in the JSON file, keep the others; returns all of them in `order`."""
    sections = {section.name: section for section in read(json_path)}
    sections.update((section.name, section) for section in fresh)
    ranks = {name: rank for rank, name in enumerate(order)}
    merged = sorted(
        sections.values(), key=lambda section: (ranks.get(section.name, len(ranks)), section.name)
    )
    json_path.parent.mkdir(parents=True, exist_ok=True)
    json_path.write_text(as_json(merged), encoding="utf-8")
    return merged


def as_json(sections: Sequence[Section]) -> str:
    return json.dumps({"sections": [asdict(section) for section in sections]}, indent=1) + "\n"


def read(json_path: Path) -> list[Section]:
    """The sections kept in the JSON file; none if it is not there yet."""
    try:
        document = json.loads(json_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise BenchError(f"{json_path} is not JSON ({error}): restore or remove it") from error
    try:
        return [_section(entry) for entry in document["sections"]]
    except (KeyError, TypeError) as error:
        raise BenchError(
            f"{json_path} holds no measurements of this version ({error!r}): remove it"
        ) from error


def as_markdown(sections: Sequence[Section]) -> str:
    """The whole page."""
    return _HEADER + "".join(_section_lines(section) for section in sections)


def comparison_lines(result: ComparisonResult) -> str:
    """One comparison: heading, table, verdict, notes."""
    has_bytes = any(subject.gb_per_second is not None for subject in result.subjects)
    columns = ["", f"{result.unit}/s", f"µs per {_one(result.unit)}", f"CPU µs per {_one(result.unit)}"]
    if has_bytes:
        columns += ["GB/s", "CPU s per GB"]
    columns += ["speed", "CPU"]
    ratios = {ratio.peer: ratio for ratio in result.ratios}
    rows = [_row(subject, ratios.get(subject.name), has_bytes=has_bytes) for subject in result.subjects]
    lines = [
        f"\n### {result.title}\n",
        _table_line(columns),
        _table_line(["---"] + ["---:"] * (len(columns) - 1)),
    ]
    lines += [_table_line(row) for row in rows]
    lines.append(f"\n{result.pairs} rounds; intervals hold with {coverage(result.pairs):.1%}.")
    if (sentence := verdict(result)) is not None:
        lines.append(f"\n{sentence}")
    lines += [f"\nNote: {note}." for note in result.notes]
    return "\n".join(lines) + "\n"


def verdict(result: ComparisonResult) -> str | None:
    """Whether the target was reached, in one sentence; None if there is no target."""
    if result.target_ratio is None:
        return None if result.target is None else f"Target: {result.target}."
    peers = result.target_peers
    target = result.target or f"at least {result.target_ratio:g} times the speed of {' and '.join(peers)}"
    found = [ratio for ratio in result.ratios if ratio.peer in peers]
    ratio = min(found, key=lambda one: one.speed.median, default=None)  # The fastest of them decides.
    if ratio is None:
        return f"Target not decided: {target}; there was nothing to measure it beside."
    measured = f"measured {with_interval(ratio.speed)}{f' beside {ratio.peer}' if len(peers) > 1 else ''}"
    if ratio.speed.median < result.target_ratio:
        return f"**Target missed**: {target}; {measured}."
    if missing := [peer for peer in peers if peer not in {one.peer for one in found}]:
        return f"Target not decided: {target}; {' and '.join(missing)} could not be measured; {measured}."
    if ratio.speed.low < result.target_ratio:
        return f"Target reached by the median, but not by the whole interval: {target}; {measured}."
    return f"Target reached: {target}; {measured}."


def _section_lines(section: Section) -> str:
    where = section.environment
    head = (
        f"\n## {section.name}\n\n{section.about}\n\n"
        f"Measured {where.date} at commit {where.commit}, {where.python}, "
        f"{where.processor}, {where.cores} cores. Again with:\n\n    {where.command}\n"
    )
    return head + "".join(comparison_lines(result) for result in section.results)


def _row(subject: SubjectResult, ratio: Ratio | None, *, has_bytes: bool) -> list[str]:
    cells = [
        subject.name,
        with_interval(subject.units_per_second),
        number_text(subject.microseconds_per_unit.median),
    ]
    cells.append(number_text(subject.cpu_microseconds_per_unit.median))
    if has_bytes:
        cells += [_median(subject.gb_per_second), _median(subject.cpu_seconds_per_gb)]
    if ratio is None:
        return [*cells, "", ""]
    return [*cells, with_interval(ratio.speed), "" if ratio.cpu is None else with_interval(ratio.cpu)]


def _table_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _one(plural: str) -> str:
    """The unit in the singular: "batches" -> "batch", "queries" -> "query", "records" -> "record"."""
    for ending, singular in (("ies", "y"), ("ches", "ch"), ("s", "")):
        if plural.endswith(ending):
            return plural.removesuffix(ending) + singular
    return plural


def _median(value: Estimate | None) -> str:
    return "" if value is None else number_text(value.median)


def with_interval(value: Estimate) -> str:
    return f"{number_text(value.median)} [{number_text(value.low)}, {number_text(value.high)}]"


def number_text(value: float) -> str:
    """Three significant digits, as people write them: 12,300,000; 456; 1.23; 0.00456."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    if abs(rounded) < 1e-4:
        return f"{value:.2e}"
    return f"{value:#.3g}"


def aligned(markdown: str) -> str:
    """A text whose Markdown tables are set in straight columns, for a terminal."""
    lines = markdown.split("\n")
    made: list[str] = []
    position = 0
    while position < len(lines):
        end = position
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        if end == position:
            made.append(lines[position])
            position += 1
        else:
            made += _straightened(lines[position:end])
            position = end
    return "\n".join(made).replace("**", "")


def _straightened(lines: Sequence[str]) -> list[str]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head, rule, *body = rows
    widths = [max(len(row[at]) for row in (head, *body)) for at in range(len(head))]
    is_right = [cell.endswith(":") for cell in rule]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, is_right, strict=True)
        return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells)

    return [line(row).rstrip() for row in (head, ["-" * width for width in widths], *body)]


def _section(entry: Mapping[str, Any]) -> Section:
    return Section(
        name=entry["name"],
        about=entry["about"],
        environment=Environment(**entry["environment"]),
        results=tuple(_result(result) for result in entry["results"]),
    )


def _result(entry: Mapping[str, Any]) -> ComparisonResult:
    subjects = (
        SubjectResult(**{key: _estimate(value) for key, value in subject.items()})
        for subject in entry["subjects"]
    )
    ratios = (Ratio(**{key: _estimate(value) for key, value in ratio.items()}) for ratio in entry["ratios"])
    plain = dict(entry)
    if "target_peer" in plain:  # Kept before a target could name several.
        plain["target_peers"] = [peer for peer in (plain.pop("target_peer"),) if peer is not None]
    lists = {name: tuple(plain[name]) for name in ("target_peers", "notes")}
    return ComparisonResult(**{**plain, **lists, "subjects": tuple(subjects), "ratios": tuple(ratios)})


def _estimate(value: Any) -> Any:
    return Estimate(**value) if isinstance(value, dict) else value
