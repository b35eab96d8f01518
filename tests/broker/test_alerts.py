"""The alerts that are shipped: well formed, about metrics that exist, and firing when, and only when, they should.

Method: a real broker in a simulation is scraped before and after a client skips a sequence, repeats batches, or is fenced; the
rules are evaluated over what was scraped. Pages for what cannot be done to a broker here are changed by hand.
"""

import pytest
from click.testing import CliRunner

from semel.cli.alerts import alert_rules
from semel.cli.main import cli
from semel.errors import ErrorCode
from support.broker.metrics_kit import Watched, watched
from support.broker.prometheus_kit import Alert, Page, Scrape, fires, metrics_of, read_rules

RULES = {alert.name: alert for alert in read_rules(alert_rules())}


def alarmed(scrapes: list[Scrape]) -> dict[str, list[dict[str, str]]]:
    """Which alerts fire, and for what."""
    found = {name: fires(alert, scrapes) for name, alert in RULES.items()}
    return {name: labels for name, labels in found.items() if labels}


def test_the_command_prints_the_rules_that_are_in_the_package() -> None:
    done = CliRunner().invoke(cli, ["alerts"])
    assert (done.exit_code, done.output) == (0, alert_rules())
    assert "SemelSequenceGap" in RULES


@pytest.mark.mission("MET-07")
def test_an_injected_gap_fires_and_duplicates_alone_never_do() -> None:
    async def story(client: Watched) -> None:
        async def minute() -> Scrape:
            await client.runtime.tasks.sleep(60)
            return await client.scrape()

        await client.create("orders", "quiet")
        for sequence in range(3):
            await client.send("orders", sequence=sequence)
        scrapes = [await client.scrape()]
        for _ in range(50):
            assert await client.send("orders", sequence=2) is ErrorCode.NONE
        scrapes.append(await minute())
        before, after = (one.page["semel_sequence_duplicates_total"] for one in scrapes)
        assert after[frozenset({("topic", "orders")})] - before[frozenset({("topic", "orders")})] == 50
        assert alarmed(scrapes) == {}, "duplicates are visible and alarm nobody"
        assert await client.send("orders", sequence=9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        scrapes.append(await minute())
        assert alarmed(scrapes) == {"SemelSequenceGap": [{"topic": "orders"}]}
        scrapes += [await minute() for _ in range(6)]
        assert alarmed(scrapes) == {}, "five minutes later it is over"

    watched(story)


def test_a_fenced_producer_is_a_warning_of_its_own() -> None:
    async def story(client: Watched) -> None:
        await client.create("orders")
        await client.send("orders", sequence=0, epoch=1)
        scrapes = [await client.scrape()]
        assert await client.send("orders", sequence=1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
        await client.runtime.tasks.sleep(15)
        scrapes.append(await client.scrape())
        assert alarmed(scrapes) == {"SemelProducerFenced": [{"topic": "orders"}]}

    watched(story)


def test_every_rule_is_about_metrics_that_a_broker_shows() -> None:
    async def story(client: Watched) -> None:
        await client.create("t")
        page = await client.page()
        for alert in RULES.values():
            assert metrics_of(alert.expr) <= {"up", *page}, alert

    watched(story)


@pytest.mark.parametrize(
    ("name", "metric", "labels", "sound", "bad"),
    [
        ("SemelBrokerDown", "up", {"job": "semel", "instance": "a"}, 1, 0),
        ("SemelPartitionOffline", "kafka_server_replicamanager_offlinereplicacount", {}, 0, 2),
        (
            "SemelDiskRefuses",
            "kafka_network_requestmetrics_errorspersec",
            {"request": "Produce", "error": "KAFKA_STORAGE_ERROR"},
            0,
            1,
        ),
        ("SemelDiskNearlyFull", "semel_log_directory_usable_bytes", {"directory": "/data"}, 50, 4),
        (
            "SemelTransactionHangs",
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            {},
            0,
            1,
        ),
    ],
)
def test_each_rule_fires_on_what_it_is_for(
    name: str, metric: str, labels: dict[str, str], sound: float, bad: float
) -> None:
    def scrapes(*values: float) -> list[Scrape]:
        def page(value: float) -> Page:
            whole = {"semel_log_directory_bytes": {frozenset({("directory", "/data")}): 100.0}}
            return {**whole, metric: {frozenset(labels.items()): value}}

        return [Scrape(60.0 * minute, page(value)) for minute, value in enumerate(values)]

    long = RULES[name].for_seconds // 60 + 1
    assert fires(RULES[name], scrapes(sound, sound, *[bad] * long)) == [labels]
    assert fires(RULES[name], scrapes(*[sound] * 9)) == []
    if RULES[name].for_seconds:
        assert fires(RULES[name], scrapes(*[sound] * 9, bad)) == [], "a moment is not enough"


def test_an_expression_the_reader_does_not_know_does_not_pass() -> None:
    with pytest.raises(AssertionError, match="does not know"):
        fires(Alert("X", "sum(up) > 0", 0), [Scrape(0, {})])
