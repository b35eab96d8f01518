"""A broker: its parts built, started, kept going and stopped. Read this first.

Role.   `Broker(config, runtime)` is everything behind one port.
Flow.   start: lock the directory -> replay the metadata -> open every log -> listen.
        then, from time to time: retention, compaction, expiry, checkpoints, syncs of closed segments.
        stop: take no more requests -> finish those under way -> close every log -> mark the stop as clean.
Rules.  * Nothing is served before every log is open.
        * It runs on any runtime: real, or simulated from a seed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from semel.broker.cleaner import Cleaner
from semel.broker.config import BrokerConfig, is_wildcard, listener_config
from semel.broker.context import BrokerContext
from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.dispatch import Dispatch
from semel.broker.fetch_sessions import FetchSessions
from semel.broker.partitions import Partitions
from semel.broker.producer_ids import ProducerIds
from semel.broker.reconfiguration import as_changed
from semel.cluster.standalone import METADATA_CONFIG, StandaloneStore
from semel.core.metadata.broker_configs import without_effect
from semel.core.metadata.rows import ClusterRow, LeaderEpochRow
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.errors import ConfigError, LogError
from semel.log.checkpoints import encode_uuid
from semel.log.directory import LogDirectory
from semel.log.partition_log import PartitionLog
from semel.log.retiring import Retirement
from semel.net.listener import Listener
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.broker.metrics_listener import MetricsListener

_logger = logging.getLogger(__name__)
_METADATA: Final = TopicPartition(METADATA_TOPIC, 0)
_HOUSEKEEPING_SECONDS: Final = 1.0
_CLOSERS: Final = 8  # Threads that close logs: as many syncs as a disk takes together.


class Broker:
    """One broker."""

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        *,
        metrics: tuple[str, int] | None = None,
        owns_process: bool = False,
    ) -> None:
        """`metrics`: where GET /metrics is answered, if at all; of the process it tells only where the broker `owns_process`."""
        self.config = config
        self.runtime = runtime
        self._metrics_address = metrics
        self._owns_process = owns_process
        self._metrics_listener: MetricsListener | None = None
        self.metrics_url: str | None = None
        """Where they are, once it has started."""
        self._listener: Listener | None = None
        self._directory: LogDirectory | None = None
        self._context: BrokerContext | None = None

    @property
    def context(self) -> BrokerContext:
        if self._context is None:
            raise LogError("the broker has not been started")
        return self._context

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        return f"{self.context.host}:{self.context.port}"

    async def start(self) -> None:
        """Load everything and listen; raises if the directory or the port cannot be had."""
        config, runtime = self.config, self.runtime
        directory = LogDirectory.open(
            runtime.files,
            config.data_dir,
            node_id=config.node_id,
            cluster_id=encode_uuid(random_uuid(runtime.dice)),
            directory_id=encode_uuid(random_uuid(runtime.dice)),
        )
        self._directory = directory
        try:
            self._context = await self._load(directory)
        except BaseException:
            directory.release()
            raise
        try:
            await self._listen(self._context)
            if self._metrics_address is not None:
                await self._show_metrics(self._context, *self._metrics_address)
        except BaseException:
            await self.leave()
            directory.close(
                runtime.clock.now_ms()
            )  # All logs are open and as they were: the next start may trust them.
            raise
        self._context.groups.start()
        self._context.transactions.start()
        self._context.cleaner.start()
        self._keep_going()

    async def _load(self, directory: LogDirectory) -> BrokerContext:
        runtime, config = self.runtime, self.config
        log = directory.load(_METADATA, METADATA_CONFIG, runtime.clock.now_ms())
        log.advance_high_watermark(log.log_end_offset)
        store = StandaloneStore(log, runtime.tasks, runtime.clock)
        cluster_id = store.image.cluster_id
        is_old = cluster_id is not None
        if cluster_id is None:
            cluster_id = directory.cluster_id or encode_uuid(random_uuid(runtime.dice))
            await store.commit([ClusterRow(cluster_id)])
        elif directory.cluster_id != cluster_id:
            raise ConfigError(
                f"{directory.path} is of two clusters: meta.properties says cluster.id={directory.cluster_id}, its "
                f"metadata {cluster_id}; bring the right files back, set cluster.id={cluster_id} if they are, or use "
                "another log.dirs"
            )
        config = as_changed(config, store.image)
        if idle := without_effect({**config.static, **config.dynamic}):
            _logger.warning("set, kept, and without effect here: %s", ", ".join(idle))
        partitions = Partitions(directory, store.image, config, runtime)
        await partitions.load()
        if is_old and not directory.was_clean:
            epoch = 1 + max(store.image.leader_epoch_min, partitions.highest_leader_epoch())
            await store.commit([LeaderEpochRow(epoch)])
        partitions.lead()
        producer_ids = ProducerIds(store)
        groups = GroupCoordinator(config, runtime, store, partitions)
        return BrokerContext(
            config=config,
            runtime=runtime,
            store=store,
            partitions=partitions,
            producer_ids=producer_ids,
            cluster_id=cluster_id,
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, runtime.dice),
            cleaner=Cleaner(directory, runtime, lambda: self.context.config),
            groups=groups,
            transactions=TransactionCoordinator(config, runtime, store, partitions, producer_ids, groups),
        )

    async def _listen(self, context: BrokerContext) -> None:
        config = self.config
        listener = self._listener = Listener(self.runtime, Dispatch(context), listener_config(context.config))
        host, port = await listener.start(config.host, config.port)
        context.host = config.advertised_host or host
        context.port = config.advertised_port or port
        if config.advertised_host is None and is_wildcard(config.host):
            context.host = self.runtime.network.own_address()
            _logger.warning(
                "listening on every address; clients are told to come to %s:%d, and where they cannot, set "
                "advertised.listeners=PLAINTEXT://HOST:PORT",
                context.host,
                context.port,
            )

        def reconfigure(changed: BrokerConfig) -> None:
            listener.config = listener_config(changed)

        context.on_reconfigured.append(reconfigure)

    async def _show_metrics(self, context: BrokerContext, host: str, port: int) -> None:
        from semel.broker.metrics import RequestRate
        from semel.broker.metrics_listener import PATH, MetricsListener
        from semel.broker.metrics_page import MetricsPage
        from semel.broker.metrics_process import process_values

        if self._listener is None:
            raise LogError("metrics are of a broker that listens")
        rate = RequestRate(lambda: context.metrics.requests["Produce"], self.runtime.clock.monotonic)
        page = MetricsPage(context, self._listener, rate, process_values if self._owns_process else None)
        self._metrics_listener = MetricsListener(self.runtime, page.text)
        host, port = await self._metrics_listener.start(host, port)
        self.metrics_url = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"

        async def look() -> None:
            rate.look()

        self._every(_HOUSEKEEPING_SECONDS * 1000, look, "looks at rates")

    async def stop(self) -> None:
        """Finish what is under way, close every log, leave the mark of a clean stop."""
        if self._context is not None:
            self._context.groups.stop()  # First: members that wait for a rebalance would hold up the rest.
            self._context.transactions.stop()
        if self._listener is not None:
            await self._listener.close()
        if self._metrics_listener is not None:
            self._metrics_listener.close()
        try:
            await self.runtime.tasks.drain()  # Whatever works on a log is done with it.
            if self._directory is not None:
                await self._close_logs(self._directory)
        finally:
            await self.runtime.tasks.close()

    async def leave(self) -> None:
        """Serve nobody any more, at once, and leave everything else as a kill would."""
        if self._listener is not None:
            await self._listener.close(grace_seconds=0)
        if self._metrics_listener is not None:
            self._metrics_listener.close()

    async def _close_logs(self, directory: LogDirectory) -> None:
        """On threads, a few at a time: each log waits for several syncs, and there may be thousands."""
        calls = directory.begin_close(self.runtime.clock.now_ms())
        parts = [calls[first::_CLOSERS] for first in range(min(_CLOSERS, len(calls)))]
        try:
            await asyncio.gather(*(self.runtime.tasks.in_thread(_call_all, part) for part in parts))
        except BaseException:
            directory.release()
            raise
        directory.finish_close()

    # From time to time

    def _keep_going(self) -> None:
        config = self.config
        self._every(_HOUSEKEEPING_SECONDS * 1000, self._sync_closed_segments, "syncs")
        self._every(_HOUSEKEEPING_SECONDS * 1000, self._complete_topics, "completion of topics")
        self._every(config.log_retention_check_interval_ms, self._retain, "retention")
        self._every(config.producer_id_expiration_check_interval_ms, self._expire, "expiry")
        self._every(
            config.log_flush_offset_checkpoint_interval_ms, self.context.partitions.checkpoint, "checkpoints"
        )

    def _every(self, interval_ms: float, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        async def loop() -> None:
            while True:
                await self.runtime.tasks.sleep(interval_ms / 1000)
                try:
                    await work()
                except (OSError, LogError) as error:
                    _logger.error("%s failed and is tried again in %d ms: %s", name, interval_ms, error)

        self.runtime.tasks.spawn(loop(), name=name)

    async def _complete_topics(self) -> None:
        """Make what could not be made, and open what could not be opened when the broker started."""
        context = self.context
        await context.partitions.complete()
        if reopened := await context.partitions.reopen():
            known = max(log.leader_epochs.latest for log in reopened)
            epoch = 1 + max(context.store.image.leader_epoch_min, known)
            await context.store.commit([LeaderEpochRow(epoch)])
            context.partitions.lead()
            _logger.info("online again: %s", ", ".join(str(log.topic_partition) for log in reopened))

    async def _sync_closed_segments(self) -> None:
        now_ms = self.runtime.clock.now_ms()
        for partition in list(self.context.partitions):
            if partition.rolled() or partition.log.flush_due(now_ms):
                with contextlib.suppress(LogError):  # The log is offline and has said so.
                    await partition.commits.flush()

    async def _retain(self) -> None:
        if self._directory is None:
            return
        for partition in list(self.context.partitions):
            if await self._retire(self._directory, partition.log):
                _logger.info(
                    "%s: the log begins at %d", partition.log.topic_partition, partition.log.log_start_offset
                )
        now_ms = self.runtime.clock.now_ms()
        await self.runtime.tasks.in_thread(self._directory.take_deleted(now_ms))

    async def _retire(self, directory: LogDirectory, log: PartitionLog) -> bool:
        """Let old segments go; whether any went. Threads wait for the disk, and the log may be deleted meanwhile."""
        clock, in_thread = self.runtime.clock, self.runtime.tasks.in_thread
        if directory.logs.get(log.topic_partition) is not log:
            return False
        retirement = Retirement.plan(log, self.runtime.files, clock.now_ms())
        if retirement is None:
            return False
        await in_thread(retirement.sync_snapshot, order=log.directory)
        if directory.logs.get(log.topic_partition) is not log:
            return False
        retirement.name_snapshot()
        await in_thread(retirement.sync_names, order=log.directory)
        if directory.logs.get(log.topic_partition) is not log:
            return False
        count = retirement.drop(clock.now_ms())
        await in_thread(retirement.sync_names, order=log.directory)
        return count > 0

    async def _expire(self) -> None:
        now_ms = self.runtime.clock.now_ms()
        for partition in list(self.context.partitions):
            partition.counts.expired += partition.log.expire_producers(now_ms)


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
