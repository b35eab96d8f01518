"""The long run writes what came of it: a page with the command and the counts, and the picture beside it.

Method: a proof of two seconds on a real broker, by the command; its exit code with and without a finding.
"""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from semel.runtime.environment import environment
from semel.verify import long_run
from semel.verify.proof import runner
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.options import Options
from semel.verify.proof.vitals import Vitals


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "run.md"


@pytest.mark.parametrize(
    ("pids", "said"), [([7, 7, 7], "was not killed in it"), ([7, 7, 8, 9, 9], "it had 3 lives")]
)
def test_the_page_says_how_often_the_broker_was_killed(pids: list[int], said: str) -> None:
    vitals = [Vitals(float(at), pid, 1 << 20, 10) for at, pid in enumerate(pids)]
    proof = runner.Proof(Options(), [], [], {}, 0, {}, 5.0, "here", vitals=vitals)
    assert said in long_run.page(proof, environment("the command"), "run.svg")


@pytest.mark.parametrize(
    ("seconds", "megabytes", "handles", "grew", "said"),
    [
        (3600.0, [200, 200, 210, 210], [100, 90, 95, 99], [], "memory and handles stayed flat"),
        (3600.0, [200, 300, 400, 500], [100, 90, 95, 99], ["memory"], "Its memory grew"),
        (3600.0, [200, 200, 200, 200], [100, 200, 300, 400], ["handles"], "Its handles grew"),
        (5.0, [20, 300, 400, 500], [10, 90, 95, 99], [], "was not killed in it"),
    ],
)
def test_what_grows_over_a_long_time_is_told(
    seconds: float, megabytes: list[int], handles: list[int], grew: list[str], said: str
) -> None:
    looks = zip(megabytes, handles, strict=True)
    vitals = [Vitals(float(at), 7, size << 20, open_) for at, (size, open_) in enumerate(looks)]
    proof = runner.Proof(Options(), [], [], {}, 0, {}, seconds, "here", vitals=vitals)
    assert long_run.grown(proof) == grew
    assert said in long_run.page(proof, environment("the command"), "run.svg")


def test_a_run_that_did_not_come_to_its_end_is_told_and_not_published(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(options: Options, _progress: object) -> runner.Proof:
        proof = runner.Proof(options, [], [], {}, 0, {}, 5.0, "here", error="the broker ended by itself")
        raise runner.UnfinishedError(proof)

    monkeypatch.setattr(long_run, "prove", broken)
    assert long_run.main(["--seconds", "2", "--seed", "5", "--write", str(written)]) == 1
    told = capsys.readouterr().out
    assert "Nothing is proved: the broker ended by itself" in told
    assert "Seed 5; again: python -m semel.verify.long_run --seconds 2 --seed 5" in told
    assert not written.exists()


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
