"""`auto.offset.reset` is read as Kafka reads it.

Method: Java's own parser of durations, where Kafka is there, judges the same texts.
"""

from pathlib import Path

import pytest

from semel.core.client.reset import EARLIEST, LATEST, NONE, Reset, ResetKind, parse_reset
from semel.errors import ConfigError
from semel.peers.kafka import KafkaHome

SPANS = {
    "PT1H": 3_600_000,
    "P1D": 86_400_000,
    "P2DT3H4M": 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000,
    "PT0.5S": 500,
    "PT1.2345S": 1_234,
    "PT20.345S": 20_345,
    "pt15m": 900_000,
    "PT0S": 0,
    "PT36H": 129_600_000,
    "PT1,5S": 1_500,
}
NO_SPANS = ["", "P", "PT", "P1DT", "1H", "P1Y", "P1W", "PT1", "P1H", "PT1M1H", "PT.5S"]


@pytest.mark.parametrize("text", SPANS)
def test_a_span_before_now(text: str) -> None:
    reset = parse_reset(f"by_duration:{text}")
    assert reset == Reset(ResetKind.BY_DURATION, SPANS[text])
    assert reset.timestamp(1_000_000_000_000) == 1_000_000_000_000 - SPANS[text]


@pytest.mark.parametrize("text", [*(f"by_duration:{one}" for one in NO_SPANS), "by_duration:-PT1H", "first"])
def test_what_is_none_of_the_four_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"auto\.offset\.reset=.*: use earliest, latest, none, or by_duration"
    ):
        parse_reset(text)


def test_the_ends() -> None:
    assert [parse_reset(name) for name in ("earliest", "LATEST", "None")] == [EARLIEST, LATEST, NONE]
    assert (EARLIEST.timestamp(5), LATEST.timestamp(5)) == (-2, -1)
    assert Reset(ResetKind.BY_DURATION, 10).timestamp(5) == 0, "not before 1970"


@pytest.mark.java
def test_java_reads_the_same_spans(kafka_home: KafkaHome, tmp_path: Path) -> None:
    program = tmp_path / "Spans.java"
    program.write_text(
        """
        public class Spans {
            public static void main(String[] texts) {
                for (String text : texts) {
                    try { System.out.println(java.time.Duration.parse(text).toMillis()); }
                    catch (Exception error) { System.out.println("none"); }
                }
            }
        }
        """
    )
    said = kafka_home.run(str(program), *SPANS, *NO_SPANS).split("\n")
    assert said[: len(SPANS)] == [str(span) for span in SPANS.values()]
    assert set(said[len(SPANS) : len(SPANS) + len(NO_SPANS)]) == {"none"}
