"""Prometheus' text format, version 0.0.4: lines out of samples, and samples out of lines.

Role.   `metrics.page` writes what the broker has counted with it, `semel doctor` reads it.
Rules.  * A gap in a producer's sequences stands in a comment: who scrapes passes it over, and has no series per producer and
          sequence to keep for ever. The doctor, and whoever looks with curl, reads it.
        * Names are ours; label values are escaped.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from semel.broker.metrics.counts import Gap
from semel.errors import WireError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_GAP: Final = "# GAP "
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)",?')
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_UNESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """A metric as it is announced."""

    name: str
    kind: str
    help: str


class Sample(NamedTuple):
    """One value, as it was read."""

    name: str
    labels: dict[str, str]
    value: float


def family_lines(family: Family, rows: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    """The lines of a metric: what it is, and its values."""
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value in rows:
        shown = ",".join([f'{key}="{one.translate(_ESCAPES)}"' for key, one in labels])
        place = f"{{{shown}}}" if shown else ""
        yield f"{family.name}{place} {number(value)}\n"


def gap_lines(gaps: Iterable[Gap]) -> Iterator[str]:
    """The comments that name gaps, oldest first."""
    for gap in gaps:
        shown = " ".join(f'{key}="{str(value).translate(_ESCAPES)}"' for key, value in gap._asdict().items())
        yield f"{_GAP}{shown}\n"


def number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(value)


def read_samples(text: str) -> list[Sample]:
    """Every value of a page; raises `WireError` at a line that is none and no comment."""
    samples: list[Sample] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _SAMPLE.match(line)
        try:
            if found is None:
                raise ValueError("no sample")
            samples.append(Sample(found[1], dict(_labels(found[2] or "")), float(found[3])))
        except ValueError as error:
            raise WireError(f"this is not a line of Prometheus' text format: {line[:200]!r}") from error
    return samples


def read_gaps(text: str) -> list[Gap]:
    """The gaps a page names, oldest first."""
    gaps: list[Gap] = []
    for line in text.splitlines():
        if line.startswith(_GAP):
            told = dict(_labels(line[len(_GAP) :].replace('" ', '",')))
            try:
                gaps.append(Gap(told["topic"], *(int(told[name]) for name in Gap._fields[1:])))
            except (KeyError, ValueError) as error:
                raise WireError(f"this names no gap: {line[:200]!r}") from error
    return gaps


def _labels(text: str) -> Sequence[tuple[str, str]]:
    return [
        (key, re.sub(r"\\.", lambda escape: _UNESCAPES.get(escape[0], escape[0]), value))
        for key, value in _LABEL.findall(text)
    ]
