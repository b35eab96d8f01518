"""What a proof shows: vital signs from outside, slices of time, a summary, and a picture that holds what was seen.

Method: a history written by hand, processes of our own, and the picture parsed as the XML it is.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from semel.drawing.timeline import LEFT, RIGHT, WIDTH
from semel.verify.faults.disturber import FAULTS
from semel.verify.history.events import ClientEvent, Fault, Sent, Took
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.page import as_data, drawn, html, of_data, portrait, svg
from semel.verify.proof.report import as_document, as_text, most_telling
from semel.verify.proof.timeline import Summary, summary
from semel.verify.proof.vitals import Trend, Vitals, look, trend
from support.verify.proof_kit import history, proof

SVG = "{http://www.w3.org/2000/svg}"
MIB = 1 << 20


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
    texts = ["".join(element.itertext()) for element in picture.iter(f"{SVG}text")]
    lines = [element.attrib["points"].split() for element in picture.iter(f"{SVG}polyline")]
    assert len(lines) == 8
    assert {"Acknowledged", "Committed", "Read", "Log", "Memory", "Handles"} <= set(texts)
    assert {"end of the log", "last stable offset"} <= set(texts), "lines are named in the legend"
    assert {"the broker <killed>", "the disk slow"} <= set(texts), "every kind of fault has its lane"
    assert {"fault: nobody could be served", "fault: something was harmed"} <= set(texts)
    assert {"1", "2"} <= set(texts), "few faults are numbered as in the table"
    bands = [element for element in picture.iter(f"{SVG}rect") if element.find(f"{SVG}title") is not None]
    titles = {band.findtext(f"{SVG}title") for band in bands}
    assert titles == {"the broker <killed>, 1.1 to 2.5 s", "the disk slow, 3.0 to 3.2 s"}
    assert len({band.attrib["fill"] for band in bands}) == 2, "a kind has its pattern"
    width = WIDTH - LEFT - RIGHT
    assert float(bands[0].attrib["x"]) == pytest.approx(LEFT + width * 1.1 / 4, abs=0.1)
    assert float(bands[0].attrib["width"]) == pytest.approx(width * 1.4 / 4, abs=0.1)
    for points in lines:
        places = [tuple(map(float, point.split(","))) for point in points]
        assert all(LEFT <= x <= WIDTH - RIGHT for x, _ in places)
        assert places == sorted(places, key=lambda place: place[0])


def test_a_picture_is_drawn_again_from_its_data() -> None:
    shown = portrait(proof([Vitals(float(at), 7, (50 + at) * MIB, 100 + at) for at in range(5)]))
    kept = json.loads(json.dumps(as_data(shown)))
    assert of_data(kept).faults == shown.faults
    assert drawn(of_data(kept)) == drawn(shown)


def test_of_many_faults_only_those_that_stopped_all_go_across_the_plots() -> None:
    shown = proof([])
    shown.timeline.end = 100.0
    shown.timeline.faults = [
        Fault(float(number), number + 0.5, "much", blocks=number % 2 == 0) for number in range(100)
    ]
    picture = ET.fromstring(svg(shown))
    tips = [element.findtext(f"{SVG}title") for element in picture.iter(f"{SVG}rect")]
    drawn_times = {tip: tips.count(tip) for tip in tips if tip is not None}
    assert sorted(set(drawn_times.values())) == [1, 6], "in its lane alone, or in five plots as well"
    shown.faults = {"much": 100}
    assert html(shown, "again").count("<td>much</td>") == 1, "the table has a line for a kind"


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
    assert "Not played" not in html(shown, "again")
    shown.impossible = ["cut-off"]
    assert "Not played here: cut-off (needs " in html(shown, "again")


def test_every_kind_of_fault_is_named_with_how_often_it_was_played() -> None:
    shown = proof([])
    shown.played |= {"network": 5, "kill": 1}
    shown.impossible.append("cut-off")
    lines = as_text(shown, "again")
    assert "  network         5" in lines
    assert "  freeze          0" in lines
    assert "  cut-off         0  needs a cluster of several brokers (--against)" in lines
    assert sum(line.startswith(tuple(f"  {kind} " for kind in FAULTS)) for line in lines) == len(FAULTS)
    shown.options = replace(shown.options, each_once=True)
    assert "  freeze          0  not played: the time was over" in as_text(shown, "again")
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
