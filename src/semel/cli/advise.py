"""`semel advise`: two questions, and the settings they lead to.

Rules.  A question that is answered by an option is not asked; without a terminal both must be.
"""

import json
import sys

import click

from semel.insight.advice import HARM, TOGETHER, TRANSACTIONS, without_transactions


@click.command(name="advise", epilog="Example: semel advise --not-together --repeats-harm")
@click.option("--together/--not-together", default=None, help=TOGETHER)
@click.option("--repeats-harm/--repeats-harmless", default=None, help=HARM)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(together: bool | None, repeats_harm: bool | None, output: str) -> None:
    """Choose between transactions, idempotence and neither; prints a producer's settings."""
    advice = TRANSACTIONS
    if not _answer(TOGETHER, together, "--together"):
        advice = without_transactions(repeats_harm=_answer(HARM, repeats_harm, "--repeats-harm"))
    if output == "json":
        click.echo(json.dumps(advice._asdict()))
        return
    click.echo(advice.why)
    for key, value in advice.settings.items():
        click.echo(f"{key}={value}")


def _answer(question: str, given: bool | None, option: str) -> bool:
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody can be asked here: answer with {option} or its opposite.")
    return click.confirm(question, err=True)
