"""A proof as text and as JSON: the work, the findings, and how to do it again.

Role.   `as_text` and `as_document` are what the command prints and writes.
Rules.  * Pure. Every anomaly has its line, also those of which there are none: a reader sees what was looked for.
        * A proof that did not come to its end has no counts: no promise is said to be kept that was not judged.
        * One finding of each anomaly is shown before a second of any: thousands of one kind do not hide another.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from semel.verify.faults.disturber import NEEDS
from semel.verify.proof.anomalies import Anomaly, Finding, story_of
from semel.verify.proof.judge import counts
from semel.verify.proof.runner import Proof
from semel.verify.proof.timeline import Summary
from semel.verify.proof.vitals import Trend, trend

_STORIES_MAX: Final = 3
"""In the text; one of each anomaly, if there are more."""
_STORIES_KEPT_MAX: Final = 100
"""In the JSON; the counts are of all."""
_WIDTH: Final = 42
_KIND_WIDTH: Final = 12
_MIB: Final = 1 << 20


def as_text(proof: Proof, again: str) -> list[str]:
    """The lines the command prints; `again` is the command that plays it again."""
    told = proof.summary
    faults = sum(proof.faults.values())
    number_of = counts(proof.findings)
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
            f"told; {told.lives:,} lives of transactional producers, {told.zombies:,} records sent by lives that were replaced."
        ),
        f"Groups: {told.positions:,} positions stored, {told.positions_refused:,} refused.",
        (
            f"Faults in {proof.seconds:.0f} s and {proof.rounds} round{'s' if proof.rounds > 1 else ''}: {faults}, "
            f"{proof.harmed:,} requests harmed on the way."
        ),
        *_faults(proof),
        f"Acknowledged after {told.latency_ms(0.5):.1f} ms in the median, p99 {told.latency_ms(0.99):.0f} ms.",
        *_vitals(proof),
        "",
    ]
    if proof.error:
        return [*lines, f"Nothing is proved: {proof.error}", f"Seed {proof.options.seed}; again: {again}"]
    for anomaly, number in number_of.items():
        lines.append(f"  {anomaly.value:<{_WIDTH}} {number:>6}")
    lines.append("")
    shown = most_telling(proof.findings, _STORIES_MAX)
    for finding in shown:
        lines += [
            f"{finding.anomaly.value}: ",
            *(f"  {line}" for line in story_of(finding, proof.history)),
            "",
        ]
    if len(proof.findings) > len(shown):
        lines.append(f"and {len(proof.findings) - len(shown)} more.")
    verdict = (
        "Every promise was kept." if not proof.findings else f"{len(proof.findings)} promises were broken."
    )
    return [*lines, f"{verdict} Seed {proof.options.seed}; again: {again}"]


def _faults(proof: Proof) -> list[str]:
    """Every kind of fault with how often it was played, or why it was not; then what each of them did."""
    if not proof.options.fault_seconds:
        return []
    lines = []
    for kind in proof.options.faults:
        count = proof.played.get(kind, 0)
        why = "  not played: the time was over" if proof.options.each_once and not count else ""
        why = f"  needs {NEEDS[kind]}" if kind in proof.impossible else why
        lines.append(f"  {kind:<{_KIND_WIDTH}} {count:>4}{why}")
    told = [f"{what} ({count})" for what, count in sorted(proof.faults.items())]
    return [*lines, *([f"These were: {', '.join(told)}."] if told else [])]


def most_telling(findings: Sequence[Finding], least: int) -> list[Finding]:
    """One of each anomaly, then others up to so many; in the order of the anomalies."""
    first: dict[Anomaly, int] = {}
    for place, finding in enumerate(findings):
        first.setdefault(finding.anomaly, place)
    rest = [place for place in range(len(findings)) if place not in set(first.values())]
    chosen = [*first.values(), *rest[: max(0, least - len(first))]]
    return [findings[place] for place in sorted(chosen)]


def as_document(proof: Proof, again: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "kept": not proof.findings and not proof.error,
        "error": proof.error or None,
        "seed": proof.options.seed,
        "command": again,
        "on": proof.version,
        "seconds": round(proof.seconds, 3),
        "rounds": proof.rounds,
        "summary": _numbers(proof.summary),
        "vitals": {name: None if one is None else asdict(one) for name, one in trends(proof).items()},
        "faults": proof.faults,
        "faults_played": {kind: proof.played.get(kind, 0) for kind in proof.options.faults},
        "requests_harmed": proof.harmed,
        "troubles": proof.troubles,
        "counts": None
        if proof.error
        else {anomaly.name.lower(): number for anomaly, number in counts(proof.findings).items()},
        "findings": [
            {
                "anomaly": finding.anomaly.name.lower(),
                "why": finding.why,
                "story": story_of(finding, proof.history),
            }
            for finding in most_telling(proof.findings, _STORIES_KEPT_MAX)
        ],
    }


def _numbers(told: Summary) -> dict[str, float]:
    counted = {one.name: getattr(told, one.name) for one in fields(told) if one.name != "latencies"}
    return {**counted, "ack_p50_ms": told.latency_ms(0.5), "ack_p99_ms": told.latency_ms(0.99)}


def trends(proof: Proof) -> dict[str, Trend | None]:
    """How the broker's memory and handles went, where they were looked at."""
    return {
        "memory_bytes": trend([one.memory_bytes for one in proof.vitals]),
        "handles": trend([one.handles for one in proof.vitals]),
    }


def _vitals(proof: Proof) -> list[str]:
    """How the broker did, from the first quarter of the time to the last."""
    memory, handles = trends(proof).values()
    if memory is None or handles is None:
        return []
    in_memory = [f"{one / _MIB:.0f}" for one in (memory.first, memory.last, memory.most)]
    open_ = [f"{one:.0f}" for one in (handles.first, handles.last, handles.most)]
    what = f"{', '.join(in_memory)} MiB of memory, {', '.join(open_)} open handles"
    return [f"The broker in the first quarter, in the last, at most: {what}."]
