"""Which picture belongs to which suite, and all of them drawn anew from the figures that are kept.

Role.   `picture` draws one suite's figures; suites that just ran and `redraw` come here. `redraw` reads the JSON of a directory and
        measures nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from semel.bench.broker_figures import Figure
from semel.bench.growth_plot import growth_plot
from semel.bench.plot import has_all, ratio_plot, short_plot

PICTURE: Final = "performance.svg"
SHORT_PICTURE: Final = "performance-short.svg"
_GROWTH: Final = "scale"
_WITHOUT: Final = ("cleaner",)
"""Its page has tables alone."""
_PEERS: Final = {"spark": "Spark's connector"}


def picture(suite: str, figures: Sequence[Figure]) -> str:
    """One suite's picture, as the text of an SVG file."""
    if suite == _GROWTH:
        return growth_plot(figures)
    peer = _PEERS.get(suite, "Kafka")
    return ratio_plot(figures, f"Semel beside {_PEERS.get(suite, 'Apache Kafka')}: {suite}", peer)


def redraw(directory: Path, figures: Mapping[str, Sequence[Figure]]) -> list[Path]:
    """The pictures of a directory, by suite, and the two of the performance page; where they are."""
    made = {
        f"benchmarks-{suite}.svg": picture(suite, all_of)
        for suite, all_of in figures.items()
        if suite not in _WITHOUT
    }
    headlines = [one for all_of in figures.values() for one in all_of if _is_headline(one)]
    made[PICTURE] = ratio_plot(headlines, "Semel beside Apache Kafka: every figure with a target")
    if has_all(figures):
        made[SHORT_PICTURE] = short_plot(figures)
    for name, text in made.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in made]


def _is_headline(one: Figure) -> bool:
    return one.ratio is not None and any(not target.absolute for target in one.targets)
