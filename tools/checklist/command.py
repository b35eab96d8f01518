"""`tools/mission`: the checklist, row by row, with the tests that decide it and their last result.

Role.   Prints what `checklist.report` joins: the rows of the checklist and the results of the last test run.
Rules.  * Failed and undecided rows are results, not failures of the command: it exits 0 whenever it could report.
        * Python's own library is enough to run it.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from checklist.report import RESULTS_FILE, Line, MissionResultsError, lines, read_results
from checklist.rows import PARTS, rows


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 reported, 1 no results, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        results = read_results(options.results)
    except MissionResultsError as error:
        print(f"mission: {error}", file=sys.stderr)
        return 1
    chosen = [
        line
        for line in lines(results)
        if (not options.groups or line.row.group in options.groups)
        and not (options.missing and line.result == "passed")
    ]
    print(_json(chosen) if options.output == "json" else _table(chosen))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/mission",
        description="Print every row of the mission's checklist with its tests and their result in the last test run. "
        "A row has passed if a test that decides it passed and none failed. A skipped test decides nothing.",
        epilog="Example: tools/mission --group IDEM --missing, or tools/mission -o json",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path(RESULTS_FILE),
        metavar="FILE",
        help="what the last test run wrote (default: %(default)s)",
    )
    parser.add_argument(
        "--group",
        dest="groups",
        action="append",
        type=_group,
        metavar="NAME",
        help="only rows of this group, e.g. IDEM; may be repeated",
    )
    parser.add_argument("--missing", action="store_true", help="only rows that no passing test decides yet")
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json"],
        default="table",
        help="a table to read, or JSON for programs (default: %(default)s)",
    )
    return parser


def _group(value: str) -> str:
    groups = list(dict.fromkeys(row.group for row in rows()))
    if value.upper() not in groups:
        raise argparse.ArgumentTypeError(
            f"{value!r} is no group of the checklist; there are {', '.join(groups)}"
        )
    return value.upper()


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
        f"{len(chosen)} {'row' if len(chosen) == 1 else 'rows'}: "
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['none']} not decided yet"
    )
    waiting = Counter(line.row.part for line in chosen if line.result == "none")
    if waiting:
        text.append(
            "not decided, by part: " + ", ".join(f"{part} {waiting[part]}" for part in PARTS if waiting[part])
        )
    return "\n".join(text)
