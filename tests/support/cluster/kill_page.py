"""The page of the kills in mixed clusters: what was played, at which commit, and what came of it. Parts add up.

`docs/cluster-kills.md` for people and `docs/cluster-kills.json` beside it, which holds every part.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

NAMES: Final = {
    "kks": "2 Apache Kafka 3.9.2, 1 Semel",
    "kss": "1 Apache Kafka 3.9.2, 2 Semel",
    "kkk": "3 Apache Kafka 3.9.2, for comparison",
}
_WRONGS: Final = ("lost", "duplicated", "misplaced", "disordered", "differing", "unseen", "errors")


@dataclass(frozen=True, slots=True)
class Part:
    """Rounds on one cluster, judged."""

    cluster: str
    seed: int
    kills: dict[str, int]
    acked: int
    seen: int
    lost: int
    duplicated: int
    misplaced: int
    disordered: int
    differing: int
    unseen: int
    errors: int
    refused_starts: int
    seconds: float
    commit: str
    date: str
    machine: str
    renewed: int = 0
    stories: tuple[str, ...] = ()
    """What went wrong."""

    @property
    def is_right(self) -> bool:
        return not self.stories and not any(getattr(self, name) for name in _WRONGS)


def add(page: Path, parts: Sequence[Part]) -> None:
    """Put parts on the page; one that was played before, with the same seed at the same commit, is replaced."""
    data = page.with_suffix(".json")
    known = [_read(one) for one in json.loads(data.read_text(encoding="utf-8"))] if data.exists() else []
    kept = [one for one in known if _key(one) not in {_key(part) for part in parts}]
    together = sorted([*kept, *parts], key=_key)
    data.write_text(json.dumps([asdict(one) for one in together], indent=1) + "\n", encoding="utf-8")
    page.write_text(as_markdown(together), encoding="utf-8")


def as_markdown(parts: Sequence[Part]) -> str:
    """The page."""
    ours = [part for part in parts if "s" in part.cluster]
    lines = [
        "# Kills in mixed clusters",
        "",
        "Written by `python tests/support/cluster/kill_story.py --write docs/cluster-kills.md`; do not edit. Brokers of Apache Kafka and of",
        "Semel are members of one cluster under one ZooKeeper, with Kafka's controller. Two topics of three partitions have their replicas",
        "on all three brokers and `min.insync.replicas=2`. Kafka's VerifiableProducer and librdkafka write numbers with `acks=all` and",
        "idempotence, and Kafka's VerifiableConsumer reads. Each broker in turn is killed with `kill -9` and comes back: at once, within its",
        "ZooKeeper session, or when the others have gone on without it. Then everything acknowledged is looked for, on every replica and",
        "through a consumer.",
        "",
        f"**{sum(sum(part.kills.values()) for part in ours)} kills in clusters with Semel**: "
        + ", ".join(f"{sum(getattr(part, name) for part in ours)} {name}" for name in _WRONGS)
        + f"; {sum(part.acked for part in ours):,} records acknowledged.",
        "",
        "*Misplaced*: at another offset than was answered. *Disordered*: behind a later number of its partition. *Differing*: replicas that are",
        "not equal byte for byte, leader epochs included. *Unseen*: a consumer saw it, and it is gone. *Errors*: told to a producer.",
        "",
        "A producer that is told OUT_OF_ORDER_SEQUENCE_NUMBER may begin a new epoch and write again what it has no answer for. No broker can",
        f"know such a number for the same: there were {sum(part.renewed for part in parts)} of them, which are not among the duplicates. A leader of",
        "Kafka 3.9 that comes back within its session answers so to librdkafka.",
        "",
        "| cluster | kills | acknowledged | read on the way | " + " | ".join(_WRONGS) + " |",
        "| --- | ---: | ---: | ---: |" + " ---: |" * len(_WRONGS),
    ]
    for name in sorted({part.cluster for part in parts}):
        mine = [part for part in parts if part.cluster == name]
        counts = [
            sum(sum(part.kills.values()) for part in mine),
            *(sum(getattr(part, field) for part in mine) for field in ("acked", "seen", *_WRONGS)),
        ]
        lines.append(f"| {NAMES.get(name, name)} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    lines += ["", "## Who was killed, and when it came back", "", *_deaths(parts), "", "## Parts", ""]
    for part in parts:
        lines.append(
            f"- {part.date}, commit {part.commit}: {NAMES.get(part.cluster, part.cluster)}, seed {part.seed}: "
            f"{sum(part.kills.values())} kills in {part.seconds:.0f} s on {part.machine}; "
            f"{part.refused_starts} starts refused while the former session lived"
        )
        lines += [f"  - went wrong: {story}" for story in part.stories]
    return "\n".join(lines) + "\n"


def _deaths(parts: Sequence[Part]) -> list[str]:
    names = sorted({part.cluster for part in parts})
    counts = {name: Counter[str]() for name in names}
    for part in parts:
        counts[part.cluster].update(part.kills)
    deaths = sorted({death for count in counts.values() for death in count})
    return [
        "| kill | " + " | ".join(NAMES.get(name, name) for name in names) + " |",
        "| --- |" + " ---: |" * len(names),
        *(
            f"| {death} | " + " | ".join(str(counts[name][death] or "") for name in names) + " |"
            for death in deaths
        ),
    ]


def _read(row: dict[str, object]) -> Part:
    return Part(**{**row, "stories": tuple(row["stories"])})  # type: ignore[arg-type]


def _key(part: Part) -> tuple[str, int, str]:
    return part.cluster, part.seed, part.commit
