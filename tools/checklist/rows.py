"""The rows of the mission checklist: every id, its one-line title and the part of Semel it waits for.

Role.   Reads `rows.txt` beside it. The file is the project's own copy of the list of ids; the tests that
        decide a row carry its id (`@pytest.mark.mission("IDEM-21")`).
Flow.   `support.suite.mission_marks` refuses a mark with an unknown id; `report` joins rows with test results.
Rules.  Ids are stable: never renumbered, added at the end of their group.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

PARTS: Final = (
    "log",
    "broker",
    "groups",
    "transactions",
    "client",
    "spark",
    "proof",
    "cluster",
    "console",
    "security",
)

_ID: Final = re.compile(r"[A-Z]+-\d{2}")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the checklist."""

    id: str
    part: str
    title: str

    @property
    def group(self) -> str:
        return self.id.rpartition("-")[0]


@cache
def rows() -> tuple[Row, ...]:
    """All rows in the order of the checklist."""
    return parse((Path(__file__).parent / "rows.txt").read_text(encoding="utf-8"))


def parse(text: str) -> tuple[Row, ...]:
    """The rows of a text in the format of `rows.txt`; raises `ValueError` naming the line that is none."""
    found: dict[str, Row] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not all(fields):
            raise ValueError(f"rows.txt line {number} is not 'ID | part | title': {line!r}")
        row = Row(*fields)
        if not _ID.fullmatch(row.id):
            raise ValueError(f"rows.txt line {number}: {row.id!r} is no id such as IDEM-21")
        if row.part not in PARTS:
            raise ValueError(f"rows.txt line {number}: {row.part!r} is no part; there are {', '.join(PARTS)}")
        if row.id in found:
            raise ValueError(f"rows.txt line {number}: {row.id} is already there")
        found[row.id] = row
    return tuple(found.values())


def known_ids() -> frozenset[str]:
    return frozenset(row.id for row in rows())
