"""`python -m semel.bench`: which sections run, what is written, and how wrong usage is told.

Method: the sections are replaced by tiny modules of our own; the measuring itself is real but as short as can be.
"""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from semel.bench import __main__ as bench
from semel.bench.measure import BenchError, Comparison, Subject
from semel.bench.report import read


def _spin() -> int:
    return sum(range(10))


@pytest.fixture
def fake_sections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every section compares two ways to add up ten numbers; the list says which were asked for."""
    asked: list[str] = []
    for name in bench.NAMES:
        module = ModuleType(f"semel.bench.{name}", doc=f"How fast {name} is.\n\nMore words.")

        def comparisons(_peer: object = None, name: str = name) -> list[Comparison]:
            asked.append(name)
            return [Comparison(f"{name} sums", "sums", 1, [Subject("semel", _spin), Subject("peer", _spin)])]

        module.comparisons = comparisons  # type: ignore[attr-defined]  # A module made by hand.
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bench, "ROUND_SECONDS_MIN", 1e-4)
    monkeypatch.setattr(bench, "peer_of", lambda _options: None)
    return asked


def test_all_sections_run_when_none_is_named(
    fake_sections: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--pairs", "1"]) == 0
    assert fake_sections == list(bench.NAMES)
    printed = capsys.readouterr().out
    assert "## codec: How fast codec is.\n" in printed
    assert "### log sums" in printed


def test_named_sections_run_once_each(fake_sections: list[str]) -> None:
    assert bench.main(["log", "codec", "log", "--quick"]) == 0
    assert fake_sections == ["log", "codec"]


def test_a_page_is_written_and_keeps_sections_not_measured_again(
    fake_sections: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "benchmarks.md"
    assert bench.main(["log", "--pairs", "2", "--write", str(page)]) == 0
    assert bench.main(["codec", "--pairs", "3", "--write", str(page)]) == 0
    codec, log = read(tmp_path / "benchmarks.json")
    assert (codec.name, log.name) == ("codec", "log")
    assert (codec.results[0].pairs, log.results[0].pairs) == (3, 2)
    assert codec.environment.command == "python -m semel.bench codec --pairs 3"
    text = page.read_text(encoding="utf-8")
    assert text.index("## codec") < text.index("## log")


def test_an_error_in_a_later_section_does_not_cost_an_earlier_one(
    fake_sections: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> list[Comparison]:
        raise BenchError("the disk is full")

    monkeypatch.setattr(sys.modules["semel.bench.kernels"], "comparisons", fails)
    assert bench.main(["codec", "kernels", "--pairs", "1", "--write", str(tmp_path / "page.md")]) == 1
    assert "semel.bench: the disk is full" in capsys.readouterr().err
    assert [section.name for section in read(tmp_path / "page.json")] == ["codec"]


def test_json_is_the_only_output_when_asked_for(
    fake_sections: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["runtime", "--quick", "--json"]) == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert section["name"] == "runtime"
    assert section["environment"]["command"] == "python -m semel.bench runtime --pairs 3 --quick"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "there is no benchmark speed; choose from codec, kernels, runtime, log"),
        (["--pairs", "0"], "--pairs 0 is out of range; choose between 1 and 1001"),
        (["--quick", "--write", "page.md"], "--quick figures are not for a page"),
        (["--write", "page.json"], "--write page.json is not a Markdown page"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    fake_sections: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert fake_sections == []
