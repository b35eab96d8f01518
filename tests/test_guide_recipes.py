"""The guide's recipe for a sequence that breaks: caught, the producer replaced, everything stored once and in order, somebody told.

Method: the program on docs/guide.md is run as it stands against a broker that forgets the last batch of a producer, once, as one that
lost the end of a partition would; the topic, the alert of the program and the alert of Prometheus are looked at.
"""

import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semel import Broker, Consumer
from semel.broker.replicas.led_partition import LedPartition
from semel.cli.alerts import alert_rules
from semel.core.idempotence.producer_window import BATCH, ProducerWindow
from semel.log.partition_log import Appended, AppendResult
from support.broker.prometheus_kit import Scrape, fires, read_page, read_rules

PAGE = Path(__file__).parent.parent / "docs" / "guide.md"
VALUES = [b"%d" % number * 4000 for number in range(10, 30)]  # Several batches.
FORGOTTEN = 3
RULE = next(alert for alert in read_rules(alert_rules()) if alert.name == "SemelSequenceGap")


def recipe() -> str:
    section = PAGE.read_text(encoding="utf-8").split("### When a sequence breaks")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def forget_one(patch: pytest.MonkeyPatch, topic: str) -> list[int]:
    """After some batches of a topic its partition forgets the last one; whose it was."""
    append = LedPartition.append
    seen = 0
    whose: list[int] = []

    def forgetful(self: LedPartition, data: bytearray | memoryview, **more: Any) -> AppendResult:
        nonlocal seen
        result = append(self, data, **more)
        if self.log.topic_partition.topic == topic and isinstance(result, Appended):
            seen += 1
            if seen == FORGOTTEN:
                entry = self.log.producers.entries()[-1]  # The youngest: the one that writes.
                shorter = replace(entry, window=entry.window[: -BATCH.size])
                self.log.producers._producers[entry.producer_id] = ProducerWindow.of(shorter)
                whose.append(entry.producer_id)
        return result

    patch.setattr(LedPartition, "append", forgetful)
    return whose


def scraped(broker: Broker, seconds: float) -> Scrape:
    with urllib.request.urlopen(broker.metrics_url, timeout=60) as answer:
        return Scrape(seconds, read_page(answer.read().decode()))


@pytest.mark.mission("GUIDE-05")
def test_a_gap_is_caught_the_producer_replaced_and_somebody_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(metrics="127.0.0.1:0") as broker:
        names: dict[str, Any] = {"server": broker.bootstrap}
        exec(compile(recipe(), str(PAGE), "exec"), names)
        told: list[tuple[Any, ...]] = []
        names["deliver"]("orders", [VALUES[0]], lambda *words: told.append(words))
        before = scraped(broker, 0)  # The topic is there, and nothing is wrong yet.
        whose = forget_one(monkeypatch, "orders")
        names["deliver"]("orders", VALUES[1:], lambda *words: told.append(words))
        after = scraped(broker, 60)
        assert len(whose) == 1
        assert len(told) == 1, "a new producer has no gap"
        assert told[0][1] == "orders"
        assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(told[0][2])
        assert fires(RULE, [before, after]) == [{"topic": "orders"}]
        with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([("orders", 0)])
            consumer.seek_to_beginning()
            found: list[bytes] = []
            while len(found) < len(VALUES):
                found += [record.value for record in consumer.poll(500)]
            assert found == VALUES
            assert consumer.end_offsets([("orders", 0)]) == {("orders", 0): len(VALUES)}
