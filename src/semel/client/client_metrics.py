"""The metrics of producers and consumers: which sensors there are, and one call per thing that happens.

Role.   `ProducerMetrics` and `ConsumerMetrics` name Java's metrics and group them as Java does; a core calls one method per
        batch, request or poll.
Rules.  * Names and groups are Java's (a test lists them); metrics without meaning here (JMX, selectors, authentication) are left out.
        * Per topic there are rates and totals too, under `producer-topic-metrics` and `consumer-fetch-manager-metrics`.
        * An answer with DUPLICATE_SEQUENCE_NUMBER counts as an error here, although the record is safe: it shows that
          something was sent twice.
"""

from collections.abc import Callable
from typing import Final

from semel.client.metrics import Metrics, MetricValues, Sensor
from semel.client.settings import ConsumerConfig, ProducerConfig, Settings
from semel.types import TopicPartition

_PRODUCER: Final = "producer-metrics"
_PRODUCER_TOPIC: Final = "producer-topic-metrics"
_CONSUMER: Final = "consumer-metrics"
_FETCH: Final = "consumer-fetch-manager-metrics"
_COORDINATOR: Final = "consumer-coordinator-metrics"
_ADMIN: Final = "admin-client-metrics"
_NS_PER_MS: Final = 1_000_000


def _registry(settings: Settings, now_ms: Callable[[], int]) -> Metrics:
    return Metrics(
        now_ms,
        client_id=settings.client_id,
        samples=settings.metrics_num_samples,
        window_ms=settings.metrics_sample_window_ms,
        config=settings.effective(),
    )


class RequestMetrics:
    """Metrics of every client's requests."""

    def __init__(self, registry: Metrics, group: str) -> None:
        self.registry = registry
        self._requests = registry.sensor(group).meter("request")
        self._responses = registry.sensor(group).meter("response")
        self._connections = registry.sensor(group).meter("connection-creation")
        self._group = group
        self._open = 0
        self.watch_connections(lambda: self._open)

    def watch_connections(self, connections: Callable[[], float]) -> None:
        """Where the number of open connections is, if nobody tells of each."""
        self.registry.gauge("connection-count", self._group, connections)

    def requested(self) -> None:
        """A request went out."""
        self._requests.record()

    def answered(self) -> None:
        """An answer came."""
        self._responses.record()

    def connected(self) -> None:
        """A connection was made."""
        self._open += 1
        self._connections.record()

    def disconnected(self) -> None:
        """A connection ended."""
        self._open -= 1

    def snapshot(self) -> MetricValues:
        return self.registry.snapshot()


class _TopicSensors:
    """A producer's sensors of one topic."""

    __slots__ = ("bytes", "errors", "retries", "sent")

    def __init__(self, registry: Metrics, topic: str) -> None:
        self.sent = registry.sensor(_PRODUCER_TOPIC, topic=topic).meter("record-send")
        self.bytes = registry.sensor(_PRODUCER_TOPIC, topic=topic).meter("byte")
        self.errors = registry.sensor(_PRODUCER_TOPIC, topic=topic).meter("record-error")
        self.retries = registry.sensor(_PRODUCER_TOPIC, topic=topic).meter("record-retry")


class ProducerMetrics(RequestMetrics):
    """Metrics of a producer."""

    def __init__(self, settings: ProducerConfig, now_ms: Callable[[], int]) -> None:
        super().__init__(_registry(settings, now_ms), _PRODUCER)
        sensor = self.registry.sensor
        self._sent = sensor(_PRODUCER).meter("record-send")
        self._errors = sensor(_PRODUCER).meter("record-error")
        self._retries = sensor(_PRODUCER).meter("record-retry")
        self._batch_size = sensor(_PRODUCER).spread("batch-size")
        self._record_size = sensor(_PRODUCER).greatest("record-size-max")
        self._record_size_avg = sensor(_PRODUCER).average("record-size-avg")
        self._compression = sensor(_PRODUCER).average("compression-rate-avg")
        self._queue_time = sensor(_PRODUCER).spread("record-queue-time")
        self._per_request = sensor(_PRODUCER).average("records-per-request-avg")
        self._latency = sensor(_PRODUCER).spread("request-latency")
        self._throttle = sensor(_PRODUCER).spread("produce-throttle-time")
        self._splits = sensor(_PRODUCER).meter("batch-split")
        self._exhausted = sensor(_PRODUCER).meter("buffer-exhausted")
        self._waited = sensor(_PRODUCER).total("bufferpool-wait-time-ns-total")
        self._times: dict[str, Sensor] = {
            name: sensor(_PRODUCER).total(f"{name}-time-ns-total")
            for name in (
                "flush",
                "metadata-wait",
                "txn-init",
                "txn-begin",
                "txn-send-offsets",
                "txn-commit",
                "txn-abort",
                "txn-prepare",
            )
        }
        self._topics: dict[str, _TopicSensors] = {}

    def watch(
        self,
        *,
        buffer_total_bytes: Callable[[], float],
        buffer_available_bytes: Callable[[], float],
        waiting_threads: Callable[[], float],
        requests_in_flight: Callable[[], float],
        metadata_age_s: Callable[[], float],
    ) -> None:
        """Where the values are that are asked for when somebody looks."""
        gauge = self.registry.gauge
        gauge("buffer-total-bytes", _PRODUCER, buffer_total_bytes)
        gauge("buffer-available-bytes", _PRODUCER, buffer_available_bytes)
        gauge("waiting-threads", _PRODUCER, waiting_threads)
        gauge("requests-in-flight", _PRODUCER, requests_in_flight)
        gauge("metadata-age", _PRODUCER, metadata_age_s)

    def batch_sent(
        self,
        topic: str,
        *,
        records: int,
        size_bytes: int,
        uncompressed_bytes: int,
        queued_ms: float,
        record_max_bytes: int,
    ) -> None:
        """A batch left for its broker, for the first time or again."""
        self._sent.record(records)
        self._batch_size.record(size_bytes)
        self._record_size.record(record_max_bytes)
        self._record_size_avg.record(uncompressed_bytes / max(records, 1))
        self._compression.record(size_bytes / max(uncompressed_bytes, 1))
        self._queue_time.record(queued_ms)
        of = self._of(topic)
        of.sent.record(records)
        of.bytes.record(size_bytes)

    def request_sent(self, *, records: int) -> None:
        """A produce request left, with so many records."""
        self._per_request.record(records)

    def produce_answered(self, *, latency_ms: float, throttle_ms: float = 0.0) -> None:
        """The answer to a produce request came."""
        self._latency.record(latency_ms)
        self._throttle.record(throttle_ms)

    def failed(self, topic: str, *, records: int) -> None:
        """Records failed for good, or were answered as duplicates."""
        self._errors.record(records)
        self._of(topic).errors.record(records)

    def retried(self, topic: str, *, records: int) -> None:
        """Records are sent again."""
        self._retries.record(records)
        self._of(topic).retries.record(records)

    def split(self) -> None:
        """A batch was too large and went in parts."""
        self._splits.record()

    def exhausted(self, *, records: int = 1) -> None:
        """`buffer.memory` stayed full for `max.block.ms`."""
        self._exhausted.record(records)

    def waited_for_memory(self, waited_ms: float) -> None:
        """A `send` waited for room."""
        self._waited.record(waited_ms * _NS_PER_MS)

    def took(self, what: str, elapsed_ms: float) -> None:
        """A call took so long: flush, metadata-wait, txn-init, txn-begin, txn-send-offsets, txn-commit, txn-abort, txn-prepare."""
        self._times[what].record(elapsed_ms * _NS_PER_MS)

    def _of(self, topic: str) -> _TopicSensors:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _TopicSensors(self.registry, topic)
        return found


class ConsumerMetrics(RequestMetrics):
    """Metrics of a consumer."""

    def __init__(self, settings: ConsumerConfig, now_ms: Callable[[], int]) -> None:
        super().__init__(_registry(settings, now_ms), _CONSUMER)
        sensor = self.registry.sensor
        self._bytes = sensor(_FETCH).meter("bytes-consumed").spread("fetch-size")
        self._records = sensor(_FETCH).meter("records-consumed").average("records-per-request-avg")
        self._fetches = sensor(_FETCH).meter("fetch", of_events=True).spread("fetch-latency")
        self._throttle = sensor(_FETCH).spread("fetch-throttle-time")
        self._lag = sensor(_FETCH).greatest("records-lag-max")
        self._lead = sensor(_FETCH).least("records-lead-min")
        self._commits = sensor(_COORDINATOR).meter("commit", of_events=True).spread("commit-latency")
        self._heartbeats = sensor(_COORDINATOR).meter("heartbeat", of_events=True)
        self._heartbeat_time = sensor(_COORDINATOR).greatest("heartbeat-response-time-max")
        self._joins = sensor(_COORDINATOR).meter("join", of_events=True).spread("join-time")
        self._syncs = sensor(_COORDINATOR).meter("sync", of_events=True).spread("sync-time")
        self._rebalances = sensor(_COORDINATOR).meter("rebalance", of_events=True, per_hour=True)
        self._rebalance_time = (
            sensor(_COORDINATOR).spread("rebalance-latency").total("rebalance-latency-total")
        )
        self._failed_rebalances = sensor(_COORDINATOR).meter("failed-rebalance", per_hour=True)
        self._callbacks = {
            name: sensor(_COORDINATOR).spread(f"partition-{name}-latency")
            for name in ("assigned", "revoked", "lost")
        }
        self._between_polls = sensor(_CONSUMER).spread("time-between-poll")
        self._idle = sensor(_CONSUMER).average("poll-idle-ratio-avg")
        self._times = {
            name: sensor(_CONSUMER).total(f"{name}-time-ns-total") for name in ("commit-sync", "committed")
        }
        self._polled_ms: float | None = None
        self._beat_ms: float | None = None
        self._assigned = 0
        self._lags: dict[TopicPartition, float] = {}
        gauge = self.registry.gauge
        gauge("last-poll-seconds-ago", _CONSUMER, lambda: self._seconds_since(self._polled_ms))
        gauge("last-heartbeat-seconds-ago", _COORDINATOR, lambda: self._seconds_since(self._beat_ms))
        gauge("assigned-partitions", _COORDINATOR, lambda: self._assigned)

    def fetched(self, *, latency_ms: float, size_bytes: int, records: int, throttle_ms: float = 0.0) -> None:
        """The answer to a fetch was taken in, and handed out."""
        self.answered_fetch(latency_ms=latency_ms, size_bytes=size_bytes, throttle_ms=throttle_ms)
        self.consumed(records)

    def answered_fetch(self, *, latency_ms: float, size_bytes: int, throttle_ms: float = 0.0) -> None:
        """The answer to a fetch was taken in; `consumed` follows when its records are handed out."""
        self._fetches.record(latency_ms)
        self._throttle.record(throttle_ms)
        self._bytes.record(size_bytes)

    def consumed(self, records: int) -> None:
        """Records were handed out."""
        self._records.record(records)

    def position(self, partition: TopicPartition, *, lag: int, lead: int) -> None:
        """How far behind the end, and ahead of the start, the consumer is in a partition; once per fetched batch of it."""
        self._lag.record(lag)
        self._lead.record(lead)
        if partition not in self._lags:
            tags = {"topic": partition.topic, "partition": str(partition.partition)}
            self.registry.gauge("records-lag", _FETCH, lambda: self._lags.get(partition, 0.0), **tags)
        self._lags[partition] = lag

    def assigned(self, partitions: int) -> None:
        """How many partitions the consumer has now."""
        self._assigned = partitions

    def released(self, partition: TopicPartition) -> None:
        """A partition the consumer does not read any more."""
        if self._lags.pop(partition, None) is not None:
            self.registry.forget(topic=partition.topic, partition=str(partition.partition))

    def committed(self, latency_ms: float) -> None:
        """Offsets were stored."""
        self._commits.record(latency_ms)

    def beat(self, latency_ms: float) -> None:
        """A heartbeat was answered."""
        self._beat_ms = self.registry.now_ms()
        self._heartbeats.record()
        self._heartbeat_time.record(latency_ms)

    def joined(self, latency_ms: float) -> None:
        self._joins.record(latency_ms)

    def synced(self, latency_ms: float) -> None:
        self._syncs.record(latency_ms)

    def rebalanced(self, latency_ms: float) -> None:
        """The group was reassigned, this member included."""
        self._rebalances.record()
        self._rebalance_time.record(latency_ms)

    def rebalance_failed(self) -> None:
        self._failed_rebalances.record()

    def called_back(self, what: str, elapsed_ms: float) -> None:
        """A listener ran: assigned, revoked or lost."""
        self._callbacks[what].record(elapsed_ms)

    def polled(self, *, idle_ms: float) -> None:
        """`poll` returned; so much of it was waiting."""
        now_ms = self.registry.now_ms()
        if self._polled_ms is not None:
            between_ms = now_ms - self._polled_ms
            self._between_polls.record(between_ms)
            if between_ms > 0:
                self._idle.record(min(idle_ms / between_ms, 1.0))
        self._polled_ms = now_ms

    def took(self, what: str, elapsed_ms: float) -> None:
        """A call took so long: commit-sync or committed."""
        self._times[what].record(elapsed_ms * _NS_PER_MS)

    def _seconds_since(self, moment_ms: float | None) -> float:
        return -1.0 if moment_ms is None else (self.registry.now_ms() - moment_ms) / 1000


class AdminMetrics(RequestMetrics):
    """Metrics of an admin client."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        super().__init__(_registry(settings, now_ms), _ADMIN)
