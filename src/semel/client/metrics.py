"""A client's metrics, under the names of Java's: rates over a window, averages, greatest values, totals.

Role.   `Metrics` is one client's registry. A `Sensor` takes a number per batch or request and feeds the statistics that
        hang on it; `snapshot` gives them all, and `prometheus` as text for a scraper.
Flow.   `client_metrics` makes the sensors of producers and consumers; their cores feed them; `report` hands snapshots to the
        callables of `metric.reporters`.
Rules.  * Windows are Java's: `metrics.num.samples` of `metrics.sample.window.ms` each and the running one. A rate is taken over at
          least all windows but one, so that a client that just began does not show a burst.
        * Nothing is measured per record: sensors are fed with counts.
        * Time comes in as a function, so that a simulation measures its own.
"""

import html
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from semel.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

_MS_PER_SECOND: Final = 1000.0
_MS_PER_HOUR: Final = 3_600_000.0


class MetricName(NamedTuple):
    """The name of a metric: `MetricName("record-send-rate", "producer-metrics")`."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()
    """The subject of the metric, if not the whole client: `(("topic", "orders"),)`."""


class _Stat(Protocol):
    def record(self, value: float, now_ms: int) -> None: ...
    def measure(self, now_ms: int) -> float: ...


class _Sample:
    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, start_ms: int, value: float) -> None:
        self.reset(start_ms, value)

    def reset(self, start_ms: int, value: float) -> None:
        self.start_ms = self.last_ms = start_ms
        self.count = 0
        self.value = value


class _Window:
    """The samples of a statistic: so many whole windows, and the running one."""

    __slots__ = ("_current", "_initial", "_samples_max", "_window_ms", "samples")

    def __init__(self, samples: int, window_ms: int, *, initial: float) -> None:
        self._samples_max = samples
        self._window_ms = window_ms
        self._initial = initial
        self._current = 0
        self.samples: list[_Sample] = []

    def running(self, now_ms: int) -> _Sample:
        """The sample an event of this moment belongs to."""
        if not self.samples:
            self.samples.append(_Sample(now_ms, self._initial))
        sample = self.samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            self._current = (self._current + 1) % (self._samples_max + 1)
            if self._current == len(self.samples):
                self.samples.append(_Sample(now_ms, self._initial))
            sample = self.samples[self._current]
            sample.reset(now_ms, self._initial)
        sample.count += 1
        sample.last_ms = now_ms
        return sample

    def purge(self, now_ms: int) -> None:
        """Empty what is too old to count."""
        for sample in self.samples:
            if now_ms - sample.last_ms >= self._samples_max * self._window_ms:
                sample.reset(now_ms, self._initial)

    def elapsed_ms(self, now_ms: int) -> int:
        """The time the samples stand for; a client that just began is given all windows but one."""
        start_ms = min((sample.start_ms for sample in self.samples), default=now_ms)
        elapsed_ms = now_ms - start_ms
        missing = self._samples_max - 1 - elapsed_ms // self._window_ms if self._window_ms else 0
        return elapsed_ms + max(missing, 0) * self._window_ms or self._window_ms or 1


class Rate:
    """Events, or what they add up to, per second."""

    __slots__ = ("_unit_ms", "_window")

    def __init__(self, samples: int, window_ms: int, *, unit_ms: float = _MS_PER_SECOND) -> None:
        self._window = _Window(samples, window_ms, initial=0.0)
        self._unit_ms = unit_ms

    def record(self, value: float, now_ms: int) -> None:
        self._window.running(now_ms).value += value

    def measure(self, now_ms: int) -> float:
        self._window.purge(now_ms)
        total = sum(sample.value for sample in self._window.samples)
        return total * self._unit_ms / self._window.elapsed_ms(now_ms) if total else 0.0


class Avg:
    """The mean of what was recorded; NaN before anything was."""

    __slots__ = ("_window",)

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window = _Window(samples, window_ms, initial=0.0)

    def record(self, value: float, now_ms: int) -> None:
        self._window.running(now_ms).value += value

    def measure(self, now_ms: int) -> float:
        self._window.purge(now_ms)
        count = sum(sample.count for sample in self._window.samples)
        return sum(sample.value for sample in self._window.samples) / count if count else math.nan


class Max:
    """The greatest of what was recorded; NaN before anything was."""

    __slots__ = ("_window",)

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window = _Window(samples, window_ms, initial=-math.inf)

    def record(self, value: float, now_ms: int) -> None:
        sample = self._window.running(now_ms)
        sample.value = max(sample.value, value)

    def measure(self, now_ms: int) -> float:
        self._window.purge(now_ms)
        found = [sample.value for sample in self._window.samples if sample.count]
        return max(found, default=math.nan)


class Min:
    """The least of what was recorded; NaN before anything was."""

    __slots__ = ("_max",)

    def __init__(self, samples: int, window_ms: int) -> None:
        self._max = Max(samples, window_ms)

    def record(self, value: float, now_ms: int) -> None:
        self._max.record(-value, now_ms)

    def measure(self, now_ms: int) -> float:
        return -self._max.measure(now_ms)


class Total:
    """Everything ever recorded, added up."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total = 0.0

    def record(self, value: float, _now_ms: int) -> None:
        self._total += value

    def measure(self, _now_ms: int) -> float:
        return self._total


class _Count:
    """Feeds a statistic with 1 for every event, whatever its value."""

    __slots__ = ("_stat",)

    def __init__(self, stat: _Stat) -> None:
        self._stat = stat

    def record(self, _value: float, now_ms: int) -> None:
        self._stat.record(1.0, now_ms)

    def measure(self, now_ms: int) -> float:
        return self._stat.measure(now_ms)


class Sensor:
    """A place where something is measured, and the statistics made of it."""

    __slots__ = ("_registry", "_stats", "_tags", "group")

    def __init__(self, registry: "Metrics", group: str, tags: tuple[tuple[str, str], ...]) -> None:
        self._registry = registry
        self.group = group
        self._tags = tags
        self._stats: list[_Stat] = []

    def record(self, value: float = 1.0) -> None:
        """Something happened: this much of it, now."""
        now_ms = self._registry.now_ms()
        for stat in self._stats:
            stat.record(value, now_ms)

    def meter(self, name: str, *, of_events: bool = False, per_hour: bool = False) -> "Sensor":
        """`<name>-rate` and `<name>-total`: of the values, or of the events whatever their values."""
        rate = Rate(*self._registry.window, unit_ms=_MS_PER_HOUR if per_hour else _MS_PER_SECOND)
        total = Total()
        self._add(f"{name}-rate{'-per-hour' if per_hour else ''}", _Count(rate) if of_events else rate)
        self._add(f"{name}-total", _Count(total) if of_events else total)
        return self

    def spread(self, name: str) -> "Sensor":
        """`<name>-avg` and `<name>-max`."""
        self._add(f"{name}-avg", Avg(*self._registry.window))
        self._add(f"{name}-max", Max(*self._registry.window))
        return self

    def average(self, name: str) -> "Sensor":
        """The mean, under exactly this name."""
        self._add(name, Avg(*self._registry.window))
        return self

    def greatest(self, name: str) -> "Sensor":
        """The greatest, under exactly this name."""
        self._add(name, Max(*self._registry.window))
        return self

    def least(self, name: str) -> "Sensor":
        """The least, under exactly this name."""
        self._add(name, Min(*self._registry.window))
        return self

    def total(self, name: str) -> "Sensor":
        """The sum of everything, under exactly this name."""
        self._add(name, Total())
        return self

    def _add(self, name: str, stat: _Stat) -> None:
        self._stats.append(stat)
        self._registry.register(MetricName(name, self.group, self._tags), stat.measure)


class Metrics:
    """A client's registry."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        client_id: str,
        samples: int = 2,
        window_ms: int = 30_000,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.now_ms = now_ms
        self.client_id = client_id
        self.window: Final = (samples, window_ms)
        self._config = config or {}
        self._measures: dict[MetricName, Callable[[int], float]] = {}

    def sensor(self, group: str, **tags: str) -> Sensor:
        """A new sensor, of the client or of the thing named by the tags."""
        return Sensor(self, group, tuple(sorted(tags.items())))

    def gauge(self, name: str, group: str, value: Callable[[], float], **tags: str) -> None:
        """A metric that is asked for its value."""
        self.register(MetricName(name, group, tuple(sorted(tags.items()))), lambda _now_ms: value())

    def register(self, name: MetricName, measure: Callable[[int], float]) -> None:
        self._measures[name] = measure

    def forget(self, **tags: str) -> None:
        """Drop what was measured of this thing: a topic or partition nobody reads any more."""
        gone = set(tags.items())
        for name in [one for one in self._measures if gone <= set(one.tags)]:
            del self._measures[name]

    def snapshot(self) -> "MetricValues":
        """Every metric's value at this moment."""
        now_ms = self.now_ms()
        return MetricValues(
            {name: measure(now_ms) for name, measure in list(self._measures.items())}, self._config
        )

    def prometheus(self) -> str:
        """The metrics in Prometheus' text format."""
        return prometheus_text(self.snapshot(), client_id=self.client_id)


class MetricValues(Mapping[Any, Any]):
    """Metrics by `MetricName`; also by plain name, for those of the whole client, and the client's settings by their keys."""

    def __init__(self, values: Mapping[MetricName, float], config: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._config = config
        self._plain = {one.name: one for one in reversed(self._values) if not one.tags}

    def __getitem__(self, key: object) -> Any:
        if isinstance(key, str):
            return self._values[self._plain[key]] if key in self._plain else self._config[key]
        if isinstance(key, tuple) and len(key) in (2, 3):
            return self._values[MetricName(*key)]
        raise KeyError(key)

    def __iter__(self) -> Iterator[MetricName]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"MetricValues({self._values!r})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name.group)}</td><td>{html.escape(name.name)}</td>"
            f"<td>{html.escape(', '.join(f'{key}={value}' for key, value in name.tags))}</td><td>{_number(value)}</td></tr>"
            for name, value in sorted(self._values.items())
        )
        return f"<table><tr><th>group</th><th>metric</th><th>of</th><th>value</th></tr>{rows}</table>"


def prometheus_text(values: Mapping[Any, Any], *, client_id: str) -> str:
    """A client's metrics in Prometheus' text format, named as its JMX exporter names Java's."""
    lines: dict[str, list[str]] = {}
    for (name, group, tags), value in values.items():
        full = f"kafka_{group.partition('-')[0]}_{group}_{name}".replace("-", "_")
        labels = (("client_id", client_id), *((key.replace("-", "_"), one) for key, one in tags))
        shown = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels)
        lines.setdefault(full, []).append(f"{full}{{{shown}}} {_number(value)}")
    return "".join(
        f"# TYPE {full} {'counter' if full.endswith('_total') else 'gauge'}\n" + "\n".join(rows) + "\n"
        for full, rows in sorted(lines.items())
    )


async def report(
    metrics: Metrics,
    reporters: Iterable[Callable[[Mapping[Any, float]], object]],
    tasks: Tasks,
    *,
    interval_ms: int,
) -> None:
    """Hand a snapshot to every reporter now and then, for ever. A listener that raises is named in the log and asked again."""
    while True:
        await tasks.sleep(interval_ms / 1000)
        for reporter in reporters:
            try:
                reporter(metrics.snapshot())
            except Exception:  # A user's code: the client goes on without it.
                logger.exception("metric reporter %r of %s failed", reporter, metrics.client_id)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
