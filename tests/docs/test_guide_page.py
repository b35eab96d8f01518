"""docs/guide.md: its programs run, the tests it names are there, and each part says what it is there for.

Method: the Python blocks are run against a broker; headings, links and names are read from the page.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from semel import Broker, Producer, profile

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "guide.md"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def part(title: str) -> str:
    """The text under a heading, up to the next of its kind or higher."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (start,) = [at for at, line in enumerate(lines) if re.fullmatch(rf"#+ {re.escape(title)}", line)]
    level = len(lines[start]) - len(lines[start].lstrip("#"))
    taken: list[str] = []
    for line in lines[start + 1 :]:
        if line.startswith("#") and len(line) - len(line.lstrip("#")) <= level:
            break
        taken.append(line)
    return "\n".join(taken)


@pytest.mark.parametrize("title", ["Switching it off", "Tuning"])
def test_the_recipes_run_and_store_a_record(title: str, semel_broker: Broker, semel_topic: str) -> None:
    (program,) = _BLOCK.findall(part(title))
    names: dict[str, Any] = {"server": semel_broker.bootstrap}
    exec(compile(program, str(PAGE), "exec"), names)
    with names["producer"] as producer:
        assert producer.send(semel_topic, b"stored").result(60).offset == 0
        assert producer.config["enable.idempotence"] is (title != "Switching it off")


def measured(suite: str, work: str, quantity: str) -> float:
    """A figure of Semel's that is published."""
    figures = json.loads((PAGE.parent / f"benchmarks-{suite}.json").read_text(encoding="utf-8"))["figures"]
    (found,) = [one for one in figures if (one["work"], one["quantity"]) == (work, quantity)]
    return float(found["semel"]["median"])


@pytest.mark.mission("GUIDE-02", "PERF-03")
def test_what_switching_it_off_gains_is_what_was_measured() -> None:
    text = part("Switching it off")
    both, alone = "acks=1 → acks=all and idempotence", "acks=all → with idempotence"
    gained = measured("idempotence", both, "messages/s: loss, %")
    assert f"{gained:.1f} % of the messages per second" in text
    assert f"{measured('idempotence', both, 'CPU µs per message: loss, %'):.1f} % of the CPU" in text
    assert f"idempotence alone {measured('idempotence', alone, 'messages/s: loss, %'):.1f} %" in text
    assert gained <= 5


@pytest.mark.mission("PERF-07")
def test_with_acks_all_idempotence_costs_next_to_nothing() -> None:
    """As published: within three per cent."""
    assert abs(measured("idempotence", "acks=all → with idempotence", "messages/s: loss, %")) <= 3


@pytest.mark.mission("GUIDE-11")
def test_the_table_of_both_has_what_each_costs() -> None:
    (row,) = [line for line in part("Which one?").splitlines() if line.startswith("| cost |")]
    lost = measured("idempotence", "acks=all → with idempotence", "messages/s: loss, %")
    commit_ms = measured("transactions", "1 producer, the loader, v2", "commit p50, µs") / 1000
    kept = measured("transactions", "confluent-kafka, transactions of 100 ms", "with ÷ without")
    for figure in (f"{lost:.1f} % of the messages", f"takes {commit_ms:.2f} ms", f"{kept:.2f} times"):
        assert figure in row


@pytest.mark.mission("GUIDE-04")
def test_the_tuning_that_is_told_is_the_profile_and_what_to_watch_is_measured(
    semel_broker: Broker, semel_topic: str
) -> None:
    """What each setting gains is measured by `semel bench client`: tests/bench/test_client_bench.py."""
    told: dict[str, str] = {}
    for keys, values in re.findall(r"^\| (`.+?`) \| (.+?) \|", part("Tuning"), re.MULTILINE):
        if keys != "`semel":
            told.update(zip(re.findall(r"`([\w.]+)`", keys), values.split(", "), strict=False))
    settings = {key: str(value) for key, value in profile("throughput").items()}
    assert {key: told[key] for key in settings} == settings
    practice = part("Good practice").split("2. **Tune.**")[1].split("3. **")[0]
    watched = re.findall(r"`([a-z]+-[a-z-]+)`", practice)
    assert len(watched) == 4
    with Producer({"bootstrap.servers": semel_broker.bootstrap, **profile("throughput")}) as producer:
        producer.send(semel_topic, b"stored").result(60)
        for name in watched:
            assert producer.metrics()[name] >= 0, name


def test_the_eight_questions_are_answered_and_each_names_a_test() -> None:
    questions = re.findall(r"^\d\. \*\*.+?(?=^\d\. |\Z)", part("Eight questions"), re.MULTILINE | re.DOTALL)
    assert len(questions) == 8
    assert all(_NAMED.search(one) for one in questions)
    assert all("?**" in one for one in questions)
    for missing in ("there is no test yet that all agree within a second", "is not built"):
        assert missing in part("Eight questions")


def test_what_is_asked_often_names_what_the_doctor_says() -> None:
    answers = part("Asked often")
    for word in ("OutOfOrderSequenceException", "slow", "memory", "missing"):
        assert word in answers
    assert answers.count("semel doctor") >= 4


@pytest.mark.mission("GUIDE-14", "GUIDE-18")
def test_every_test_the_page_names_is_there() -> None:
    named = _NAMED.findall(PAGE.read_text(encoding="utf-8"))
    for path, name in named:
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert name in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}, (path, name)
    for title, count in (("Why it works only so far", 2), ("Several instances of one program", 2)):
        assert len(_NAMED.findall(part(title))) == count


@pytest.mark.mission("GUIDE-13")
def test_the_eight_notions_and_the_rhyme() -> None:
    notions = re.findall(r"^\d\. .*?\*\*(.+?)\*\*", part("In eight sentences"), re.MULTILINE)
    assert len(notions) == 8
    assert "rhyme" in part("In eight sentences")


@pytest.mark.mission("GUIDE-03", "GUIDE-15")
def test_when_to_use_it_when_not_and_how_to_decide() -> None:
    for word in ("transfers", "orders", "in step", "audit"):
        assert word in part("When to use it")
    for word in ("logs", "metrics", "trading", "import"):
        assert word in part("When not to")
    assess = part("Good practice").split("2. **Tune")[0]
    for word in ("harm", "cost", "another way", "Write the choice down"):
        assert word in assess


@pytest.mark.mission("GUIDE-19")
def test_the_references() -> None:
    links = part("References")
    for one in (
        "kafka.apache.org/documentation",
        "github.com/apache/kafka",
        "item.jd.com/12270295",
        "kafka-doc-zh",
        "p=2006",
        "p=2040",
        "kafka-analysis-part-1",
        "hackernoon.com",
        "Kafka+data+structures+in+Zookeeper",
        "jingangtx",
        "smartloli",
        "ken.kim",
        "jianshu.com",
    ):
        assert one in links


def test_links_between_pages_lead_somewhere() -> None:
    for target in re.findall(r"\]\((\w[\w.-]*\.md)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).exists(), target
