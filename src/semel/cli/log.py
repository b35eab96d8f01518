"""`semel log`: the files of a log, read without a broker."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from semel.cli.names import complete_files
from semel.cli.options import output_option
from semel.cli.output import CSV, FOR_PEOPLE, Column, print_csv, show_document
from semel.insight.sentences import several, size_text

_FINDINGS: Final = (Column("PATH", "path"), Column("TEXT", "text"))


@click.group(name="log", epilog="Example: semel log dump --files data/orders-0/00000000000000000000.log")
def command() -> None:
    """Look at a log's files: Semel's or Apache Kafka's."""


@command.command(
    epilog="Example: semel log dump --files data/orders-0/00000000000000000000.log --print-data-log",
)
@click.option(
    "--files",
    "paths",
    multiple=True,
    metavar="FILE[,FILE…]",
    shell_complete=complete_files,
    help="Files to show; may be repeated.",
)
@click.option("--print-data-log", is_flag=True, help="Show keys and values too; implies --deep-iteration.")
@click.option(
    "--deep-iteration", is_flag=True, help="Show a line for every record, not only for every batch."
)
@click.option(
    "--transaction-log-decoder",
    "decoder",
    flag_value="__transaction_state",
    help="Show records as rows of __transaction_state, in a directory of any name.",
)
@click.option(
    "--offsets-decoder",
    "decoder",
    flag_value="__consumer_offsets",
    help="Show records as rows of __consumer_offsets, in a directory of any name.",
)
@click.argument("more", nargs=-1, metavar="[FILE…]")
def dump(
    paths: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    decoder: str | None,
    more: tuple[str, ...],
) -> None:
    """Print .log, .index, .timeindex, .txnindex and .snapshot files in the words of Kafka's DumpLogSegments.

    In the directories of __transaction_state and __consumer_offsets --print-data-log shows what each row says.
    """
    from semel.log.dump import dump as dump_file
    from semel.log.dump_rows import ROW_TEXTS
    from semel.runtime.files import RealFiles

    chosen = [path for given in (*paths, *more) for path in given.split(",") if path]
    if not chosen:
        raise click.UsageError("name at least one file: semel log dump --files FILE")
    for path in chosen:
        if not Path(path).is_file():
            raise click.BadParameter(f"{path} is not a file that can be read", param_hint="--files")
    files = RealFiles()
    for path in chosen:
        _print(
            dump_file(
                files,
                path,
                print_data_log=print_data_log,
                deep_iteration=deep_iteration,
                row_text=ROW_TEXTS[decoder] if decoder else None,
            )
        )


@command.command(epilog="Example: semel log verify data, or semel log verify data/orders-0")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@output_option
def verify(directory: str, output: str) -> None:
    """Go through a partition's or a data directory's files: checksums, order, indexes, snapshots.

    Reads only, and wants no broker to be writing meanwhile. Exit code 1 if anything is wrong.
    """
    from semel.log.verification import verify as verify_log
    from semel.runtime.files import RealFiles

    report = verify_log(RealFiles(), directory)
    findings = [{"path": one.path, "text": one.text} for one in report.findings]
    if output == CSV:
        print_csv(findings, _FINDINGS)
    elif output not in FOR_PEOPLE:
        show_document(
            output,
            {
                "partitions": report.partitions,
                "segments": report.segments,
                "batches": report.batches,
                "bytes": report.bytes,
                "findings": findings,
            },
        )
    else:
        for one in report.findings:
            click.echo(f"{one.path}: {one.text}")
        what = (
            f"{several(report.partitions, 'partition')}, {several(report.segments, 'segment')}, "
            f"{several(report.batches, 'batch', 'batches')}"
        )
        verdict = several(len(report.findings), "finding") if report.findings else "nothing is wrong"
        click.echo(f"{what}, {size_text(report.bytes)}: {verdict}")
    if report.findings:
        raise click.exceptions.Exit(1)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
