"""Ratios as a picture: how many times better Semel is than Kafka, figure by figure.

Role.   `ratio_plot` draws `broker_figures.Figure`s that have a ratio; `short_plot` ten of them, for README.
Rules.  * One direction is better everywhere: a cost, a time or a size is drawn as Kafka ÷ Semel, a speed as Semel ÷ Kafka. The
          pages' tables keep Semel ÷ Kafka.
        * The short picture takes figures by name, the missed ones too. A name that no suite has is an error, not a gap.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from semel.bench.broker_figures import Figure
from semel.bench.measure import BenchError
from semel.drawing.ratios import Row, ratios

_HOW: Final = (
    "Speeds are Semel ÷ {peer}, costs, times and sizes are {peer} ÷ Semel: to the right is better everywhere. "
    "Both ran on the same machine in turn."
)
_SHORT: Final = (
    ("broker", "a new process", "s to the first acknowledged produce", "Start until the first acknowledged produce, time"),
    ("recovery", "after kill -9, 2 GB in 2 partitions", "s to the first fetch of each partition", "Restart after kill -9 with 2 GB, time"),
    ("broker", "produce 1 MB batches of 100 B", "GB/s", "Produce, 1 MB batches, speed"),
    ("broker", "produce 1 MB batches of 100 B", "broker CPU s per GB", "Produce, 1 MB batches, broker CPU"),
    ("broker", "tiny requests, 1 in flight", "ack p50, µs", "One record at a time, median ack, time"),
    ("broker", "confluent-kafka, produce 1 KiB", "GB/s", "Produce with confluent-kafka, 1 KiB, speed"),
    ("transactions", "10 producers, the loader, v2", "commit p50, µs", "Commit with 10 producers, median, time"),
    ("transactions", "confluent-kafka, 500 records per transaction", "records/s", "Consume, transform, produce, speed"),
    ("groups", "the driver", "ms, median", "From joining a group to the first record, time"),
    ("spark", "Stream, available now, 100 B rows", "rows/s", "Spark: read a stream, speed"),
)  # fmt: skip
"""Suite, work, quantity; and how README calls it."""


def ratio_plot(figures: Sequence[Figure], title: str, peer: str = "Kafka", name: str = "semel-ratios") -> str:
    """The picture, as the text of an SVG file."""
    rows = [
        row for one in figures if (row := _row(one, one.group, f"{one.work}: {one.quantity}")) is not None
    ]
    groups = list(dict.fromkeys(row.group for row in rows))
    rows.sort(key=lambda row: groups.index(row.group))
    return ratios(name, title, _HOW.format(peer=peer), rows, peer)


def short_plot(figures: Mapping[str, Sequence[Figure]]) -> str:
    """Ten figures of many, by the suites they are from."""
    rows: list[Row] = []
    for suite, work, quantity, label in _SHORT:
        found = [one for one in figures.get(suite, ()) if (one.work, one.quantity) == (work, quantity)]
        row = _row(found[0], "", label) if found else None
        if row is None:
            raise BenchError(f"{suite} has no ratio of {work}: {quantity}; README's picture names it")
        rows.append(row)
    return ratios("semel-ratios-short", "Semel beside Apache Kafka", _HOW.format(peer="Kafka"), rows, "Kafka")


def has_all(figures: Mapping[str, Sequence[Figure]]) -> bool:
    """Whether every suite of the short picture has run."""
    return all(suite in figures for suite, *_ in _SHORT)


def _row(one: Figure, group: str, label: str) -> Row | None:
    ratio = one.ratio
    if ratio is None or ratio.low <= 0:
        return None
    targets = [target for target in one.targets if not target.absolute]
    target = targets[0].limit if targets else None
    kept = all(target.meets(ratio.median) for target in targets) if targets else None
    if one.more_is_better:
        return Row(group, label, ratio.low, ratio.median, ratio.high, target, kept)
    return Row(
        group,
        label,
        1 / ratio.high,
        1 / ratio.median,
        1 / ratio.low,
        None if target is None else 1 / target,
        kept,
    )
