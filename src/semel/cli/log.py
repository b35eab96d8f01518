"""`semel log`: the files of a log, read without a broker."""

from collections.abc import Iterable
from pathlib import Path

import click


@click.group(name="log", epilog="Example: semel log dump --files data/orders-0/00000000000000000000.log")
def command() -> None:
    """Look at a log's files: Semel's or Apache Kafka's."""


@command.command(
    epilog="Example: semel log dump --files data/orders-0/00000000000000000000.log --print-data-log",
)
@click.option(
    "--files", "paths", multiple=True, metavar="FILE[,FILE…]", help="Files to show; may be repeated."
)
@click.option("--print-data-log", is_flag=True, help="Show keys and values too; implies --deep-iteration.")
@click.option(
    "--deep-iteration", is_flag=True, help="Show a line for every record, not only for every batch."
)
@click.argument("more", nargs=-1, metavar="[FILE…]")
def dump(paths: tuple[str, ...], print_data_log: bool, deep_iteration: bool, more: tuple[str, ...]) -> None:
    """Print .log, .index, .timeindex, .txnindex and .snapshot files in the words of Kafka's DumpLogSegments."""
    from semel.log.dump import dump as dump_file
    from semel.runtime.files import RealFiles

    chosen = [path for given in (*paths, *more) for path in given.split(",") if path]
    if not chosen:
        raise click.UsageError("name at least one file: semel log dump --files FILE")
    for path in chosen:
        if not Path(path).is_file():
            raise click.BadParameter(f"{path} is no file that can be read", param_hint="--files")
    files = RealFiles()
    for path in chosen:
        _print(dump_file(files, path, print_data_log=print_data_log, deep_iteration=deep_iteration))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
