"""A proof written by hand: a history of four seconds with one fault of each meaning."""

from semel.verify.history.events import Acked, ClientEvent, Ended, Failed, Fault, Polled, Sent, Stable
from semel.verify.proof.options import Options
from semel.verify.proof.runner import Proof
from semel.verify.proof.timeline import Timeline, summary
from semel.verify.proof.vitals import Vitals


def history() -> list[ClientEvent]:
    return [
        Sent(0.1, "p", "t", 0, "a"),
        Acked(0.2, "p", "a", 0),
        Sent(0.3, "p", "t", 0, "b", 1),
        Acked(0.9, "p", "b", 1),
        Stable(1.0, "t", 0, 1, 2),
        Stable(1.0, "t", 1, 5, 5),
        Fault(1.1, 2.5, "the broker <killed>", blocks=True),
        Fault(3.0, 3.2, "the disk slow"),
        Ended(3.3, "p", 1, "committed"),
        Stable(3.4, "t", 0, 3, 3),
        Polled(3.9, "r", "read_committed", "t", 0, ((0, "a"), (1, "b"))),
        Sent(3.95, "p", "t", 0, "c"),
        Failed(4.0, "p", "c", True, "no"),
    ]


def proof(vitals: list[Vitals]) -> Proof:
    events = history()
    timeline = Timeline()
    timeline.add(events)
    faults = {"the broker <killed>": 1, "the disk slow": 1}
    return Proof(
        Options(seconds=4), events, [], faults, 3, {}, 4.0, "here", summary(events), timeline, vitals
    )
