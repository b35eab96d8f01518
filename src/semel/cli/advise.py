"""`semel advise`: two questions, and the settings they lead to.

Rules.  A question that is answered by an option is not asked; without a terminal both must be.
"""

import sys

import click

from semel.cli.options import output_option
from semel.cli.output import CSV, FOR_PEOPLE, print_csv, show_document
from semel.insight.advice import HARM, TOGETHER, TRANSACTIONS, without_transactions


@click.command(name="advise", epilog="Example: semel advise --not-together --repeats-harm")
@click.option("--together/--not-together", default=None, help=TOGETHER)
@click.option("--repeats-harm/--repeats-harmless", default=None, help=HARM)
@output_option
def command(together: bool | None, repeats_harm: bool | None, output: str) -> None:
    """Choose between transactions, idempotence and neither; prints a producer's settings."""
    advice = TRANSACTIONS
    if not _answer(TOGETHER, together, "--together"):
        advice = without_transactions(repeats_harm=_answer(HARM, repeats_harm, "--repeats-harm"))
    if output == CSV:
        print_csv([{"setting": key, "value": value} for key, value in advice.settings.items()])
    elif output not in FOR_PEOPLE:
        show_document(output, advice._asdict())
    else:
        click.echo(advice.why)
        for key, value in advice.settings.items():
            click.echo(f"{key}={value}")


def _answer(question: str, given: bool | None, option: str) -> bool:
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody can be asked here: answer with {option} or its opposite.")
    return click.confirm(question, err=True)
