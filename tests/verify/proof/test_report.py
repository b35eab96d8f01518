"""What a proof shows: vital signs from outside, slices of time, a summary, and a picture that holds what was seen.

Method: a history written by hand, processes of our own, and the picture parsed as the XML it is.
"""

import os
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from semel.verify.faults.disturber import FAULTS
from semel.verify.history.events import Acked, ClientEvent, Ended, Failed, Fault, Polled, Sent, Stable, Took
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.options import Options
from semel.verify.proof.page import html, svg
from semel.verify.proof.report import as_document, as_text, most_telling
from semel.verify.proof.runner import Proof
from semel.verify.proof.timeline import Summary, Timeline, summary
from semel.verify.proof.vitals import Trend, Vitals, look, trend

SVG = "{http://www.w3.org/2000/svg}"
MIB = 1 << 20


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


def test_slices_of_time_hold_what_was_seen_in_them() -> None:
    timeline = proof([]).timeline
    assert dict(timeline.acked) == {0: 1, 3: 1}
    assert dict(timeline.committed) == {13: 1}
    assert dict(timeline.read) == {15: 2}
    assert (timeline.stable[4], timeline.ends[4], timeline.unstable[4]) == (6, 7, 1)
    assert (timeline.stable[13], timeline.ends[13], timeline.unstable[13]) == (8, 8, 0)
    assert [fault.what for fault in timeline.faults] == ["the broker <killed>", "the disk slow"]


def test_summaries_of_rounds_add_up() -> None:
    once, twice = Summary(), Summary()
    once.add(history())
    for _ in range(2):
        twice.add(history())
    assert (once.sent, once.acknowledged, once.failed, once.unanswered, once.committed) == (3, 2, 1, 0, 1)
    assert (twice.sent, twice.acknowledged, twice.read) == (6, 4, 4)
    assert once.latency_ms(0.5) == pytest.approx(100)
    assert once.latency_ms(1.0) == pytest.approx(600)
    assert Summary().latency_ms(0.99) == 0.0


def test_the_picture_shows_operations_faults_and_the_last_stable_offset() -> None:
    vitals = [Vitals(float(at), 7, (50 + at) * MIB, 100 + at) for at in range(5)]
    picture = ET.fromstring(svg(proof(vitals)))
    texts = [element.text or "" for element in picture.iter(f"{SVG}text")]
    lines = [element.attrib["points"].split() for element in picture.iter(f"{SVG}polyline")]
    assert len(lines) == 8
    assert any("last stable offset (brown)" in text for text in texts)
    assert {"7", "8"} & set(texts), "the most of the ends is written at its panel"
    assert "54" in texts, "MiB at most"
    assert "104" in texts, "handles at most"
    bands = [element for element in picture.iter(f"{SVG}rect") if element.find(f"{SVG}title") is not None]
    titles = [band.findtext(f"{SVG}title") for band in bands]
    assert titles == ["the broker <killed>, 1.1 to 2.5 s", "the disk slow, 3.0 to 3.2 s"]
    assert bands[0].attrib["fill"] != bands[1].attrib["fill"]
    width = 1000 - 80 - 20
    assert float(bands[0].attrib["x"]) == pytest.approx(80 + width * 1.1 / 4, abs=0.1)
    assert float(bands[0].attrib["width"]) == pytest.approx(width * 1.4 / 4, abs=0.1)
    for points in lines:
        places = [tuple(map(float, point.split(","))) for point in points]
        assert all(80 <= x <= 980 for x, _ in places)
        assert places == sorted(places, key=lambda place: place[0])


def test_a_long_run_is_drawn_with_few_points() -> None:
    shown = proof([Vitals(float(at), 7, 50 * MIB, 100) for at in range(7200)])
    shown.timeline.end = 7200.0
    picture = ET.fromstring(svg(shown))
    assert all(len(line.attrib["points"].split()) <= 601 for line in picture.iter(f"{SVG}polyline"))
    assert any((element.text or "").endswith(" min") for element in picture.iter(f"{SVG}text"))


def test_how_the_broker_did_is_told() -> None:
    shown = proof([Vitals(float(at), 7, (50 + at) * MIB, 100 + at) for at in range(8)])
    text = "\n".join(as_text(shown, "again"))
    assert "The broker in the first quarter, in the last, at most: 50, 56, 57 MiB of memory" in text
    assert "Faults in 4 s and 1 round: 2, 3 requests harmed on the way." in text
    document = as_document(shown, "again")
    assert document["vitals"]["handles"] == {"first": 100.5, "last": 106.5, "most": 107}
    assert document["summary"]["acknowledged"] == 2
    assert "MiB" not in "\n".join(as_text(proof([]), "again"))
    assert "the broker &lt;killed&gt;" in html(shown, "again")


def test_every_kind_of_fault_is_named_with_how_often_it_was_played() -> None:
    shown = proof([])
    shown.played |= {"network": 5, "kill": 1}
    shown.impossible.append("cut-off")
    lines = as_text(shown, "again")
    assert "  network         5" in lines
    assert "  freeze          0" in lines
    assert "  cut-off         0  needs a cluster of several brokers (--against)" in lines
    assert sum(line.startswith(tuple(f"  {kind} " for kind in FAULTS)) for line in lines) == len(FAULTS)
    assert as_document(shown, "again")["faults_played"] == dict.fromkeys(FAULTS, 0) | {
        "network": 5,
        "kill": 1,
    }


def test_one_finding_of_each_kind_is_shown_before_a_second() -> None:
    kinds = [Anomaly.LOST] * 1000 + [Anomaly.DUPLICATE] * 2 + [Anomaly.TORN, Anomaly.STUCK]
    findings = [Finding(kind, f"{kind.name} {number}") for number, kind in enumerate(kinds)]
    shown = [finding.why for finding in most_telling(findings, 3)]
    assert shown == ["LOST 0", "DUPLICATE 1000", "TORN 1002", "STUCK 1003"]
    assert [finding.why for finding in most_telling(findings[:5], 3)] == ["LOST 0", "LOST 1", "LOST 2"]
    shown_proof = proof([])
    shown_proof.findings = findings
    text = "\n".join(as_text(shown_proof, "again"))
    assert "TORN 1002" in text
    assert "and 1000 more." in text


def test_what_replaced_lives_still_sent_is_counted() -> None:
    lives: list[ClientEvent] = [
        Took(0.0, "one", "id"),
        Sent(0.1, "one", "t", 0, "a", 1),
        Took(0.2, "two", "id"),
        Sent(0.3, "one", "t", 0, "b", 1),
        Sent(0.4, "two", "t", 0, "c", 1),
    ]
    assert (summary(lives).lives, summary(lives).zombies) == (2, 1)


def test_trends() -> None:
    assert trend([]) is None
    assert trend([3.0]) == Trend(3.0, 3.0, 3.0)
    assert trend([1, 1, 5, 9, 2, 2, 3, 3]) == Trend(1, 3, 9)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_is_looked_at_from_outside(tmp_path: Path) -> None:
    seen = look(os.getpid(), 1.5)
    assert seen is not None
    assert (seen.at, seen.pid) == (1.5, os.getpid())
    assert seen.memory_bytes > MIB
    with (tmp_path / "file").open("w"), (tmp_path / "other").open("w"):
        more = look(os.getpid(), 2.0)
    assert more is not None
    assert more.handles >= seen.handles + 2
    assert look(os.getpid(), 0.0, tmp_path) is None, "a process that is gone has no vital signs"
