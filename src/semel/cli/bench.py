"""`semel bench`: Semel beside its peers, on this machine.

Role.   Chooses suites and hands each its options; measuring, tables and pages are `semel.bench`'s.
Rules.  * A suite that fails does not keep the others from running; the exit code is 1 then. A missed target is a result.
        * The peer is looked for before anything is measured: who has none is told at once how to get one.
"""

import argparse
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from semel.bench.suites import NAMES, SUITES, arguments_of, chosen

_EXAMPLE: Final = "Example: semel bench broker groups --quick"
_PAIRS_MAX: Final = 1001


def _check_names(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if value not in NAMES:
            raise click.BadParameter(f"there is no suite {value!r}; there are {', '.join(NAMES)}.")
    return tuple(dict.fromkeys(values))


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(one.name, help=one.line) for one in SUITES if one.name.startswith(incomplete)]


_SUITES_TEXT: Final = "\b\n    " + "\n    ".join(f"{one.name:<13} {one.line}" for one in SUITES)


@click.command(
    name="bench",
    epilog=_EXAMPLE,
    help=f"""Measure Semel beside Apache Kafka: in turns, ratios with their spread, CPU seconds beside wall time.

    SUITES, all if none is named:

    {_SUITES_TEXT}

    The peer is the Apache Kafka that 'python -m semel.peers.kafka install' fetches, the broker named by --against, or another
    Semel named by --beside. A missed target is a result, not a failure.
    """,
)
@click.argument("names", metavar="[SUITE]...", nargs=-1, callback=_check_names, shell_complete=_complete)
@click.option(
    "--quick", is_flag=True, help="Little work, few rounds: a first look, minutes instead of hours."
)
@click.option(
    "--pairs", type=click.IntRange(1, _PAIRS_MAX), help="Rounds of both sides.  [default: 7; scale 3]"
)
@click.option(
    "--against",
    metavar="HOST:PORT",
    help="The peer is this broker, of any make; topics are made there and removed again.",
)
@click.option(
    "--beside",
    metavar="PYTHON",
    help="The peer is the Semel of another environment, by its python: another version or commit.",
)
@click.option("--alone", is_flag=True, help="No peer: Semel's own figures.")
@click.option(
    "--write",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write each suite's page, plot and figures there, and performance.md from all of them.",
)
@click.option(
    "--page",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Measure nothing: make performance.md anew from the figures there.",
)
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where brokers keep their data meanwhile; removed behind them.",
)
def command(
    names: tuple[str, ...],
    quick: bool,
    pairs: int | None,
    against: str | None,
    beside: str | None,
    alone: bool,
    write: Path | None,
    page: Path | None,
    directory: Path | None,
) -> None:
    """See `help` above: it lists the suites."""
    if page is not None:
        from semel.bench import performance

        click.echo(f"written: {performance.write(page)}")
        return
    _check(names, quick=quick, against=against, beside=beside, alone=alone, write=write)
    from semel.bench.__main__ import main
    from semel.bench.peer import peer_of

    picked = chosen(names, against=against is not None, alone=alone)
    if any(one.has_peer for one in picked):
        peer_of(argparse.Namespace(against=against, beside=beside, alone=alone))
    failed: list[str] = []
    for one in picked:
        click.echo(f"{one.name}: {one.line}", err=True)
        words = arguments_of(
            one,
            quick=quick,
            pairs=pairs,
            against=against,
            alone=alone,
            beside=beside,
            directory=directory,
            write=write,
        )
        if main(words) != 0:
            failed.append(one.name)
        elif write is not None:
            from semel.bench import performance

            click.echo(f"written: {performance.write(write)}", err=True)
    if failed:
        click.echo(f"semel: not measured: {', '.join(failed)}", err=True)
        raise click.exceptions.Exit(1)


def _check(
    names: tuple[str, ...],
    *,
    quick: bool,
    against: str | None,
    beside: str | None,
    alone: bool,
    write: Path | None,
) -> None:
    """Options that exclude each other."""
    if beside is not None and (against is not None or alone):
        raise click.UsageError("--beside names a peer: leave out --against and --alone.")
    if against is not None and alone:
        raise click.UsageError("--against names a peer and --alone wants none: keep one.")
    if against is not None and ":" not in against:
        raise click.BadParameter(f"{against!r} is no HOST:PORT, as 127.0.0.1:9092.", param_hint="--against")
    if write is not None and quick:
        raise click.UsageError("--quick figures are not for a page: leave out --quick or --write.")
    if write is not None and (against is not None or beside is not None or alone):
        raise click.UsageError(
            "Pages are written beside the Apache Kafka of this machine: leave out --write."
        )
    bound = [one.name for one in SUITES if one.name in names and one.has_peer and not one.elsewhere]
    if against is not None and bound:
        raise click.UsageError(
            f"{', '.join(bound)} must start and kill the peer: leave out --against, or name "
            f"{', '.join(one.name for one in SUITES if one.elsewhere)}."
        )
    lonely = [one.name for one in SUITES if one.name in names and not one.alone]
    if alone and lonely:
        raise click.UsageError(
            f"{', '.join(lonely)}: nothing is measured there without a peer: leave out --alone."
        )
