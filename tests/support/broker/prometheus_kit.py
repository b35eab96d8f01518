"""What Prometheus would see and do: a strict reader of its text format, and as much of its rules as ours use.

`read_page` takes nothing that the format (version 0.0.4) does not allow: a metric's HELP and TYPE come once and before its
values, its lines stand together, no two values have the same labels. `fires` evaluates an alert's expression over pages that
were scraped at given times; an expression it does not know is an error, so that a rule cannot pass by not being understood.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import yaml

Labels = frozenset[tuple[str, str]]
Page = dict[str, dict[Labels, float]]
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? ([^ ]+)")
_ONE_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|NaN|[+-]Inf")
_SELECTOR = rf"{_NAME}(?:\{{[^}}]*\}})?"
_INCREASE = re.compile(rf"increase\(({_SELECTOR})\[(\d+)m\]\)")
_RATIO = re.compile(rf"({_SELECTOR}) / ({_SELECTOR})")


class Scrape(NamedTuple):
    """A page and when it was taken."""

    seconds: float
    page: Page


class Alert(NamedTuple):
    """A rule of a file."""

    name: str
    expr: str
    for_seconds: int


def read_page(text: str) -> Page:
    """The values of a page by metric and labels; fails on anything the format does not allow."""
    assert text.endswith("\n")
    page: Page = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    current = ""
    for line in text[:-1].split("\n"):
        if found := re.fullmatch(rf"# HELP ({_NAME}) (.+)", line):
            assert found[1] not in helped, line
            helped.add(found[1])
            current = found[1]
        elif found := re.fullmatch(rf"# TYPE ({_NAME}) (counter|gauge)", line):
            assert found[1] == current, f"TYPE of another metric: {line}"
            assert found[1] not in kinds, line
            kinds[found[1]] = found[2]
        elif line.startswith("#"):
            assert not re.match(r"#\s*(HELP|TYPE)\b", line), f"neither HELP, TYPE nor a comment: {line}"
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, f"no sample: {line!r}"
            name, labels_text, value = found.groups()
            assert name == current, f"a value of {name} among those of {current}"
            assert name in kinds, line
            assert _NUMBER.fullmatch(value), line
            pairs = _ONE_LABEL.findall(labels_text or "")
            assert len({key for key, _ in pairs}) == len(pairs), line
            labels = frozenset((key, _unescaped(one)) for key, one in pairs)
            values = page.setdefault(name, {})
            assert labels not in values, f"twice: {line}"
            assert float(value) >= 0 or kinds[name] == "gauge", line
            values[labels] = float(value)
    return page


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def of(page: Page, name: str, **labels: str) -> float:
    """One value."""
    return page[name][frozenset(labels.items())]


def read_rules(text: str) -> list[Alert]:
    """The alerts of a file; fails on any key or type that Prometheus would not take, or that says nothing."""
    document: Any = yaml.safe_load(text)
    assert set(document) == {"groups"}
    alerts: list[Alert] = []
    for group in document["groups"]:
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}, rule
            assert re.fullmatch(r"[A-Z]\w+", rule["alert"])
            assert rule["labels"]["severity"] in ("critical", "warning")
            assert set(rule["annotations"]) == {"summary", "description"}
            assert all(isinstance(one, str) and one.endswith(".") for one in rule["annotations"].values())
            waits = re.fullmatch(r"(\d+)m", rule.get("for", "0m"))
            assert waits, rule
            alerts.append(Alert(rule["alert"], rule["expr"], 60 * int(waits[1])))
    assert len({alert.name for alert in alerts}) == len(alerts)
    return alerts


def metrics_of(expr: str) -> set[str]:
    """The metrics an expression is about."""
    bare = re.sub(r'\{[^}]*\}|"[^"]*"|\[\d+m\]', "", expr)
    return set(re.findall(_NAME, bare)) - {"increase"}


def fires(alert: Alert, scrapes: Sequence[Scrape]) -> list[dict[str, str]]:
    """The labels for which an alert fires after these scrapes, the last of which is now."""
    left, comparison, right = re.fullmatch(r"(.+) (>|<|==) ([0-9.]+)", alert.expr).groups()  # type: ignore[union-attr]  # or it fails
    held: set[Labels] | None = None
    for at, scrape in enumerate(scrapes):
        if scrape.seconds < scrapes[-1].seconds - alert.for_seconds:
            continue
        now = {
            labels
            for labels, value in _vector(left, scrapes[: at + 1]).items()
            if _compared(value, comparison, float(right))
        }
        held = now if held is None else held & now
    return [dict(labels) for labels in held or ()]


def _compared(value: float, comparison: str, limit: float) -> bool:
    return {">": value > limit, "<": value < limit, "==": value == limit}[comparison]


def _vector(expr: str, scrapes: Sequence[Scrape]) -> dict[Labels, float]:
    now = scrapes[-1]
    if found := _INCREASE.fullmatch(expr):
        within = [one for one in scrapes if one.seconds >= now.seconds - 60 * int(found[2])]
        grown: dict[Labels, float] = {}
        for before, after in pairwise(within):
            earlier = _selected(found[1], before.page)
            for labels, value in _selected(found[1], after.page).items():
                if labels in earlier:  # A series that has just begun has not increased.
                    fresh = value - earlier[labels] if value >= earlier[labels] else value
                    grown[labels] = grown.get(labels, 0.0) + fresh
        return grown
    if found := _RATIO.fullmatch(expr):
        below = _selected(found[2], now.page)
        return {
            labels: value / below[labels]
            for labels, value in _selected(found[1], now.page).items()
            if labels in below
        }
    assert re.fullmatch(_SELECTOR, expr), f"this reader does not know {expr!r}"
    return _selected(expr, now.page)


def _selected(selector: str, page: Page) -> dict[Labels, float]:
    name, _, condition = selector.partition("{")
    wanted = frozenset(_ONE_LABEL.findall(condition.rstrip("}")))
    return {labels: value for labels, value in page.get(name, {}).items() if wanted <= labels}
