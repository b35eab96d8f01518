"""A proof as text and as JSON: what was done, what was found, and how to do it again.

Role.   `summary` counts what a history holds; `as_text` and `as_document` are what the command prints and writes.
Rules.  * Pure. Every anomaly has its line, also those of which there are none: a reader sees what was looked for.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from semel.verify.proof.anomalies import Anomaly, story_of
from semel.verify.proof.events import UNCOMMITTED, Acked, Committing, Ended, Event, Failed, Polled, Sent, Took
from semel.verify.proof.index import Index
from semel.verify.proof.judge import counts
from semel.verify.proof.runner import Proof

_STORIES_MAX: Final = 3
_WIDTH: Final = 38


@dataclass(frozen=True, slots=True)
class Summary:
    """How much happened."""

    sent: int
    acknowledged: int
    failed: int
    stored: int
    """Records that lie in the logs at the end, committed or not."""
    unanswered: int
    """Neither acknowledged nor failed: their process was given up."""
    committed: int
    """Transactions."""
    aborted: int
    unknown: int
    lives: int
    """Of transactional producers."""
    read: int
    """Records handed to readers."""
    ack_p50_ms: float
    ack_p99_ms: float


def summary(history: Sequence[Event]) -> Summary:
    """What a history holds."""
    sent: dict[str, float] = {}
    latencies: list[float] = []
    failed = lives = read = 0
    begun: set[tuple[str, int]] = set()
    committing: set[tuple[str, int]] = set()
    ends: dict[tuple[str, int], str] = {}
    for event in history:
        match event:
            case Sent():
                sent[event.value] = event.at
                if event.transaction is not None:
                    begun.add((event.process, event.transaction))
            case Acked():
                latencies.append(event.at - sent[event.value])
            case Failed():
                failed += 1
            case Committing():
                committing.add((event.process, event.transaction))
            case Ended():
                ends[event.process, event.transaction] = event.outcome
            case Took():
                lives += 1
            case Polled():
                read += len(event.records)
            case _:
                pass
    known = list(ends.values())
    open_ended = [one for one in begun if one not in ends]
    latencies.sort()
    return Summary(
        sent=len(sent),
        acknowledged=len(latencies),
        failed=failed,
        stored=sum(len(log.values) for log in Index.of(history).logs.get(UNCOMMITTED, {}).values()),
        unanswered=len(sent) - len(latencies) - failed,
        committed=known.count("committed"),
        aborted=known.count("aborted") + sum(one not in committing for one in open_ended),
        unknown=known.count("unknown") + sum(one in committing for one in open_ended),
        lives=lives,
        read=read,
        ack_p50_ms=_quantile(latencies, 0.5) * 1000,
        ack_p99_ms=_quantile(latencies, 0.99) * 1000,
    )


def as_text(proof: Proof, again: str) -> list[str]:
    """What the command prints; `again` is the command that plays it again."""
    told = summary(proof.history)
    faults = sum(proof.faults.values())
    number_of = counts(proof.findings)
    kinds = ", ".join(f"{what} ({count})" for what, count in sorted(proof.faults.items())) or "none"
    first = {
        "sent": told.sent,
        "stored": told.stored,
        "duplicated": number_of[Anomaly.DUPLICATE],
        "lost": number_of[Anomaly.LOST],
        "reordered": number_of[Anomaly.REORDERED],
        "torn": number_of[Anomaly.TORN],
    }
    lines = [
        *(f"{name:>13} {number:>12,}" for name, number in first.items()),
        "",
        (
            f"Records: {told.acknowledged:,} acknowledged, {told.failed:,} failed, {told.unanswered:,} of processes that "
            f"were given up; {told.read:,} handed to readers."
        ),
        (
            f"Transactions: {told.committed:,} committed, {told.aborted:,} aborted, {told.unknown:,} whose end nobody was "
            f"told; {told.lives:,} lives of transactional producers."
        ),
        f"Faults in {proof.seconds:.0f} s: {faults}, {proof.harmed:,} requests harmed on the way. {kinds}.",
        f"Acknowledged after {told.ack_p50_ms:.1f} ms in the median, p99 {told.ack_p99_ms:.0f} ms.",
        "",
    ]
    for anomaly, number in number_of.items():
        lines.append(f"  {anomaly.value:<{_WIDTH}} {number:>6}")
    lines.append("")
    for finding in proof.findings[:_STORIES_MAX]:
        lines += [
            f"{finding.anomaly.value}: ",
            *(f"  {line}" for line in story_of(finding, proof.history)),
            "",
        ]
    if len(proof.findings) > _STORIES_MAX:
        lines.append(f"and {len(proof.findings) - _STORIES_MAX} more.")
    verdict = (
        "Every promise was kept." if not proof.findings else f"{len(proof.findings)} promises were broken."
    )
    return [*lines, f"{verdict} Seed {proof.options.seed}; again: {again}"]


def as_document(proof: Proof, again: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "kept": not proof.findings,
        "seed": proof.options.seed,
        "command": again,
        "on": proof.version,
        "seconds": round(proof.seconds, 3),
        "summary": asdict(summary(proof.history)),
        "faults": proof.faults,
        "requests_harmed": proof.harmed,
        "troubles": proof.troubles,
        "counts": {anomaly.name.lower(): number for anomaly, number in counts(proof.findings).items()},
        "findings": [
            {
                "anomaly": finding.anomaly.name.lower(),
                "why": finding.why,
                "story": story_of(finding, proof.history),
            }
            for finding in proof.findings
        ],
    }


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0
