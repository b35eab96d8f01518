"""`semel demo`: the shop's story with its progress, its final table and its picture."""

import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from semel.errors import SemelError
from semel.spark.java import find_java
from semel.verify.demo.shop.display import display_for
from semel.verify.demo.shop.judgement import Line, Verdict
from semel.verify.demo.shop.model import Shop
from semel.verify.demo.shop.picture import as_data, html, svg
from semel.verify.demo.shop.story import Outcome, Script, Story
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL

_ORDERS_PER_TRANSACTION: Final = 150
_COLUMNS: Final = ("expected", "found", "lost", "duplicated", "torn", "wrong")


class NotOnceError(SemelError):
    """The demonstration was played to its end, and the promise was not kept."""


def drawn(outcome: Outcome, suffix: str, command: str) -> str:
    """The picture as the file of that name wants it."""
    match suffix:
        case ".svg":
            return svg(outcome.timeline, outcome.verdict)
        case ".json":
            return json.dumps(as_data(outcome.timeline, outcome.verdict)) + "\n"
        case _:
            return html(outcome.timeline, outcome.verdict, command)


def show_shop(orders: int, seed: int, picture: Path) -> None:
    """Play the story and print its proof; raises if anything is lost, duplicated, torn or wrong."""
    find_java()  # A missing requirement is reported before anything is started.
    transactions = -(-orders // _ORDERS_PER_TRANSACTION)
    script = Script(Shop(seed, transactions, _ORDERS_PER_TRANSACTION))
    with (
        _ended_in_order(),
        tempfile.TemporaryDirectory(prefix="semel-demo-", ignore_cleanup_errors=True) as folder,
        display_for(sys.stderr) as display,
    ):
        outcome = Story(script, Path(folder), display.show).play()
    command = f"semel demo --orders {orders} --seed {seed}"
    picture.write_text(drawn(outcome, picture.suffix, command), encoding="utf-8")
    click.echo()
    for line in table_lines(outcome.verdict):
        click.echo(line)
    click.echo(f"\n{on_the_way(outcome)}\nThe picture: {picture}")
    if not outcome.verdict.kept:
        raise NotOnceError("not every order was counted once: see the table")


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """A signal to this process ends its children too: the way out goes through every `finally`."""

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(1)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def table_lines(verdict: Verdict) -> list[str]:
    """The proof, for people."""
    rows = [("", *_COLUMNS), *(_row(line) for line in verdict.lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    ]


def _row(line: Line) -> tuple[str, ...]:
    def amount(value: int) -> str:
        return f"{value / 100:,.2f}" if line.unit == "cents" else f"{value:,}"

    counts = (line.lost, line.duplicated, line.torn, line.wrong)
    return (line.name, amount(line.expected), amount(line.found), *(f"{count:,}" for count in counts))


def on_the_way(outcome: Outcome) -> str:
    """The faults the demonstration met."""
    timeline, last = outcome.timeline, outcome.timeline.last
    kills = ", ".join(
        f"{name} {_times(timeline.kills(who))}"
        for who, name in ((BROKER, "broker"), (DRIVER, "driver"), (TILL, "till"))
    )
    alone = sum(not fault.on_purpose for fault in timeline.faults)
    restarted = f", and {_times(alone)} a program ended by itself and was started again" if alone else ""
    return (
        f"On the way: kill -9 of the {kills}{restarted}; of {outcome.requests:,} requests {last.cuts} met a connection "
        f"that was cut, {last.delays} were answered late, {last.copies} arrived twice. {last.seconds:.0f} s."
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
