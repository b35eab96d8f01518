"""`semel demo`: a million records, a bad connection, two kills, and a count."""

import asyncio
import sys

import click

from semel.errors import SemelError

_BAR_WIDTH = 30


@click.command(name="demo", epilog="Example: semel demo --records 200000")
@click.option("--records", type=click.IntRange(1000, 100_000_000), default=1_000_000, show_default=True)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Which answers are lost, delayed and repeated."
)
def command(records: int, seed: int) -> None:
    """Produce through a connection that loses, delays and repeats acknowledgements, kill -9 the broker twice, read
    everything back and count.
    """
    from semel.runtime.kernel_cache import use_kernel_cache
    from semel.verify.demo.story import Outcome, play

    use_kernel_cache()
    shown = [""]

    def progress(stored: int, what: str) -> None:
        filled = _BAR_WIDTH * stored // records
        line = f"[{'█' * filled}{'·' * (_BAR_WIDTH - filled)}] {stored:>{len(f'{records:,}')},} of {records:,}  {what}"
        if not sys.stderr.isatty():
            line = what
        if line != shown[0]:
            shown[0] = line
            click.echo(
                f"\r\x1b[2K{line}" if sys.stderr.isatty() else line, err=True, nl=not sys.stderr.isatty()
            )

    outcome: Outcome = asyncio.run(play(records, seed, progress))
    if sys.stderr.isatty():
        click.echo("", err=True)
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
        f"\nOn the way: {outcome.kills} times kill -9, {harm.answers_lost} acknowledgements lost, "
        f"{harm.answers_delayed} delayed, {harm.requests_repeated} requests delivered twice, "
        f"{outcome.sent_again} batches sent again over {outcome.connections} connections. "
        f"{outcome.seconds:.1f} s."
    )
    if outcome.duplicated or outcome.lost or outcome.reordered:
        raise SemelError("the log is not what was sent")
