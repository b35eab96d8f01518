"""`semel advise`: two questions, and the settings they lead to.

Role.   The decision tree of docs/guide.md as a command: transactions, idempotence, or neither.
Rules.  A question that is answered by an option is not asked; without a terminal both must be.
"""

import json
import sys
from collections.abc import Mapping
from typing import Final

import click

_TOGETHER: Final = (
    "Must something happen in several partitions together, or together with the position you have read to?"
)
_HARM: Final = "Would it do harm if a record was stored twice?"
_CHOICES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "transactions": (
        "Use transactions: all of it is seen, or none. Give every instance an id of its own, and readers read_committed.",
        {"transactional.id": "NAME-OF-THIS-INSTANCE", "enable.idempotence": "true", "acks": "all"},
    ),
    "idempotence": (
        "Use idempotence: a retry is stored once. It is the default; nothing else is needed.",
        {"enable.idempotence": "true", "acks": "all"},
    ),
    "neither": (
        "Neither is needed: the least waiting, and now and then a record twice.",
        {"enable.idempotence": "false", "acks": "1"},
    ),
}


@click.command(name="advise", epilog="Example: semel advise --not-together --repeats-harm")
@click.option("--together/--not-together", default=None, help=_TOGETHER)
@click.option("--repeats-harm/--repeats-harmless", default=None, help=_HARM)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(together: bool | None, repeats_harm: bool | None, output: str) -> None:
    """Choose between transactions, idempotence and neither; prints a producer's settings."""
    choice = "transactions"
    if not _answer(_TOGETHER, together, "--together"):
        choice = "idempotence" if _answer(_HARM, repeats_harm, "--repeats-harm") else "neither"
    words, settings = _CHOICES[choice]
    if output == "json":
        click.echo(json.dumps({"choice": choice, "why": words, "settings": settings}))
        return
    click.echo(words)
    for key, value in settings.items():
        click.echo(f"{key}={value}")


def _answer(question: str, given: bool | None, option: str) -> bool:
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody can be asked here: answer with {option} or its opposite.")
    return click.confirm(question, err=True)
