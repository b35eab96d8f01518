"""`semel mission`: the checklist, row by row, with the tests that decide it and their last result.

Role.   Prints what `semel.mission.report` joins: the rows of the checklist and the results of the last test run.
Rules.  Failed and undecided rows are results, not failures of the command: it exits 0 whenever it could report.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from semel.cli.sentences import several
from semel.mission.report import RESULTS_FILE, Line, lines, read_results
from semel.mission.rows import PARTS, rows


def _groups() -> list[str]:
    return list(dict.fromkeys(row.group for row in rows()))


def _check_groups(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if value.upper() not in _groups():
            raise click.BadParameter(
                f"{value!r} is no group of the checklist; there are {', '.join(_groups())}."
            )
    return tuple(value.upper() for value in values)


def _complete_groups(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [group for group in _groups() if group.startswith(incomplete.upper())]


@click.command(
    name="mission", epilog="Example: semel mission --group IDEM --missing, or semel mission -o json"
)
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(RESULTS_FILE),
    show_default=True,
    help="What the last test run wrote.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    callback=_check_groups,
    shell_complete=_complete_groups,
    help="Only rows of this group, e.g. IDEM; may be repeated.",
)
@click.option("--missing", is_flag=True, help="Only rows that no passing test decides yet.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table to read, or JSON for programs.",
)
def command(results: Path, groups: tuple[str, ...], missing: bool, output: str) -> None:
    """Print every row of the mission checklist with its tests and their result in the last test run.

    A row has passed if a test that decides it passed and none failed. A skipped test decides nothing.
    """
    chosen = [
        line
        for line in lines(read_results(results))
        if (not groups or line.row.group in groups) and not (missing and line.result == "passed")
    ]
    click.echo(_json(chosen) if output == "json" else _table(chosen))


def _json(chosen: Sequence[Line]) -> str:
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
    return json.dumps(document, indent=1, ensure_ascii=False)


def _table(chosen: Sequence[Line]) -> str:
    text = [f"{'ROW':9}{'RESULT':8}{'PART':14}WHAT MUST BE TRUE"] if chosen else []
    for line in chosen:
        text.append(f"{line.row.id:9}{line.result:8}{line.row.part:14}{line.row.title}")
        text += [f"{'':9}{test.outcome:8}{test.test}" for test in line.tests]
    counts = Counter(line.result for line in chosen)
    text.append(
        f"{several(len(chosen), 'row')}: {counts['passed']} passed, {counts['failed']} failed, {counts['none']} not decided yet"
    )
    waiting = Counter(line.row.part for line in chosen if line.result == "none")
    if waiting:
        text.append(
            "not decided, by part: " + ", ".join(f"{part} {waiting[part]}" for part in PARTS if waiting[part])
        )
    return "\n".join(text)
