"""docs/operations.md: every metric and alert there is stands on it, and none that is not; what it names exists.

Method: names are read from the page and compared with what a broker shows and what the rule file holds.
"""

import ast
import re
from pathlib import Path

import pytest
import yaml

from semel.broker.metrics.counts import GAPS_MAX
from semel.broker.metrics.process import process_values
from semel.cli.alerts import alert_rules
from support.broker.metrics_kit import Watched, watched
from support.broker.prometheus_kit import read_rules

TESTS = Path(__file__).parent.parent
PAGE = (TESTS.parent / "docs" / "operations.md").read_text(encoding="utf-8")


def part(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> set[str]:
    """The names in the first column of a table."""
    return {
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }


@pytest.mark.mission("GUIDE-16")
def test_the_page_has_every_metric_alert_and_what_to_do() -> None:
    async def story(client: Watched) -> None:
        await client.create("t")
        shown = {*await client.page(), *(family.name for family, _ in process_values())}
        assert first_cells(part("Metrics")) == shown

    watched(story)
    assert f"the last {GAPS_MAX} sequence gaps" in part("Metrics")
    assert first_cells(part("Alerts")) == {alert.name for alert in read_rules(alert_rules())}
    for word in (
        "semel bench idempotence",
        "producer.id.expiration.ms",
        "process_cpu_seconds_total",
        "retention",
    ):
        assert word in part("Capacity")
    for word in ("A producer was restarted", "A producer met a gap", "restarted or killed"):
        assert word in part("Recovery")


def test_the_settings_for_prometheus_are_yaml_and_name_the_job_of_the_rules() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    document = yaml.safe_load(block)
    assert [job["job_name"] for job in document["scrape_configs"]] == ["semel"]
    assert 'job="semel"' in alert_rules()


def test_tests_and_pages_that_are_named_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) >= 4
    for path, name in named:
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert name in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}, (path, name)
    for target in re.findall(r"\]\((\w[\w.-]*\.md)", PAGE):
        assert (TESTS.parent / "docs" / target).exists(), target
