"""The page of figures must say where they come from, be readable, and never hide a missed target.

Method: results made by hand, and the page and JSON made from them compared with what a reader must find.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from semel.bench import report
from semel.bench.measure import BenchError, ComparisonResult, Estimate, Ratio, SubjectResult
from semel.runtime.environment import Environment, environment

MACHINE = Environment(
    date="2026-01-02 03:04 UTC",
    commit="abc123",
    python="CPython 3.11.9",
    processor="Some CPU",
    cores=2,
    command="python -m semel.bench kernels --pairs 7",
)


def around(value: float) -> Estimate:
    return Estimate(value, value * 0.9, value * 1.1)


def subject(name: str, units_per_second: float, *, with_bytes: bool = True) -> SubjectResult:
    return SubjectResult(
        name=name,
        repeats=3,
        units_per_second=around(units_per_second),
        microseconds_per_unit=around(1e6 / units_per_second),
        cpu_microseconds_per_unit=around(1e6 / units_per_second),
        gb_per_second=around(1.5) if with_bytes else None,
        cpu_seconds_per_gb=around(0.25) if with_bytes else None,
    )


def result(
    speed: Estimate, *, target_ratio: float | None = 5.0, target: str | None = None
) -> ComparisonResult:
    return ComparisonResult(
        title="Decode 100-byte records",
        unit="records",
        pairs=7,
        subjects=(subject("semel", 20e6), subject("aiokafka", 3e6)),
        ratios=(Ratio("aiokafka", speed, Estimate(0.15, 0.14, 0.16)),),
        target=target,
        target_ratio=target_ratio,
        target_peers=("aiokafka",),
    )


REACHED = result(Estimate(6.67, 6.1, 7.0))


def section(name: str, *results: ComparisonResult) -> report.Section:
    return report.Section(name=name, about=f"About {name}.", environment=MACHINE, results=results)


def test_a_comparison_is_a_table_with_the_ratio_beside_the_peer() -> None:
    lines = report.comparison_lines(REACHED).splitlines()
    assert lines == [
        "",
        "### Decode 100-byte records",
        "",
        "|  | records/s | µs per record | CPU µs per record | GB/s | CPU s per GB | speed | CPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| semel | 20,000,000 [18,000,000, 22,000,000] | 0.0500 | 0.0500 | 1.50 | 0.250 |  |  |",
        (
            "| aiokafka | 3,000,000 [2,700,000, 3,300,000] | 0.333 | 0.333 | 1.50 | 0.250 | 6.67 [6.10, 7.00] "
            "| 0.150 [0.140, 0.160] |"
        ),
        "",
        "7 rounds; intervals hold with 98.4%.",
        "",
        "Target reached: at least 5 times the speed of aiokafka; measured 6.67 [6.10, 7.00].",
    ]


def test_columns_without_bytes_are_left_out() -> None:
    small = ComparisonResult("Parse", "messages", 7, (subject("semel", 1e6, with_bytes=False),), ())
    text = report.comparison_lines(small)
    assert "GB" not in text
    assert "| semel | 1,000,000 [900,000, 1,100,000] | 1.00 | 1.00 |  |  |" in text


@pytest.mark.parametrize(
    ("speed", "start"),
    [
        (Estimate(6.0, 5.0, 7.0), "Target reached: "),
        (Estimate(6.0, 4.9, 7.0), "Target reached by the median, but not by the whole interval: "),
        (Estimate(4.99, 4.0, 7.0), "**Target missed**: "),
    ],
)
def test_the_verdict_follows_median_and_interval(speed: Estimate, start: str) -> None:
    sentence = report.verdict(result(speed, target="five times aiokafka"))
    assert sentence is not None
    assert sentence.startswith(start + "five times aiokafka; measured ")


def test_a_target_whose_peer_is_missing_is_not_decided_by_another() -> None:
    gap = replace(REACHED, target_peers=("kio",), notes=("kio was left out: No module named 'kio'",))
    assert report.verdict(gap) == (
        "Target not decided: at least 5 times the speed of kio; there was nothing to measure it beside."
    )
    assert "\nNote: kio was left out: No module named 'kio'.\n" in report.comparison_lines(gap)


def beside_both(kafka_python: float, aiokafka: float | None) -> ComparisonResult:
    speeds = {"kafka-python": kafka_python, "aiokafka": aiokafka, "confluent-kafka": 0.1}
    return replace(
        result(around(1.0), target_ratio=1.0, target="as fast as both"),
        ratios=tuple(Ratio(peer, around(speed), None) for peer, speed in speeds.items() if speed is not None),
        target_peers=("kafka-python", "aiokafka"),
    )


@pytest.mark.parametrize(
    ("kafka_python", "aiokafka", "sentence"),
    [
        (6.0, 2.0, "Target reached: as fast as both; measured 2.00 [1.80, 2.20] beside aiokafka."),
        (2.0, 6.0, "Target reached: as fast as both; measured 2.00 [1.80, 2.20] beside kafka-python."),
        (6.0, 0.5, "**Target missed**: as fast as both; measured 0.500 [0.450, 0.550] beside aiokafka."),
        (0.5, None, "**Target missed**: as fast as both; measured 0.500 [0.450, 0.550] beside kafka-python."),
        (
            6.0,
            None,
            "Target not decided: as fast as both; aiokafka could not be measured; measured 6.00 [5.40, 6.60] beside kafka-python.",
        ),
    ],
)
def test_a_target_beside_several_is_decided_by_the_fastest(
    kafka_python: float, aiokafka: float | None, sentence: str
) -> None:
    assert report.verdict(beside_both(kafka_python, aiokafka)) == sentence


@pytest.mark.parametrize("peer", ["aiokafka", None])
def test_what_was_kept_of_a_target_beside_one_is_still_read(tmp_path: Path, peer: str | None) -> None:
    path = tmp_path / "benchmarks.json"
    document = json.loads(report.as_json([section("client", REACHED)]))
    (kept,) = document["sections"][0]["results"]
    del kept["target_peers"]
    path.write_text(
        json.dumps(
            {
                **document,
                "sections": [{**document["sections"][0], "results": [{**kept, "target_peer": peer}]}],
            }
        )
    )
    ((read,),) = [one.results for one in report.read(path)]
    assert read == replace(REACHED, target_peers=(peer,) if peer else ())


def test_a_target_in_words_is_repeated_and_no_target_is_no_sentence() -> None:
    speed = Estimate(2.0, 1.0, 3.0)
    assert report.verdict(result(speed, target_ratio=None, target="under 3 µs")) == "Target: under 3 µs."
    assert report.verdict(result(speed, target_ratio=None)) is None


def test_the_page_names_date_commit_machine_and_command_of_each_section() -> None:
    page = report.as_markdown([section("kernels", REACHED), section("log", REACHED)])
    assert page.startswith("# Benchmarks\n")
    assert (
        page.count("Measured 2026-01-02 03:04 UTC at commit abc123, CPython 3.11.9, Some CPU, 2 cores.") == 2
    )
    assert "\n    python -m semel.bench kernels --pairs 7\n" in page
    assert page.index("## kernels") < page.index("## log")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12_345_678.0, "12,300,000"),
        (456.4, "456"),
        (99.96, "100"),
        (1.0, "1.00"),
        (0.00456, "0.00456"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    many = Estimate(value, value, value)
    assert f"| {text} |" in report.comparison_lines(
        replace(REACHED, subjects=(replace(subject("x", 1), gb_per_second=many),))
    )


@pytest.mark.parametrize(
    ("unit", "one"), [("batches", "batch"), ("queries", "query"), ("GB", "GB"), ("messages", "message")]
)
def test_units_are_written_in_the_singular_where_one_is_meant(unit: str, one: str) -> None:
    assert f"µs per {one} |" in report.comparison_lines(replace(REACHED, unit=unit))


def test_what_was_written_is_read_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    without = replace(REACHED, ratios=(Ratio("aiokafka", Estimate(1, 1, 1), None),), notes=("a note",))
    bare = ComparisonResult("Parse", "messages", 7, (subject("semel", 1e6, with_bytes=False),), ())
    sections = [section("codec", without, bare), section("kernels", REACHED)]
    path.write_text(report.as_json(sections), encoding="utf-8")
    assert report.read(path) == sections


def test_measuring_one_section_again_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "benchmarks.json"
    order = ("codec", "kernels", "log")
    report.update(path, [section("log", REACHED), section("codec", REACHED)], order)
    faster = section("codec", replace(REACHED, title="Encode"))
    merged = report.update(path, [faster, section("kernels", REACHED)], order)
    assert [one.name for one in merged] == ["codec", "kernels", "log"]
    assert merged[0] == faster
    assert report.read(path) == merged


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("{}", "holds no measurements of this version"),
        ('{"sections": [{"name": "codec"}]}', "holds no measurements of this version"),
        ("[]", "holds no measurements of this version"),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_left_alone(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BenchError, match=f"benchmarks.json {message}"):
        report.update(path, [section("codec", REACHED)], ("codec",))
    assert path.read_text(encoding="utf-8") == text


def test_the_environment_describes_this_process() -> None:
    here = environment("python -m semel.bench codec")
    assert here.command == "python -m semel.bench codec"
    assert here.date.endswith(" UTC")
    assert here.cores >= 1
    assert all((here.commit, here.python, here.processor))
