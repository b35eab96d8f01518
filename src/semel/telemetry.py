"""A client's metrics for the systems that watch it: OpenTelemetry and Prometheus. Neither is needed to use Semel.

Role.   `OpenTelemetryReporter` is one of the callables `metric.reporters` takes; `prometheus_text` turns what `metrics()` gives into
        the text a scraper reads.
Rules.  * Nothing of OpenTelemetry is imported: the caller brings the meter.
        * A metric is a gauge named after Java's group and name, `kafka.producer-metrics.record-send-rate`; what it is of (a topic,
          a partition) are its attributes.
        * A value that nobody can know yet (an average of nothing) is not reported.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol

from semel.client.metrics import MetricName, prometheus_text

__all__ = ["OpenTelemetryReporter", "prometheus_text"]


class Gauge(Protocol):
    """What is asked of a synchronous gauge of OpenTelemetry."""

    def set(self, amount: float, attributes: Mapping[str, str] | None = None) -> None: ...


class Meter(Protocol):
    """What is asked of a meter of OpenTelemetry."""

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> Gauge: ...


class OpenTelemetryReporter:
    """Sets a gauge per metric: `Producer(…, metric_reporters=[OpenTelemetryReporter(get_meter("shop"))])`."""

    def __init__(self, meter: Meter, attributes: Mapping[str, str] | None = None) -> None:
        self._meter = meter
        self._attributes = dict(attributes or {})
        self._gauges: dict[tuple[str, str], Gauge] = {}

    def __call__(self, values: Mapping[Any, Any]) -> None:
        name: MetricName
        for name, value in values.items():
            if not math.isnan(value):
                self._gauge(name).set(value, {**self._attributes, **dict(name.tags)})

    def _gauge(self, name: MetricName) -> Gauge:
        found = self._gauges.get((name.group, name.name))
        if found is None:
            found = self._meter.create_gauge(f"kafka.{name.group}.{name.name}")
            self._gauges[name.group, name.name] = found
        return found
