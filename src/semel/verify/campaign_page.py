"""The page of all campaigns: the seeds played, the commit, and the failures.

Role.   `docs/campaign.md` for people and `docs/campaign.json` beside it, which holds every run. A long campaign is
        played in parts, on several days if need be: the page adds them up and says which commit each part tried.
Flow.   `campaign` gives its outcomes to `add`, which reads the runs so far, adds the new ones, writes both files.
Rules.  * A failure stays on the page until the same seed of the same scenario has been played again.
        * Ranges of seeds are joined only where scenario and commit are the same.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

_STORIES_MAX: Final = 20
FOUND: Final = (
    (
        "`produce` 836 and 1071: a topic made again took over the log of the one before, whose deletion the disk had refused; and a "
        "directory whose name was never synced could vanish with what was acknowledged in it."
    ),
    "`produce` 10040: a log that had failed a sync was synced again, and believed.",
    "`log_crash` 20683: an old segment whose index was rebuilt made the log forget later leader epochs.",
    (
        "`log_crash` 31292: a process killed while it cut its log to nothing left a cut that nobody synced; the next power cut undid it, under "
        "what had been appended since."
    ),
    (
        "`log_crash` 29511, 27898 and 20419: an index half rebuilt when the power went was believed at the next start, and times were looked "
        "for in vain."
    ),
    (
        "`transactions` 13: after an end of transactions v1, the EndTxn (v5) of a fenced producer was taken for a retry and handed it the "
        "identity of its successor. Apache Kafka 4.3.1 does so; Semel no longer does."
    ),
    "`transactions` 31: what was overdue on a full disk was tried again without a pause, one core spent on it.",
    "`transactions` 131: a clock that was set back an hour delayed the abort of an open transaction by that hour.",
    "`transactions` 16578: the disk took markers but not the row that notes them; the shard was loaded and refused for ever.",
    "`groups` 18: the last session and the time to join ran out in one millisecond, and the shard broke a rule of its own.",
    (
        "Of the stories themselves: `groups` 1032 judged a power cut as if it had been a kill, 166 and 214 took a frozen member's older answer for "
        "its last; a worker of `transactions` 160641565 offered "
        "the same batch, too large for its segment, for ever."
    ),
)
"""The errors found so far by campaigns and by the seeds of every test run, by scenario and seed; all are mended."""


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario over a range of seeds."""

    name: str
    first: int
    seeds: int
    seconds: float
    failures: tuple[tuple[int, str], ...]
    commit: str
    date: str
    machine: str

    @property
    def end(self) -> int:
        """The first seed after it."""
        return self.first + self.seeds


@dataclass(slots=True)
class _Row:
    """The runs of one scenario at one commit."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0
    failures: set[int] = field(default_factory=set)
    date: str = ""

    def add(self, run: Run) -> None:
        if self.ranges and run.first <= self.ranges[-1][1]:
            self.ranges[-1] = (self.ranges[-1][0], max(run.end, self.ranges[-1][1]))
        else:
            self.ranges.append((run.first, run.end))
        self.seconds += run.seconds
        self.failures.update(seed for seed, _ in run.failures)
        self.date = max(self.date, run.date)

    @property
    def seeds(self) -> int:
        return sum(end - first for first, end in self.ranges)


def add(page: Path, runs: Sequence[Run]) -> None:
    """Put `runs` on the page."""
    data = page.with_suffix(".json")
    known = _read(data.read_text(encoding="utf-8")) if data.exists() else []
    kept = [run for run in known if not any(_covers(new, run) for new in runs)]
    together = sorted([*kept, *runs], key=lambda run: (run.name, run.date, run.commit, run.first))
    data.write_text(json.dumps([asdict(run) for run in together], indent=1) + "\n", encoding="utf-8")
    page.write_text(as_markdown(together), encoding="utf-8")


def as_markdown(runs: Iterable[Run]) -> str:
    """The page of these runs."""
    runs = list(runs)
    rows: dict[tuple[str, str], _Row] = {}
    for run in sorted(runs, key=lambda run: run.first):
        rows.setdefault((run.name, run.commit), _Row()).add(run)
    lines = [
        "# Campaign",
        "",
        "Seeded scenarios with faults, over many seeds; written by `semel verify --sim --write` and by `make campaign`, do not",
        "edit. A scenario raises as soon as a promise is broken; the module of each says which promises it checks. To play a",
        "row again: check out its commit, then `semel verify --sim --story NAME --seeds SEEDS --seed FIRST`.",
        "",
        "| scenario | seeds | which | failed | commit | date | seconds |",
        "| --- | ---: | --- | ---: | --- | --- | ---: |",
    ]
    for (name, commit), row in sorted(rows.items(), key=lambda item: (item[0][0], item[1].date)):
        which = ", ".join(f"{first} to {end - 1}" for first, end in row.ranges)
        lines.append(
            f"| `{name}` | {row.seeds:,} | {which} | {len(row.failures)} | {commit} | {row.date} | {row.seconds:.0f} |"
        )
    total = sum(row.seeds for row in rows.values())
    failed = sum(len(row.failures) for row in rows.values())
    lines.append(f"| all | {total:,} | | {failed} | | | {sum(row.seconds for row in rows.values()):.0f} |")
    lines += ["", "Played on " + "; ".join(sorted({run.machine for run in runs})) + "."]
    lines += ["", "## What it found", "", *(f"- {one}" for one in FOUND)]
    stories = [(run, seed, story) for run in runs for seed, story in run.failures]
    for run, seed, story in stories[:_STORIES_MAX]:
        lines += ["", f"## {run.name}, seed {seed}, commit {run.commit}", "", "```", story, "```"]
    return "\n".join(lines) + "\n"


def _covers(new: Run, old: Run) -> bool:
    """Whether `new` played all of what `old` did, or the same again."""
    return new.name == old.name and new.first <= old.first and old.end <= new.end


def _read(text: str) -> list[Run]:
    return [
        Run(**{**values, "failures": tuple((seed, story) for seed, story in values["failures"])})
        for values in json.loads(text)
    ]
