"""A broker whose disk and clock are harmed by whoever started it: `semel verify`'s own, and no command of `semel`.

Role.   `python -m semel.cli.harmed_broker --harm JSON …` is `semel broker` on `verify.proof.harm.harmed_runtime`.
Flow.   The starter's orders come on standard input, a `Harm` a line; each is answered by a line on standard output once it
        holds. Nothing that comes over the network can give one.
        `--mutation NAME` makes it a broker that breaks one rule (`verify.mutations.catalogue`), for as long as the process
        lives: what the judgement of a proof must find.
Rules.  * When standard input ends, so does the broker: it does not outlive the proof it was started for.
"""

import os
import signal
import sys
import threading

import click

from semel.cli.broker import serve
from semel.cli.options import pairs
from semel.verify.faults.harm import Harm, Harmed, harmed_runtime


@click.command()
@click.option("--harm", required=True)
@click.option("--listen", required=True)
@click.option("--data-dir", required=True)
@click.option("--mutation")
@click.option("-X", "settings", multiple=True, callback=pairs)
def command(harm: str, listen: str, data_dir: str, mutation: str | None, settings: dict[str, str]) -> None:
    """Run a broker on a disk and a clock that misbehave."""
    if mutation is not None:
        from semel.verify.mutations.catalogue import MUTATIONS
        from semel.verify.mutations.mutation import Patch

        MUTATIONS[mutation].change(Patch())
    harmed = Harmed(Harm.from_line(harm))
    threading.Thread(target=_obey, args=(harmed,), name="orders", daemon=True).start()
    named = {**settings, "listeners": f"PLAINTEXT://{listen}", "log.dirs": data_dir}
    serve(named, lambda: harmed_runtime(harmed))


def _obey(harmed: Harmed) -> None:
    for line in sys.stdin:
        harmed.harm = Harm.from_line(line)
        click.echo(f"harmed {line.strip()}")
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    command()
