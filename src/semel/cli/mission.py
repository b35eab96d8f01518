"""`semel mission`: the checklist, row by row, with the tests that decide it and their last result."""

import json
from collections import Counter
from pathlib import Path

import click

from semel.mission.report import RESULTS_FILE, Line, lines, read_results


@click.command(name="mission", epilog="Example: semel mission --group IDEM, or semel mission -o json")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(RESULTS_FILE),
    show_default=True,
    help="What the last test run wrote.",
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only rows of this group, e.g. IDEM; may be repeated.")
@click.option("--missing", is_flag=True, help="Only rows that no passing test decides yet.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(results: Path, groups: tuple[str, ...], missing: bool, output: str) -> None:
    """Print every row of the mission checklist with its tests and their result in the last test run."""
    report = lines(read_results(results))
    known = {line.row.group for line in report}
    for group in groups:
        if group.upper() not in known:
            raise click.BadParameter(f"{group!r} is no group; there are {', '.join(sorted(known))}", param_hint="--group")
    wanted = {group.upper() for group in groups}
    chosen = [
        line
        for line in report
        if (not wanted or line.row.group in wanted) and not (missing and line.result == "passed")
    ]
    if output == "json":
        document = [
            {
                "id": line.row.id,
                "title": line.row.title,
                "part": line.row.part,
                "tests": [test.test for test in line.tests],
                "result": line.result,
            }
            for line in chosen
        ]
        click.echo(json.dumps(document, indent=1))
        return
    for line in chosen:
        click.echo(_row(line))
        for test in line.tests:
            click.echo(f"{'':10} {test.outcome:7} {test.test}")
    counts = Counter(line.result for line in chosen)
    click.echo(f"{len(chosen)} rows: {counts['passed']} passed, {counts['failed']} failed, {counts['none']} without a test yet")


def _row(line: Line) -> str:
    state = line.result if line.result != "none" else f"none (waits for: {line.row.part})"
    return f"{line.row.id:10} {state}: {line.row.title}"
