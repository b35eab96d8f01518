"""Every committed picture and both reports in a real browser: no text is clipped, none stands on another, all can be read.

Method: one Chromium for all; boxes and colors are the browser's own (`browser.js`), in light and dark, in the fonts of the page and in
DejaVu Sans, the widest of those a reader may have.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Page, sync_playwright

from semel.drawing.ratios import Row, ratios
from semel.verify.demo.shop import picture
from semel.verify.history.events import Fault
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.page import html
from semel.verify.proof.vitals import Vitals
from support.peers import chromium
from support.verify.proof_kit import proof

_ROOT: Final = Path(__file__).parents[2]
_LOOK: Final = (Path(__file__).parent / "browser.js").read_text(encoding="utf-8")
_WIDE_FONT: Final = "<style>body,text,h1,h2,td,th{font-family:'DejaVu Sans' !important}</style>"
_MIB: Final = 1 << 20
_START_MS: Final = 60_000
Scheme = Literal["light", "dark"]

COMMITTED: Final = sorted(
    path.relative_to(_ROOT).as_posix()
    for top in ("docs", "examples", "src")
    for path in (_ROOT / top).rglob("*.svg")
)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    program = chromium.find()
    if program is None:
        reason = "Chromium is not installed: make peers installs it where apt-get and root are at hand"
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=list(chromium.ARGUMENTS), timeout=_START_MS
        )
        try:
            opened = browser.new_page(viewport={"width": 1100, "height": 900})
            opened.route("**/*", lambda route: route.abort())  # A picture asks for nothing.
            yield opened
        finally:
            browser.close()


def complaints(page: Page, content: str, *, inside: bool = False) -> list[str]:
    """What is wrong in either scheme and either font."""
    found: list[str] = []
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for font in ("", _WIDE_FONT):
        page.set_content(f"<!doctype html>{content}{font}")
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            found += [f"{scheme}{', wide' if font else ''}: {one}" for one in page.evaluate(_LOOK, [inside])]
    return found


def test_there_are_pictures_to_look_at() -> None:
    assert {
        "docs/performance.svg",
        "docs/performance-short.svg",
        "docs/demo.svg",
        "docs/long-run.svg",
    } <= set(COMMITTED)


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_picture_can_be_read(page: Page, name: str) -> None:
    assert complaints(page, (_ROOT / name).read_text(encoding="utf-8")) == []


def kept() -> str:
    return html(
        proof([Vitals(float(at), 7, (50 + at) * _MIB, 100 + at) for at in range(5)]), "semel verify --seed 1"
    )


def broken() -> str:
    shown = proof([])
    shown.findings = [
        Finding(Anomaly.LOST, "value 17 was acknowledged and is nowhere"),
        Finding(Anomaly.TORN, "half of it"),
    ]
    shown.timeline.faults = [
        Fault(
            0.05 * number,
            0.05 * number + 0.04,
            f"a fault of the kind {number % 7} with a name of some length",
            blocks=number % 3 == 0,
        )
        for number in range(70)
    ]
    shown.faults = {fault.what: 10 for fault in shown.timeline.faults}
    return html(shown, "semel verify --seed 1 --seconds 30 --writers 2 --partitions 6 --fault-every 2")


def unfinished() -> str:
    shown = proof([])
    shown.error = "the broker did not come back within 60 s"
    return html(shown, "semel verify --seed 1")


def demonstration() -> str:
    document = json.loads((_ROOT / "docs/demo.json").read_text(encoding="utf-8"))
    return picture.html(*picture.of_data(document), "semel demo --orders 60000 --seed 1")


@pytest.mark.parametrize("report", [kept, broken, unfinished, demonstration])
@pytest.mark.parametrize("width", [1100, 640])
def test_a_report_can_be_read(page: Page, report: Callable[[], str], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert complaints(page, report(), inside=True) == []


def test_labels_of_any_length_and_ratios_of_any_size_can_be_read(page: Page) -> None:
    rows = [
        Row("W" * 90, "M" * 200, 0.0001, 0.001, 0.5, 2, False),
        Row("", "a, b", 1, 1, 1, 1, True),
        Row("more", "%" * 80, 90, 4000, 1e6, None, None),
    ]
    assert complaints(page, ratios("wide", "A title", "and more " * 60, rows, "the peer")) == []


def test_the_look_finds_what_it_looks_for(page: Page) -> None:
    bad = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50"><rect class="f-surface" width="100" height="50" fill="#fff"/>'
        '<text x="60" y="20">far too long</text><text x="5" y="30">one</text><text x="6" y="31">other</text>'
        '<text x="5" y="48" fill="#ccc">pale</text></svg>'
    )
    found = " ".join(complaints(page, bad))
    assert '"far too long" is clipped' in found
    assert '"one" stands on "other"' in found
    assert '"pale" has a contrast of 1.6' in found
