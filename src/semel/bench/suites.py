"""The suites of `semel bench`: name, subject, and file of figures.

Role.   The table behind the command and the performance page; `arguments_of` turns a user's wishes into a suite's own options.
Rules.  * Nothing is imported here: help and completion come by. A suite's module is loaded when it is run.
        * Suites that start and kill their peer cannot be run against a broker that belongs to somebody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite. `elsewhere`: the peer may be a broker that runs already."""

    name: str
    line: str
    elsewhere: bool = False
    has_peer: bool = True
    """Whether the peer is Apache Kafka."""
    alone: bool = True
    """Whether there is something to see without a peer."""
    compares_programs: bool = False
    """Whether programs of one process are compared, and not brokers: another kind of page."""
    quick: tuple[str, ...] = ("--quick",)

    @property
    def page(self) -> str:
        """The page with all its figures; the data lies beside it."""
        return f"benchmarks-{self.name}.md"


SUITES: Final = (
    Suite("broker", "produce, fetch and latency through three clients; start; memory", elsewhere=True),
    Suite(
        "client",
        "the Python client beside confluent-kafka, kafka-python, aiokafka",
        elsewhere=True,
        compares_programs=True,
    ),
    Suite("transactions", "transactions, their cost to readers, many transactional ids", elsewhere=True),
    Suite("groups", "rebalances, joins, commits, polling in a group", elsewhere=True),
    Suite("idempotence", "what idempotence costs, beside the classic table", elsewhere=True),
    Suite("recovery", "coming back after kill -9 and after a clean stop"),
    Suite("abuse", "what bombs and crowds of rows cost another client"),
    Suite("scale", "growth: partitions, connections, producer ids, gigabytes"),
    Suite("spark", "source and sinks beside Spark's own Kafka connector", alone=False),
    Suite(
        "cleaner",
        "compaction, and what producers feel of it",
        alone=False,
        quick=("--pairs", "1", "--megabytes", "40"),
    ),
    Suite("tables", "state beside the program, beside PostgreSQL", has_peer=False, compares_programs=True),
)
NAMES: Final = tuple(suite.name for suite in SUITES)


def suite(name: str) -> Suite:
    return next(one for one in SUITES if one.name == name)


def arguments_of(
    which: Suite,
    *,
    quick: bool = False,
    pairs: int | None = None,
    against: str | None = None,
    alone: bool = False,
    beside: str | None = None,
    directory: Path | None = None,
    write: Path | None = None,
) -> list[str]:
    """The words of `python -m semel.bench` for a suite."""
    words: list[str] = [which.name, *(which.quick if quick else ())]
    if pairs is not None and "--pairs" not in words:
        words += ["--pairs", str(pairs)]
    if which.has_peer:
        words += ["--against", against] if against is not None else ["--alone"] * alone
        words += ["--beside", beside] if beside is not None else []
    if directory is not None and not which.compares_programs:
        words += ["--directory", str(directory)]
    if write is not None:
        words += ["--write", str(write / which.page)]
    return words


def chosen(names: Sequence[str], *, against: bool = False, alone: bool = False) -> list[Suite]:
    """The suites of these names, all if there are none; without those that need a peer of their own, if there is none."""
    return [
        one
        for one in SUITES
        if (one.name in names or not names)
        and (one.elsewhere or not one.has_peer or not against)
        and (one.alone or not alone)
    ]
