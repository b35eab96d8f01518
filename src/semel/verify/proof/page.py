"""A proof as a page: verdict, counts, a picture of operations and faults over time, and everything that was looked for.

Role.   `html` makes one file that needs nothing else; `svg` is its picture. `portrait` is the picture's data, which `as_data` keeps
        and `of_data` reads again, so that a picture can be drawn anew without a run.
Rules.  * Pure: text out. The hand is `semel.drawing`'s; here is said which plots there are.
        * The bands are numbered as the table of faults is, while there are few of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Final, TypeAlias

from semel.drawing import page as pages
from semel.drawing import palette
from semel.drawing.page import Cells, Tile
from semel.drawing.timeline import Band, Kind, Panel, Series, Story, timeline
from semel.verify.faults.disturber import NEEDS
from semel.verify.history.events import Fault
from semel.verify.proof.anomalies import Anomaly, story_of
from semel.verify.proof.judge import counts
from semel.verify.proof.report import most_telling, trends
from semel.verify.proof.runner import Proof
from semel.verify.proof.timeline import SLICE_SECONDS

_POINTS_MAX: Final = 240
_SAMPLES_MAX: Final = 600
_NUMBERED_MAX: Final = 60
"""So many faults are numbered, and have a line each in the table; of more, a line tells a kind."""
_STORIES_MAX: Final = 20
_MIB: Final = 1 << 20
_BLOCKED: Final = Kind("fault: nobody could be served", palette.HATCHED, palette.ORANGE)
_HARMED: Final = Kind("fault: something was harmed", palette.DOTTED, palette.PURPLE)

_Points: TypeAlias = list[tuple[float, float]]
"""Seconds and values."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What the picture shows, thinned to what can be seen."""

    end: float
    faults: tuple[Fault, ...]
    acked: _Points
    committed: _Points
    read: _Points
    stable: _Points
    ends: _Points
    above: _Points
    memory_mib: _Points
    handles: _Points


def html(proof: Proof, again: str) -> str:
    """The page."""
    told = proof.summary
    number_of = counts(proof.findings)
    verdict = "Every promise was kept" if not proof.findings else "Promises were broken"
    if proof.error:
        verdict = "Nothing is proved"
    faults = sum(proof.faults.values())
    lead = (
        f"{told.sent:,} records through {faults} faults in {proof.seconds:.0f} s and {proof.rounds} "
        f"round{'s' if proof.rounds > 1 else ''}, on {proof.version}."
    )
    if proof.error:
        lead += f" The run did not come to its end: {proof.error}"
    body = [pages.tiles(_tiles(proof, number_of)), pages.figure(svg(proof))]
    if proof.faults:
        body.append(pages.section("What was done", _fault_table(proof), *_not_played(proof)))
    body.append(pages.section("What happened", _work_table(proof)))
    if not proof.error:
        rows = [Cells((one.value, f"{number:,}"), bad=number > 0) for one, number in number_of.items()]
        body.append(pages.section("What was looked for", pages.table("", ("anomaly", "found"), rows, (1,))))
    stories = [
        f"<h3>{escape(finding.anomaly.value)}</h3>{pages.lines(story_of(finding, proof.history))}"
        for finding in most_telling(proof.findings, _STORIES_MAX)
    ]
    if stories:
        body.append(pages.section("What was found", *stories))
    foot = f"Seed {proof.options.seed}. Again: <code>{escape(again)}</code>"
    return pages.page(
        f"semel verify: {verdict}", verdict, lead, body, foot, good=not proof.findings and not proof.error
    )


def _tiles(proof: Proof, number_of: Mapping[Anomaly, int]) -> list[Tile]:
    told = proof.summary
    shown = [Tile(f"{told.sent:,}", "records sent"), Tile(f"{told.stored:,}", "records stored")]
    if not proof.error:
        shown += [
            Tile(f"{number_of[anomaly]:,}", name, bad=number_of[anomaly] > 0)
            for name, anomaly in (
                ("lost", Anomaly.LOST),
                ("duplicated", Anomaly.DUPLICATE),
                ("reordered", Anomaly.REORDERED),
                ("torn", Anomaly.TORN),
            )
        ]
    return shown


def _fault_table(proof: Proof) -> str:
    shown = proof.timeline.faults
    if len(shown) <= _NUMBERED_MAX:
        rows = [
            Cells(
                (
                    f"{number}",
                    one.what,
                    f"{one.at:.1f} s",
                    f"{one.until - one.at:.1f} s",
                    _meaning(one.blocks),
                )
            )
            for number, one in enumerate(shown, 1)
        ]
        told = f"Numbered as in the picture; {proof.harmed:,} requests were harmed on the way."
        return pages.table(told, ("", "fault", "from", "for", "meanwhile"), rows, (0, 2, 3))
    blocking = {one.what for one in shown if one.blocks}
    rows = [
        Cells((what, f"{count:,}", f"{_longest(shown, what):.1f} s", _meaning(what in blocking)))
        for what, count in sorted(proof.faults.items())
    ]
    told = f"{proof.harmed:,} requests were harmed on the way."
    return pages.table(told, ("fault", "times", "longest", "meanwhile"), rows, (1, 2))


def _not_played(proof: Proof) -> list[str]:
    """The kinds of faults that were chosen and could not be played there, with what they need."""
    needed = [f"{kind} (needs {NEEDS[kind]})" for kind in proof.impossible]
    return [f"<p>Not played here: {escape(', '.join(needed))}.</p>"] if needed else []


def _meaning(blocks: bool) -> str:
    return "nobody could be served" if blocks else "something was harmed"


def _longest(faults: Sequence[Fault], what: str) -> float:
    return max((one.until - one.at for one in faults if one.what == what), default=0.0)


def _work_table(proof: Proof) -> str:
    told = proof.summary
    shown = [
        ("records acknowledged", f"{told.acknowledged:,}"),
        ("records refused or given up by their client", f"{told.failed:,}"),
        ("records of processes that were given up", f"{told.unanswered:,}"),
        ("records handed to readers", f"{told.read:,}"),
        ("transactions committed", f"{told.committed:,}"),
        ("transactions aborted", f"{told.aborted:,}"),
        ("transactions whose end nobody was told", f"{told.unknown:,}"),
        ("lives of transactional producers", f"{told.lives:,}"),
        ("records sent by lives that were replaced", f"{told.zombies:,}"),
        ("positions stored for groups", f"{told.positions:,}"),
        ("positions refused", f"{told.positions_refused:,}"),
        ("time to an acknowledgement, median", f"{told.latency_ms(0.5):,.1f} ms"),
        ("time to an acknowledgement, p99", f"{told.latency_ms(0.99):,.0f} ms"),
    ]
    memory, handles = trends(proof).values()
    if memory is not None and handles is not None:
        in_memory = " / ".join(f"{one / _MIB:.0f}" for one in (memory.first, memory.last, memory.most))
        open_ = " / ".join(f"{one:.0f}" for one in (handles.first, handles.last, handles.most))
        shown.append(("memory of the broker: first quarter / last / most", f"{in_memory} MiB"))
        shown.append(("open handles of the broker: first quarter / last / most", open_))
    return pages.table("", ("", "count"), [Cells(row) for row in shown], (1,))


def svg(proof: Proof) -> str:
    """The picture."""
    return drawn(portrait(proof))


def portrait(proof: Proof) -> Portrait:
    """What there is to see."""
    seen = proof.timeline
    end = max([seen.end, *(one.at for one in proof.vitals)])
    bucket = max(SLICE_SECONDS, end / _POINTS_MAX)
    return Portrait(
        end=end,
        faults=tuple(seen.faults),
        acked=_rate(seen.acked, bucket, end),
        committed=_rate(seen.committed, bucket, end),
        read=_rate(seen.read, bucket, end),
        stable=_latest(seen.stable, bucket, end, max),
        ends=_latest(seen.ends, bucket, end, max),
        above=_latest(seen.unstable, bucket, end, max),
        memory_mib=_thinned([(one.at, one.memory_bytes / _MIB) for one in proof.vitals]),
        handles=_thinned([(one.at, float(one.handles)) for one in proof.vitals]),
    )


def as_data(one: Portrait) -> dict[str, Any]:
    """For JSON."""
    told = asdict(one)
    rounded = {
        name: [[round(at, 3), round(value, 3)] for at, value in points]
        for name, points in told.items()
        if name not in ("end", "faults")
    }
    faults = [[round(fault.at, 3), round(fault.until, 3), fault.what, fault.blocks] for fault in one.faults]
    return {"end": round(one.end, 3), "faults": faults, **rounded}


def of_data(document: Mapping[str, Any]) -> Portrait:
    """What `as_data` made."""
    points = {
        name: [(float(at), float(value)) for at, value in document[name]]
        for name in ("acked", "committed", "read", "stable", "ends", "above", "memory_mib", "handles")
    }
    return Portrait(
        end=float(document["end"]),
        faults=tuple(Fault(at, until, what, blocks) for at, until, what, blocks in document["faults"]),
        **points,
    )


def drawn(one: Portrait) -> str:
    """The picture of it."""
    few = len(one.faults) <= _NUMBERED_MAX
    bands = [
        Band(
            lane=fault.what.partition(":")[0],
            at=fault.at,
            until=fault.until,
            kind=_BLOCKED if fault.blocks else _HARMED,
            tip=f"{fault.what}, {fault.at:.1f} to {fault.until:.1f} s",
            across=few or fault.blocks,
        )
        for fault in one.faults
    ]
    blocked = sum(fault.blocks for fault in one.faults)
    said = (
        f"{len(one.faults)} faults in {one.end:,.0f} s; nobody could be served during {blocked} of them. "
        "Every fault has its place in the lane of its kind"
    )
    subtitle = f"{said}, and its band across the plots." if few else (
        f"{said}; across the plots stand those during which nobody could be served."
    )  # fmt: skip
    return timeline(
        Story(
            name="semel-verify",
            title="Operations, faults and the last stable offset over time",
            subtitle=subtitle,
            description=_described(one),
            end=one.end,
            panels=_panels(one),
            bands=bands,
            numbered=few,
        )
    )


def _described(one: Portrait) -> str:
    kinds = Counter(fault.what for fault in one.faults)
    done = ", ".join(f"{what} ({count})" for what, count in kinds.items()) or "none"
    most = max((value for _, value in one.acked), default=0.0)
    stored = max((value for _, value in one.ends), default=0.0)
    return (
        f"Plots over {one.end:,.0f} s: acknowledged records per second (at most {most:,.0f}), committed transactions, records read, "
        f"and the last stable offset beside the ends of the logs (at last {stored:,.0f} records). Faults: {done}."
    )


def _panels(one: Portrait) -> list[Panel]:
    """The plots, top to bottom."""
    panels = [
        Panel("Acknowledged", "records per second", (Series("", one.acked, palette.BLUE, filled=True),)),
        Panel(
            "Committed", "transactions per second", (Series("", one.committed, palette.TEAL, filled=True),)
        ),
        Panel("Read", "records per second", (Series("", one.read, palette.BLUE, filled=True),)),
        Panel(
            "Log",
            "records, all partitions added up",
            (
                Series("end of the log", one.ends, palette.GREY, dash="6 3"),
                Series("last stable offset", one.stable, palette.TEAL),
            ),
        ),
        Panel(
            "Not yet stable",
            "records above the last stable offset, in the partition with most",
            (Series("", one.above, palette.TEAL, filled=True),),
        ),
    ]
    if one.memory_mib:
        panels += [
            Panel("Memory", "MiB, the broker", (Series("", one.memory_mib, palette.BLUE),)),
            Panel(
                "Handles", "open files and sockets of the broker", (Series("", one.handles, palette.BLUE),)
            ),
        ]
    return panels


def _rate(counted: Mapping[int, int], bucket: float, end: float) -> _Points:
    """How many per second, in each bucket of time."""
    sums: Counter[int] = Counter()
    for slice_, number in counted.items():
        sums[int(slice_ * SLICE_SECONDS / bucket)] += number
    return [((index + 0.5) * bucket, sums[index] / bucket) for index in range(int(end / bucket) + 1)]


def _latest(
    sampled: Mapping[int, int], bucket: float, end: float, choose: Callable[[int, int], int]
) -> _Points:
    """The one value chosen of each bucket; the last one known where none was taken."""
    seen: dict[int, int] = {}
    for slice_, number in sampled.items():
        index = int(slice_ * SLICE_SECONDS / bucket)
        seen[index] = choose(seen[index], number) if index in seen else number
    points: _Points = []
    for index in range(int(end / bucket) + 1):
        value = seen.get(index, points[-1][1] if points else 0)
        points.append(((index + 0.5) * bucket, float(value)))
    return points


def _thinned(points: Sequence[tuple[float, float]]) -> _Points:
    """At most so many of them: the highest of each stretch."""
    stretch = max(1, -(-len(points) // _SAMPLES_MAX))
    return [
        max(points[start : start + stretch], key=lambda one: one[1])
        for start in range(0, len(points), stretch)
    ]
