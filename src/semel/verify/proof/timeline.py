"""A run second by second, and in sum: small enough to keep when the history is not.

Role.   `Timeline` and `Summary` take in one history after the other; the report and the picture are made of them.
Rules.  * Pure. Times are those of the events, on the clock of the whole run.
        * Bounded: so many numbers per slice of time, whatever happened in it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.verify.history.events import (
    UNCOMMITTED,
    Acked,
    ClientEvent,
    Commit,
    Deciding,
    Ended,
    Failed,
    Fault,
    Polled,
    Sent,
    Stable,
    Took,
)
from semel.verify.proof.index import Index

SLICE_SECONDS: Final = 0.25
_LATENCY_DIGITS: Final = 4


@dataclass(slots=True)
class Timeline:
    """The counts of each slice of time."""

    acked: Counter[int] = field(default_factory=Counter)
    committed: Counter[int] = field(default_factory=Counter)
    """Transactions."""
    read: Counter[int] = field(default_factory=Counter)
    stable: dict[int, int] = field(default_factory=dict)
    """The last stable offsets of all partitions, added up."""
    ends: dict[int, int] = field(default_factory=dict)
    """The ends of their logs."""
    unstable: dict[int, int] = field(default_factory=dict)
    """The most that lay above the last stable offset of a partition."""
    faults: list[Fault] = field(default_factory=list)
    end: float = 1.0

    def add(self, history: Sequence[ClientEvent]) -> None:
        latest: dict[tuple[str, int], Stable] = {}
        for event in history:
            slice_ = int(event.at / SLICE_SECONDS)
            self.end = max(self.end, event.at)
            match event:
                case Acked():
                    self.acked[slice_] += 1
                case Ended(outcome="committed"):
                    self.committed[slice_] += 1
                case Polled():
                    self.read[slice_] += len(event.records)
                case Stable():
                    latest[event.topic, event.partition] = event
                    self.stable[slice_] = sum(one.stable for one in latest.values())
                    self.ends[slice_] = sum(one.end for one in latest.values())
                    self.unstable[slice_] = max(self.unstable.get(slice_, 0), event.end - event.stable)
                case Fault():
                    self.faults.append(event)
                case _:
                    pass


@dataclass(slots=True)
class Summary:
    """How much happened."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    stored: int = 0
    """Records that lay in the logs at the end, committed or not."""
    unanswered: int = 0
    """Neither acknowledged nor failed: their process was given up."""
    committed: int = 0
    """Transactions."""
    aborted: int = 0
    unknown: int = 0
    lives: int = 0
    """Of transactional producers."""
    zombies: int = 0
    """Records that a life sent after another had taken its transactional id."""
    read: int = 0
    """Records handed to readers."""
    positions: int = 0
    """Stored by members of groups."""
    positions_refused: int = 0
    latencies: Counter[float] = field(default_factory=Counter)
    """Of acknowledgements, in seconds."""

    def add(self, history: Sequence[ClientEvent]) -> None:
        sent: dict[str, float] = {}
        acknowledged = failed = 0
        begun: set[tuple[str, int]] = set()
        committing: set[tuple[str, int]] = set()
        ends: dict[tuple[str, int], str] = {}
        owners: dict[str, str] = {}
        replaced: set[str] = set()
        for event in history:
            match event:
                case Sent():
                    sent[event.value] = event.at
                    self.zombies += event.process in replaced
                    if event.transaction is not None:
                        begun.add((event.process, event.transaction))
                case Acked():
                    acknowledged += 1
                    self.latencies[round(event.at - sent[event.value], _LATENCY_DIGITS)] += 1
                case Failed():
                    failed += 1
                case Deciding():
                    committing.add((event.process, event.transaction))
                case Ended():
                    ends[event.process, event.transaction] = event.outcome
                case Took():
                    self.lives += 1
                    replaced.add(owners.get(event.transactional_id, ""))
                    owners[event.transactional_id] = event.process
                case Polled():
                    self.read += len(event.records)
                case Commit():
                    self.positions += event.outcome == "stored"
                    self.positions_refused += event.outcome == "refused"
                case _:
                    pass
        known = list(ends.values())
        open_ended = [one for one in begun if one not in ends]
        self.sent += len(sent)
        self.acknowledged += acknowledged
        self.failed += failed
        self.stored += sum(len(log.values) for log in Index.of(history).logs.get(UNCOMMITTED, {}).values())
        self.unanswered += len(sent) - acknowledged - failed
        self.committed += known.count("committed")
        self.aborted += known.count("aborted") + sum(one not in committing for one in open_ended)
        self.unknown += known.count("unknown") + sum(one in committing for one in open_ended)

    def latency_ms(self, share: float) -> float:
        """After which so many of the acknowledgements had come."""
        left = int(share * (self.latencies.total() - 1))
        for latency in sorted(self.latencies):
            left -= self.latencies[latency]
            if left < 0:
                return latency * 1000
        return 0.0


def summary(history: Sequence[ClientEvent]) -> Summary:
    """The sum of one history."""
    found = Summary()
    found.add(history)
    return found
