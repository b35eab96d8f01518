"""Client metrics for OpenTelemetry and Prometheus, both optional.

Role.   `OpenTelemetryReporter` is one of the callables `metric.reporters` takes; `prometheus_text` formats the result
        of `metrics()` for a Prometheus scraper.
Rules.  * OpenTelemetry is not imported: the caller passes the meter.
        * A metric is a gauge named after Java's group and name, `kafka.producer-metrics.record-send-rate`; its topic
          and partition are attributes.
        * An undefined value (an average without samples) is not reported.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol

from semel.client.metrics import MetricName, prometheus_text

__all__ = ["OpenTelemetryReporter", "prometheus_text"]


class Gauge(Protocol):
    """The methods used of OpenTelemetry's synchronous gauge."""

    def set(self, amount: float, attributes: Mapping[str, str] | None = None) -> None: ...


class Meter(Protocol):
    """The methods used of OpenTelemetry's meter."""

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
