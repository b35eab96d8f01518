"""Metrics for OpenTelemetry: every known value in a gauge of its name, with what it is of as attributes.

Method: a meter that writes down what it is told.
"""

from collections.abc import Mapping

from semel.client.metrics import Metrics
from semel.telemetry import OpenTelemetryReporter


class Notebook:
    """A meter, and all of its gauges."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.told: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> "Needle":
        self.made.append(name)
        return Needle(self, name)


class Needle:
    def __init__(self, notebook: Notebook, name: str) -> None:
        self._notebook = notebook
        self._name = name

    def set(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        self._notebook.told[self._name, tuple(sorted((attributes or {}).items()))] = amount


def test_known_values_become_gauges_once() -> None:
    metrics = Metrics(lambda: 0, client_id="c")
    metrics.sensor("producer-metrics").spread("request-latency")  # Nothing recorded: nobody knows it yet.
    metrics.gauge("records-lag", "consumer-fetch-manager-metrics", lambda: 4.0, topic="t")
    metrics.gauge("records-lag", "consumer-fetch-manager-metrics", lambda: 5.0, topic="u")
    notebook = Notebook()
    reporter = OpenTelemetryReporter(notebook, {"shop": "north"})
    reporter(metrics.snapshot())
    reporter(metrics.snapshot())
    name = "kafka.consumer-fetch-manager-metrics.records-lag"
    assert notebook.made == [name]
    assert notebook.told == {
        (name, (("shop", "north"), ("topic", "t"))): 4.0,
        (name, (("shop", "north"), ("topic", "u"))): 5.0,
    }
