"""The rows of the mission checklist: every id, its one-line title and the part of Semel it waits for.

Role.   Reads `rows.txt` beside it. The file is the project's own copy of the list of ids; the tests that
        decide a row carry its id (`@pytest.mark.mission("IDEM-21")`).
Flow.   `tests/conftest.py` refuses a mark with an unknown id; `report` joins rows with test results.
Rules.  Ids are stable: never renumbered, added at the end of their group.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
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
    """All rows in the order of the checklist; raises `ValueError` on a line that is none."""
    text = resources.files("semel.mission").joinpath("rows.txt").read_text(encoding="utf-8")
    found: dict[str, Row] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not all(fields) or fields[1] not in PARTS or fields[0] in found:
            raise ValueError(f"rows.txt line {number} is not 'ID | part | title' with a new id: {line!r}")
        found[fields[0]] = Row(id=fields[0], part=fields[1], title=fields[2])
    return tuple(found.values())


def known_ids() -> frozenset[str]:
    return frozenset(row.id for row in rows())
