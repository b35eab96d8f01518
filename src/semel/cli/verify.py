"""`semel verify`: a proof, on a broker of its own or on any Kafka."""

import asyncio
import contextlib
import json
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from semel.cli.client_words import kept
from semel.cli.options import settings_option
from semel.cli.output_file import OutputFile
from semel.cli.progress import Progress
from semel.cli.spark_needed import need_spark
from semel.cli.verify_simulated import simulate, test_itself

if TYPE_CHECKING:
    from semel.verify.history.events import ClientEvent
    from semel.verify.proof.anomalies import Finding
    from semel.verify.proof.options import Options
    from semel.verify.proof.programs import Stage
    from semel.verify.proof.runner import Keep

_EXAMPLE = "Example: semel verify idempotence --against kafka.example:9092 --seconds 60"
_WORKLOADS = ["idempotence", "transactions", "transform", "groups", "spark"]
_FAULTS = [
    "network", "cut-off", "kill", "freeze", "torn-write", "slow-disk", "full-disk", "clock", "driver",
]  # fmt: skip


@click.command(name="verify", epilog=_EXAMPLE)
@click.argument("workloads", nargs=-1, type=click.Choice(_WORKLOADS))
@click.option(
    "--against",
    metavar="HOST:PORT",
    help="A cluster that runs: Semel or any Kafka. Without it, a broker of its own, to which everything is done.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86_400),
    help="How long.  [default: until every kind of fault that can be played there was played; 30 with --fault or without faults]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Decides which faults, and what is sent; printed at the end."
)
@click.option(
    "--writers", type=click.IntRange(1, 100), default=2, show_default=True, help="Programs of each kind."
)
@click.option(
    "--partitions", type=click.IntRange(1, 1000), default=6, show_default=True, help="Of each topic."
)
@click.option(
    "--fault-every",
    type=click.FloatRange(0, 3600),
    default=2.0,
    show_default=True,
    help="Mean seconds between faults; 0 for none.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice(_FAULTS),
    help="Only this one; may be repeated. All but network and cut-off need a broker of its own.  [default: all]",
)
@click.option(
    "--life",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds a broker of its own lives at least before it is killed, to see how it grows.",
)
@click.option(
    "--round",
    "round_seconds",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="A longer run is judged every so many seconds, and goes on with new topics.",
)
@click.option(
    "--without-idempotence",
    is_flag=True,
    help="Let the writers without transactions send as producers did before idempotence: the proof finds what that costs.",
)
@click.option("--json", "json_file", type=OutputFile(), help="Write the result here.")
@click.option(
    "--html",
    "html_file",
    type=OutputFile(),
    help="Write a page with a picture.",
)
@click.option(
    "--history",
    type=OutputFile(),
    help="Keep what was seen in every round, a JSON line per event.",
)
@click.option(
    "--log",
    "log_file",
    type=OutputFile(),
    help="Keep what the clients and brokers of this process say of the faults.",
)
@click.option(
    "--judge",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Judge a kept history instead.",
)
@click.option(
    "--sim",
    is_flag=True,
    help="Play seeded stories on a simulated clock, network and disk instead: broker and clients in one process, to the byte.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many --sim plays, from --seed on.",
)
@click.option("--story", metavar="NAME", help="Only this story of --sim; without it, a mix of all.")
@click.option(
    "--write",
    type=OutputFile(),
    help="Add what --sim played to this Markdown page.",
)
@click.option(
    "--self-test",
    is_flag=True,
    help="See that the judgement finds what is wrong: in histories written by hand, and in brokers and clients broken on purpose.",
)
@settings_option
def command(
    workloads: tuple[str, ...],
    against: str | None,
    seconds: float | None,
    seed: int | None,
    writers: int,
    partitions: int,
    fault_every: float,
    faults: tuple[str, ...],
    life: float,
    round_seconds: float,
    without_idempotence: bool,
    json_file: Path | None,
    html_file: Path | None,
    history: Path | None,
    log_file: Path | None,
    judge: Path | None,
    sim: bool,
    seeds: int,
    story: str | None,
    write: Path | None,
    self_test: bool,
    settings: dict[str, str],
) -> None:
    """Write, read and transform under faults, then look for every broken promise.

    WORKLOADS (all but spark, if none is named): idempotence is writers without transactions, transactions is writers with them.
    In transform, programs consume, transform and produce in a group; in groups, members read and commit their offsets; spark is a
    PySpark pipeline from topic to topic. They work on topics of their own while connections are cut, and requests lost, delayed
    and repeated. A broker of the command's own is killed, torn from a write and frozen; its disk is slow or full, its clock wrong.
    Every answer that a program got is judged. Without --seconds every kind of fault is played once. The exit code is 0 only if
    nothing is wrong.
    """
    if judge is not None:
        _judge_again(judge)
        return
    if self_test:
        test_itself()
        return
    if sim:
        simulate(0 if seed is None else seed, seeds, story, write)
        return
    from semel.spark.java import find_java
    from semel.verify.faults.disturber import FAULTS
    from semel.verify.proof.options import ALL_WORKLOADS, WORKLOADS, Options, ProofError
    from semel.verify.proof.page import html
    from semel.verify.proof.report import as_document, as_text
    from semel.verify.proof.runner import UnfinishedError, prove

    if "spark" in workloads:
        need_spark("the workload spark", instead="name others: transform is the same without Spark")
        find_java()
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    each_once = seconds is None and not faults and fault_every > 0
    options = Options(
        against=against,
        settings=settings,
        workloads=tuple(one for one in ALL_WORKLOADS if one in (workloads or WORKLOADS)),
        producer_settings=_OLD if without_idempotence else {},
        seconds=seconds or (_EACH_ONCE_SECONDS_MAX if each_once else _SECONDS),
        each_once=each_once,
        seed=chosen,
        partitions=partitions,
        writers=writers,
        fault_seconds=fault_every,
        faults=tuple(one for one in FAULTS if one in faults or not faults),
        life_seconds=life,
        round_seconds=round_seconds,
    )
    again = _again(options, without_idempotence=without_idempotence)
    unfinished: UnfinishedError | None = None
    try:
        with contextlib.ExitStack() as files:
            keep = (
                None if history is None else _keeper(files.enter_context(history.open("w", encoding="utf-8")))
            )
            words = files.enter_context(kept(log_file))
            bar = files.enter_context(Progress(plain_seconds=PLAIN_SECONDS, watched_seconds=WATCHED_SECONDS))
            try:
                proof = asyncio.run(
                    prove(options, _progress(None if each_once else options.seconds, bar), keep)
                )
                bar.end(keep=True)
            finally:
                if told := words.told(log_file):
                    click.echo(told, err=True)
    except UnfinishedError as error:
        unfinished, proof = error, error.proof
    except ProofError:
        click.echo(f"Seed {chosen}; again: {again}", err=True)
        raise
    for line in as_text(proof, again):
        click.echo(line)
    if json_file is not None:
        json_file.write_text(json.dumps(as_document(proof, again), indent=1) + "\n", encoding="utf-8")
    if html_file is not None:
        html_file.write_text(html(proof, again), encoding="utf-8")
    if unfinished is not None:
        raise unfinished
    if proof.findings:
        raise click.exceptions.Exit(1)


PLAIN_SECONDS = 5.0
WATCHED_SECONDS = 0.5
"""Between two lines of progress: in a pipe, and where a person watches."""
_SECONDS = 30.0
_EACH_ONCE_SECONDS_MAX = 180.0
"""Eleven kinds take about 45 seconds; a fault that had no effect is played again."""
_JUDGED_STORIES_MAX = 20
_SECRET_WORDS = ("password", "jaas", "secret", "token", "ssl.keystore.key")
_OLD = {"enable.idempotence": "false", "acks": "all"}
"""How a producer sends that numbers nothing."""


def _keeper(file: TextIO) -> "Keep":
    """Writes down one round after the other; what is written is there if the next one fails."""
    from semel.verify.history.lines import to_lines

    def keep(events: "Sequence[ClientEvent]") -> None:
        file.writelines(f"{line}\n" for line in to_lines(events))
        file.flush()

    return keep


def _judge_again(path: Path) -> None:
    from semel.verify.history.lines import from_lines, rounds_of
    from semel.verify.proof.anomalies import story_of
    from semel.verify.proof.judge import counts, unread
    from semel.verify.proof.judge import judge as judged
    from semel.verify.proof.options import ProofError
    from semel.verify.proof.report import most_telling

    findings: list[Finding] = []
    stories: list[str] = []
    late: list[tuple[str, int]] = []
    is_empty = True
    with path.open(encoding="utf-8") as lines:
        for events in rounds_of(from_lines(lines)):
            is_empty = False
            found = judged(events)
            findings += found
            shown = most_telling(found, _JUDGED_STORIES_MAX)
            stories += ["\n".join(story_of(finding, events)) for finding in shown]
            late += unread(events)
    for anomaly, number in counts(findings).items():
        click.echo(f"  {anomaly.value:<42} {number:>6}")
    for story in stories:
        click.echo(story)
    if len(findings) > len(stories):
        click.echo(f"and {len(findings) - len(stories)} more.")
    if findings:
        raise click.exceptions.Exit(1)
    if late or is_empty:
        what = (
            f"{late[0][0]}-{late[0][1]} was not read to its end in it"
            if late
            else "there are no events in it"
        )
        raise ProofError(f"{path}: {what}, so it proves nothing")


def _again(options: "Options", *, without_idempotence: bool) -> str:
    from semel.verify.faults.disturber import FAULTS
    from semel.verify.proof.options import WORKLOADS, Options

    plain = Options()
    words = ["semel verify", *(options.workloads if options.workloads != WORKLOADS else ())]
    words += [f"--seed {options.seed}"]
    words += [] if options.each_once else [f"--seconds {options.seconds:g}"]
    words += [
        f"--writers {options.writers}",
        f"--partitions {options.partitions}",
        f"--fault-every {options.fault_seconds:g}",
    ]
    words += [f"--fault {one}" for one in options.faults if options.faults != FAULTS]
    words += [f"--life {options.life_seconds:g}"] if options.life_seconds else []
    if options.round_seconds != plain.round_seconds:
        words.append(f"--round {options.round_seconds:g}")
    words += [f"--against {shlex.quote(options.against)}"] if options.against else []
    words += [f"-X {_shown(key, value)}" for key, value in options.settings.items()]
    words += ["--without-idempotence"] if without_idempotence else []
    return " ".join(words)


def _shown(key: str, value: str) -> str:
    """A setting for a shell; what is secret is left for whoever repeats it."""
    is_secret = any(word in key for word in _SECRET_WORDS)
    return shlex.quote(f"{key}={'...' if is_secret else value}")


def _progress(seconds: float | None, line: Progress) -> "Callable[[Stage, str], None]":
    """One line that says how it goes."""
    from semel.verify.proof.progress import Standing

    standing = Standing(seconds)
    return lambda stage, what: line.show(lambda: standing.line(stage, what), news=bool(what))
