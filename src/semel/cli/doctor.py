"""`semel doctor`: the findings of `semel.insight.doctor` about a cluster, line by line.

Rules.  Exit code 1 if anything is wrong; a warning is no failure.
"""

from typing import Final

import click

from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import FOR_PEOPLE, Column, show, styled

_MARKS: Final = {"ok": "  ok  ", "warning": " warn ", "problem": "WRONG "}
_COLORS: Final = {"ok": "green", "warning": "yellow", "problem": "red"}
_COLUMNS: Final = (Column("LEVEL", "level"), Column("TEXT", "text"))


@click.command(name="doctor", epilog="Example: semel doctor -b localhost:9092")
@connection_options
@output_option
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="A Semel broker's metrics (semel broker --metrics): for sequence gaps, batch sizes and acks.",
)
def command(bootstrap: str, settings: dict[str, str], output: str, metrics: str | None) -> None:
    """Check a cluster: reachable, versions, leaders, replicas, disks, clocks, producers.

    With --metrics also what the protocol does not tell: whose sequences have gaps, whether batches are too small,
    and who does not wait for acks=all.
    """
    from semel.insight.doctor import examine

    address = None if metrics is None else _address(metrics)
    with connected(bootstrap, settings) as client:
        sentences = client.run(examine, address)
    if output in FOR_PEOPLE:
        for one in sentences:
            click.echo(f"{styled(_MARKS[one.level], color=_COLORS[one.level])} {one.text}")
    else:
        show(output, [{"level": one.level, "text": one.text} for one in sentences], _COLUMNS)
    if any(one.level == "problem" for one in sentences):
        raise click.exceptions.Exit(1)


def _address(metrics: str) -> tuple[str, int]:
    from semel.broker.metrics.listener import address_of
    from semel.errors import ConfigError

    try:
        return address_of(metrics)
    except ConfigError as error:
        raise click.BadParameter(f"{error}.", param_hint="--metrics") from error
