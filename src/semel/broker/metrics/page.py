"""The page a scraper gets: what the broker has counted, under Kafka's names as Prometheus spells them.

Role.   `MetricsPage.text` is the answer to GET /metrics.
Flow.   `listener` asks for it; it reads counters where they are kept and holds none of its own.
Rules.  * A name that begins with `kafka_` is Kafka's MBean in small letters (`kafka.network:type=RequestMetrics,name=ErrorsPerSec`)
          and means what it means there. A meter is its count: rates are Prometheus' to compute. Metrics that Kafka lacks
          begin with `semel_`.
        * `server-metrics: produce-request-rate` is the name tutorials print; it is RequestsPerSec of Produce, per second.
        * The broker goes on while a page is written: after every `LINES_AT_ONCE` lines others have their turn.
        * Metrics of alerts are there from the start, as 0: Prometheus sees no increase from nothing.
        * A topic that is deleted takes its counters with it, as in Kafka.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from semel._version import __version__
from semel.broker.metrics import controlling, replication
from semel.broker.metrics.counts import RequestRate
from semel.broker.metrics.text import Family, Labels, family_lines, gap_lines
from semel.broker.parts import Parts
from semel.broker.replicas.replica import Replica
from semel.net.listener import Listener

LINES_AT_ONCE: Final = 200
_ALWAYS_SHOWN: Final = (
    "NONE",
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
)
_LISTENER: Final[Labels] = (("listener", "PLAINTEXT"), ("networkProcessor", "0"))
_NO_LABELS: Final[Labels] = ()

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_TOPIC_FAMILIES: Final = (
    Family(_TOPICS + "messagesinpersec", "counter", "Records stored."),
    Family(_TOPICS + "bytesinpersec", "counter", "Bytes of batches stored."),
    Family(_TOPICS + "bytesoutpersec", "counter", "Bytes of batches sent to readers."),
    Family(
        _TOPICS + "totalproducerequestspersec", "counter", "Batches that came: stored, dropped or refused."
    ),
    Family(_TOPICS + "failedproducerequestspersec", "counter", "Batches that were refused."),
    Family("semel_batches_stored_total", "counter", "Batches stored."),
    Family(
        "semel_batches_without_acks_all_total",
        "counter",
        "Batches whose producers did not wait for acks=all: an acknowledged record of them may be lost.",
    ),
    Family(
        "semel_sequence_duplicates_total",
        "counter",
        "Batches that were stored already and dropped: harmless, it is what idempotence is for.",
    ),
    Family(
        "semel_sequence_out_of_order_total",
        "counter",
        "Batches refused because the one before them is missing: see the GAP comments for whose.",
    ),
    Family("semel_sequence_fenced_total", "counter", "Batches of a producer that was replaced by another."),
    Family("semel_producer_ids_expired_total", "counter", "Idle producers that were forgotten."),
    Family(
        "semel_open_transactions", "gauge", "Open transactions; one counts in every partition it wrote to."
    ),
)
_PARTITION_FAMILIES: Final = (
    Family("kafka_log_log_size", "gauge", "Bytes of the log."),
    Family("kafka_log_log_numlogsegments", "gauge", "Segments of the log."),
    Family("kafka_log_log_logstartoffset", "gauge", "The first offset."),
    Family("kafka_log_log_logendoffset", "gauge", "The next offset."),
    Family(
        "kafka_cluster_partition_laststableoffsetlag",
        "gauge",
        "Offsets that readers of committed records do not see yet, because of open transactions.",
    ),
)


class DiskSpace(NamedTuple):
    """Of the volume that holds the logs."""

    total_bytes: int
    usable_bytes: int


class MetricsPage:
    """The metrics of one broker."""

    def __init__(
        self,
        parts: Parts,
        listener: Listener,
        rate: RequestRate,
        of_process: Callable[[], Iterable[tuple[Family, float]]] | None = None,
    ) -> None:
        self._parts = parts
        self._runtime = parts.administration.runtime
        self._listener = listener
        self._rate = rate
        self._of_process = of_process

    async def text(self) -> bytes:
        """The page of this moment, or of the few it takes to write it."""
        space = await self._space()
        lines: list[str] = []
        for line in self._lines(space):
            lines.append(line)
            if len(lines) % LINES_AT_ONCE == 0:
                await self._runtime.tasks.sleep(0)
        return "".join(lines).encode()

    async def _space(self) -> DiskSpace | None:
        """On a thread: a disk that hangs must not hold up the broker. None if it cannot be asked."""
        files, path = self._runtime.files, self._parts.config.data_dir
        try:
            return await self._runtime.tasks.in_thread(
                lambda: DiskSpace(files.total_bytes(path), files.free_bytes(path))
            )
        except OSError:
            return None

    def _lines(self, space: DiskSpace | None) -> Iterator[str]:
        yield from self._requests()
        yield from self._connections()
        yield from self._topics()
        yield from self._partitions()
        if self._parts.membership is not None:
            yield from replication.lines(self._parts.membership, self._parts.partitions)
            if self._parts.membership.controller is not None:
                yield from controlling.lines(self._parts.membership.controller)
        yield from self._log_directory(space)
        yield from self._process()
        yield from gap_lines(list(self._parts.metrics.gaps))

    def _requests(self) -> Iterator[str]:
        metrics = self._parts.metrics
        counted: dict[tuple[str, int], int] = {}
        for route in metrics.routes:
            counted[route.name, route.version] = counted.get((route.name, route.version), 0) + route.requests
        yield from family_lines(
            Family("kafka_network_requestmetrics_requestspersec", "counter", "Requests."),
            (
                ((("request", name), ("version", str(version))), count)
                for (name, version), count in sorted(counted.items())
            ),
        )
        errors = metrics.errors
        for name in _ALWAYS_SHOWN:
            errors.setdefault(("Produce", name), 0)
        yield from family_lines(
            Family(
                "kafka_network_requestmetrics_errorspersec",
                "counter",
                "Error codes of answers, NONE included; a dropped duplicate is answered with NONE and counted as both.",
            ),
            (
                ((("request", request), ("error", error)), count)
                for (request, error), count in sorted(errors.items())
            ),
        )
        yield from _one(
            Family(
                "kafka_server_server_metrics_produce_request_rate",
                "gauge",
                "Produce requests per second, over the last half minute.",
            ),
            self._rate.per_second(),
        )

    def _connections(self) -> Iterator[str]:
        counters, here = self._listener.counters, len(self._listener.connections)
        group = "kafka_server_socket_server_metrics_"
        for family, value in (
            (Family(group + "connection_count", "gauge", "Open connections."), here),
            (Family(group + "connection_creation_total", "counter", "Connections made."), counters.accepted),
            (
                Family(group + "connection_close_total", "counter", "Connections ended."),
                counters.accepted - here,
            ),
            (
                Family(group + "expired_connections_killed_count", "counter", "Connections closed as idle."),
                counters.idle_closed,
            ),
            (
                Family(
                    "semel_connections_turned_away_total",
                    "counter",
                    "Connections beyond max.connections or max.connections.per.ip.",
                ),
                counters.turned_away,
            ),
        ):
            yield from family_lines(family, [(_LISTENER, value)])

    def _topics(self) -> Iterator[str]:
        rows: list[tuple[Labels, tuple[int, ...]]] = []
        for name in self._parts.partitions.topics:
            sums = [0] * len(_TOPIC_FAMILIES)
            for replica in self._parts.partitions.places(name):
                if replica is None:
                    continue
                for place, value in enumerate(_of_replica(replica)):
                    sums[place] += value
                yield ""  # A topic may have thousands: others have their turn in between.
            rows.append(((("topic", name),), tuple(sums)))
        for place, family in enumerate(_TOPIC_FAMILIES):
            yield from family_lines(family, ((labels, values[place]) for labels, values in rows))

    def _partitions(self) -> Iterator[str]:
        parts = self._parts
        now_ms = self._runtime.clock.now_ms()
        timeout_max_ms = parts.transactions.settings.timeout_max_ms
        rows: list[tuple[Labels, tuple[int, ...]]] = []
        producer_ids = late = leaders = 0
        for partition in parts.partitions:
            log = partition.log
            topic, index = log.topic_partition
            lag = log.high_watermark - log.last_stable_offset
            sizes = (log.size_bytes, len(log.segments), log.log_start_offset, log.log_end_offset, lag)
            rows.append(((("topic", topic), ("partition", str(index))), sizes))
            producer_ids += len(log.producers)
            leaders += partition.leader is not None
            late += log.producers.has_late_transaction(now_ms, transaction_timeout_max_ms=timeout_max_ms)
            yield ""
        for place, family in enumerate(_PARTITION_FAMILIES):
            yield from family_lines(family, ((labels, values[place]) for labels, values in rows))
        manager, offline = "kafka_server_replicamanager_", len(parts.partitions.offline)
        for family, value in (
            (Family(manager + "partitioncount", "gauge", "Partitions, online or not."), len(rows) + offline),
            (Family(manager + "leadercount", "gauge", "Partitions led here."), leaders),
            (Family(manager + "offlinereplicacount", "gauge", "Partitions that cannot be read."), offline),
            (
                Family(manager + "produceridcount", "gauge", "Producers that partitions remember."),
                producer_ids,
            ),
            (
                Family(
                    manager + "partitionswithlatetransactionscount",
                    "gauge",
                    "Partitions with a transaction that outlived every timeout: it hangs.",
                ),
                late,
            ),
        ):
            yield from _one(family, value)

    def _log_directory(self, space: DiskSpace | None) -> Iterator[str]:
        parts, cleaned = self._parts, self._parts.cleaner.metrics
        directory: Labels = (("directory", parts.config.data_dir),)
        sizes = [] if space is None else [(directory, space.total_bytes)]
        yield from family_lines(
            Family("semel_log_directory_bytes", "gauge", "Size of the volume that holds the logs."), sizes
        )
        sizes = [] if space is None else [(directory, space.usable_bytes)]
        yield from family_lines(
            Family("semel_log_directory_usable_bytes", "gauge", "What is free of it."), sizes
        )
        for family, value in (
            (
                Family(
                    "kafka_log_logcleanermanager_max_dirty_percent",
                    "gauge",
                    "How much of the dirtiest compacted log could go.",
                ),
                int(100 * cleaned.dirtiest_ratio),
            ),
            (Family("semel_cleaner_cleanings_total", "counter", "Logs compacted."), cleaned.cleanings),
            (Family("semel_cleaner_read_bytes_total", "counter", "Read to compact."), cleaned.bytes_read),
            (
                Family("semel_cleaner_written_bytes_total", "counter", "Written to compact."),
                cleaned.bytes_written,
            ),
            (Family("semel_cleaner_seconds_total", "counter", "Time spent compacting."), cleaned.seconds),
        ):
            yield from _one(family, value)

    def _process(self) -> Iterator[str]:
        build = Family("semel_build_info", "gauge", "The version that runs, and the broker's id.")
        labels = (("version", __version__), ("broker_id", str(self._parts.administration.node_id)))
        yield from family_lines(build, [(labels, 1)])
        if self._of_process is not None:
            for family, value in self._of_process():
                yield from _one(family, value)


def _of_replica(replica: Replica) -> tuple[int, ...]:
    """The values of one replica, in the order of `_TOPIC_FAMILIES`."""
    counts, log = replica.counts, replica.log
    return (
        log.log_end_offset - counts.first_offset,
        counts.bytes_in,
        counts.bytes_out,
        counts.batches_in + log.duplicates_dropped + counts.refused,
        counts.refused,
        counts.batches_in,
        counts.weak_acks,
        log.duplicates_dropped,
        counts.out_of_order,
        counts.fenced,
        counts.expired,
        log.producers.open_transactions_count,
    )


def _one(family: Family, value: float) -> Iterator[str]:
    return family_lines(family, [(_NO_LABELS, value)])
