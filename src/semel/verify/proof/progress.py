"""How a proof goes, in one line.

Role.   `Standing.line` is what the command shows while it runs, and the long run writes to its log.
Rules.  * Every event is counted once, whatever the number of looks; a round has a history of its own.
"""

from collections import Counter
from dataclasses import dataclass, field

from semel.verify.history.events import Acked, ClientEvent, Ended, Fault, Polled
from semel.verify.proof.programs import Stage


@dataclass(slots=True)
class Standing:
    """The counts so far."""

    seconds: float | None
    """How long the proof is to last, if that is known."""
    totals: Counter[str] = field(default_factory=Counter)
    shown_at: float = float("-inf")
    _history: list[ClientEvent] = field(default_factory=list)
    _counted: int = 0

    def is_due(self, stage: Stage, every_seconds: float) -> bool:
        """Whether it was shown so long ago."""
        return stage.now() - self.shown_at >= every_seconds

    def line(self, stage: Stage, what: str) -> str:
        """The line to print now, with the news in `what`, else with the present fault."""
        self.shown_at = stage.now()
        self._count(stage.history)
        totals, told = self.totals, what or stage.doing
        of = "" if self.seconds is None else f" of {self.seconds:.0f}"
        return (
            f"{self.shown_at:5.0f} s{of}: {totals['acked']:,} acknowledged, "
            f"{totals['committed']:,} transactions, {totals['read']:,} read, {totals['faults']} faults"
            f"{'; ' + told if told else ''}"
        )

    def _count(self, history: list[ClientEvent]) -> None:
        if history is not self._history:
            self._history, self._counted = history, 0
        new = history[self._counted :]
        self._counted += len(new)
        for event in new:
            self.totals["acked"] += isinstance(event, Acked)
            self.totals["committed"] += isinstance(event, Ended) and event.outcome == "committed"
            self.totals["read"] += len(event.records) if isinstance(event, Polled) else 0
            self.totals["faults"] += isinstance(event, Fault)
