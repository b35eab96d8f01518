"""`semel demo --story records`: a million records, a bad connection, two kills, and a count."""

import asyncio

import click

from semel.cli.progress import Progress
from semel.errors import SemelError
from semel.insight.sentences import several
from semel.verify.demo.records.story import Outcome, play
from semel.verify.fault_proxy import Fate

_BAR_WIDTH = 30


def show_records(records: int, seed: int) -> None:
    """Produce through a connection that loses, delays and repeats acknowledgements, kill -9 the broker twice, read
    everything back and count.
    """
    with Progress(plain_seconds=0.0) as bar:

        def progress(stored: int, what: str) -> None:
            filled = _BAR_WIDTH * stored // records
            line = f"[{'█' * filled}{'·' * (_BAR_WIDTH - filled)}] {stored:>{len(f'{records:,}')},} of {records:,}  {what}"
            bar.show(line if bar.is_watched else what)

        outcome: Outcome = asyncio.run(play(records, seed, progress))
        bar.end(keep=True)
    rows = [
        ("sent", outcome.sent),
        ("stored", outcome.stored),
        ("duplicated", outcome.duplicated),
        ("lost", outcome.lost),
        ("out of order", outcome.reordered),
    ]
    for name, value in rows:
        click.echo(f"{name:>13} {value:>12,}")
    harm = outcome.harm
    click.echo(
        f"\nOn the way: kill -9 {several(outcome.kills, 'time')}, "
        f"{several(harm.get(Fate.CUT_AFTER, 0), 'acknowledgement')} lost, {harm.get(Fate.DELAY, 0)} delayed, "
        f"{several(harm.get(Fate.REPEAT, 0), 'request')} delivered twice, {several(outcome.sent_again, 'batch', 'batches')} "
        f"sent again over {several(outcome.connections, 'connection')}. "
        f"{outcome.seconds:.1f} s."
    )
    if outcome.duplicated or outcome.lost or outcome.reordered:
        raise SemelError("the log is not what was sent")
