"""The long run writes what came of it: a page with the command and the counts, and the picture beside it.

Method: a proof of two seconds on a real broker, by the command; its exit code with and without a finding.
"""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from semel.verify import long_run
from semel.verify.proof import runner
from semel.verify.proof.anomalies import Anomaly, Finding


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "run.md"


@pytest.mark.campaign
def test_page_and_picture_are_written(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert long_run.main(["--seconds", "2", "--seed", "5", "--write", str(written)]) == 0
    text = written.read_text()
    assert "python -m semel.verify.long_run --seconds 2 --seed 5" in text
    assert "Nothing was lost, duplicated, reordered or torn" in text
    assert "(run.svg)" in text
    for anomaly in Anomaly:
        assert anomaly.value in text
    titles = [element.text or "" for element in ET.parse(written.with_suffix(".svg")).iter()]
    assert any("memory of the broker" in title for title in titles)
    assert any("open handles" in title for title in titles)
    assert "Every promise was kept." in capsys.readouterr().out


@pytest.mark.campaign
def test_a_finding_is_told_by_the_exit_code(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "judge", lambda _history, _limits: [Finding(Anomaly.LOST, "it is gone")])
    assert long_run.main(["--seconds", "1", "--write", str(written)]) == 1
    assert "Promises were broken" in written.read_text()
    assert "it is gone" in written.read_text()
