"""A broker: its parts built, started, kept going and stopped. Read this first.

Role.   `Broker(config, runtime)` is everything behind one port: a broker alone, or with `zookeeper.connect` a member of a cluster, whose
        further parts are `membership.joined`.
Flow.   start: answer /health and /ready where that was asked for -> lock the directory -> read the metadata -> open every log -> do what the metadata says -> listen.
        then, from time to time: retention, compaction, expiry, checkpoints, syncs of closed segments.
        stop: take no more requests -> finish those under way -> close every log -> mark the stop as clean.
Rules.  * Nothing is served before every log is open.
        * It runs on any runtime: real, or simulated from a seed.
        * A member joins its cluster before it locks its directory, registers once it listens, and leaves when its logs are closed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from semel._version import __version__
from semel.broker import assembly
from semel.broker.config import BrokerConfig, is_wildcard, listener_config
from semel.broker.dispatch import Dispatch
from semel.broker.metadata_applier import MetadataApplier
from semel.broker.metrics.readiness import Readiness
from semel.broker.parts import Parts
from semel.broker.turns import Turn
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.errors import LogError, SemelError
from semel.log.checkpoints import encode_uuid
from semel.log.directory import LogDirectory
from semel.log.partition_log import PartitionLog
from semel.log.retiring import Retirement
from semel.net.listener import GRACE_SECONDS, Listener
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid

if TYPE_CHECKING:
    from semel.broker.membership.joined import Joined
    from semel.broker.metrics.listener import MetricsListener

_logger = logging.getLogger(__name__)
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
        """`metrics`: where GET /metrics, /health and /ready are answered, if at all; of the process they tell only where the
        broker `owns_process`."""
        self.config = config
        self.runtime = runtime
        self._metrics_address = metrics
        self._owns_process = owns_process
        self._metrics_listener: MetricsListener | None = None
        self.readiness = Readiness(config.node_id, runtime.clock)
        """Whether it serves, and why not."""
        self.metrics_url: str | None = None
        """Where they are, once it has started."""
        self._listener: Listener | None = None
        self._directory: LogDirectory | None = None
        self._applier: MetadataApplier | None = None
        self._parts: Parts | None = None
        self._address: tuple[str, int] | None = None
        self._joined: Joined | None = None
        self._failed: asyncio.Future[SemelError] | None = None

    @property
    def parts(self) -> Parts:
        """Everything inside, once it has started."""
        if self._parts is None:
            raise LogError("the broker has not been started")
        return self._parts

    @property
    def applier(self) -> MetadataApplier:
        """The applier of metadata changes."""
        if self._applier is None:
            raise LogError("the broker has not been started")
        return self._applier

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        host, port = self.address
        return f"{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        """Where clients reach the broker, once it listens."""
        if self._address is None:
            raise LogError("the broker has not been started: it does not listen")
        return self._address

    async def start(self) -> None:
        """Load everything and listen; raises if the directory or the port cannot be had."""
        runtime = self.runtime
        begun = runtime.clock.monotonic()
        if self._metrics_address is not None:
            await self._open_metrics(*self._metrics_address)
        try:
            if self.config.zookeeper_connect is not None:
                self._joined = await self._join()
            config = self.config
            directory = self._joined.open_directory() if self._joined is not None else self._open_directory()
        except BaseException:
            await self.leave()
            raise
        self._directory = directory
        self.readiness.recovering(directory)
        try:
            self._parts = await self._load(directory)
        except BaseException:
            await self.leave()
            directory.release()
            raise
        try:
            await self._listen(self._parts)
            if self._metrics_listener is not None:
                self._show_metrics(self._parts, self._metrics_listener)
        except BaseException:
            await self.leave()
            directory.close(
                runtime.clock.now_ms()
            )  # All logs are open and as they were: the next start may trust them.
            raise
        self._parts.groups.start()
        self._parts.transactions.start()
        self._parts.cleaner.start()
        self._keep_going()
        self.readiness.serving(self._parts)
        _logger.info(
            "semel %s: broker %d of cluster %s serves on %s; %d partitions were opened%s in %.1f s",
            __version__,
            config.node_id,
            self._parts.administration.cluster_id,
            self.bootstrap,
            sum(1 for _ in self._parts.partitions),
            "" if directory.was_clean or not directory.found else " and recovered",
            runtime.clock.monotonic() - begun,
        )

    async def _join(self) -> "Joined":
        """Find the cluster, before anything else: it may give this broker its id, and refuse it."""
        from semel.broker.membership.joined import Joined

        joined = await Joined.connect(self.config, self.runtime, on_fatal=self._fail)
        self.config = joined.config
        return joined

    def _open_directory(self) -> LogDirectory:
        dice = self.runtime.dice
        return LogDirectory.open(
            self.runtime.files,
            self.config.data_dir,
            node_id=self.config.node_id,
            cluster_id=encode_uuid(random_uuid(dice)),
            directory_id=encode_uuid(random_uuid(dice)),
        )

    async def _load(self, directory: LogDirectory) -> Parts:
        if self._joined is None:
            parts, self._applier = await assembly.alone(self.config, self.runtime, directory)
        else:
            parts, self._applier = await assembly.member(self._joined, self.runtime, directory)
        return parts

    async def _listen(self, parts: Parts) -> None:
        config = self.config
        listener = self._listener = Listener(self.runtime, Dispatch(parts), listener_config(parts.config))
        host, port = await listener.start(config.host, config.port)
        host, port = config.advertised_host or host, config.advertised_port or port
        if config.advertised_host is None and is_wildcard(config.host):
            host = self.runtime.network.own_address()
            _logger.warning(
                "listening on every address; clients are told to come to %s:%d, and where they cannot, set "
                "advertised.listeners=PLAINTEXT://HOST:PORT",
                host,
                port,
            )

        def reconfigure(changed: BrokerConfig) -> None:
            listener.config = listener_config(changed)

        self.applier.on_reconfigured.append(reconfigure)
        self._address = host, port
        if self._joined is not None:
            await self._joined.register(host, port)
        else:
            await parts.store.register(
                RegisteredBroker(config.node_id, {config.listener.name: Endpoint(host, port)})
            )

    async def _open_metrics(self, host: str, port: int) -> None:
        """Before any file is touched: probes are answered while logs are recovered, and a port that is taken costs nothing."""
        from semel.broker.metrics.listener import PATH, MetricsListener

        probes = {"/health": self.readiness.health, "/ready": self.readiness.ready}
        self._metrics_listener = MetricsListener(self.runtime, None, probes)
        host, port = await self._metrics_listener.start(host, port)
        self.metrics_url = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        _logger.info("metrics are on %s, probes on /health and /ready there", self.metrics_url)

    def _show_metrics(self, parts: Parts, metrics: "MetricsListener") -> None:
        from semel.broker.metrics.counts import RequestRate
        from semel.broker.metrics.page import MetricsPage
        from semel.broker.metrics.process import process_values

        if self._listener is None:
            raise LogError("metrics are of a broker that listens")
        rate = RequestRate(lambda: parts.metrics.requests["Produce"], self.runtime.clock.monotonic)
        page = MetricsPage(parts, self._listener, rate, process_values if self._owns_process else None)
        metrics.page = page.text

        async def look() -> None:
            rate.look()

        self._every(_HOUSEKEEPING_SECONDS * 1000, look, "looks at rates")

    async def stop(self) -> None:
        """Finish what is under way, close every log, leave the mark of a clean stop."""
        begun = self.runtime.clock.monotonic()
        self.readiness.stopping()
        connections = [] if self._listener is None else self._listener.connections
        _logger.info(
            "broker %d stops: it waits up to %.0f s for the requests of %d of its %d connections, then closes its logs",
            self.config.node_id,
            GRACE_SECONDS,
            sum(connection.is_busy for connection in connections),
            len(connections),
        )
        is_clean = False
        if self._joined is not None:
            await self._joined.shut_down()
        if self._parts is not None:
            self._parts.groups.stop()  # First: members that wait for a rebalance would hold up the rest.
            self._parts.transactions.stop()
        if self._listener is not None:
            await self._listener.close()
        if self._metrics_listener is not None:
            self._metrics_listener.page = None  # Its logs are about to be closed.
        try:
            await self.runtime.tasks.drain()  # No work on a log is left.
            if self._directory is not None:
                is_clean = await self._close_logs(self._directory)
            if self._joined is not None:
                await self._joined.leave()
        finally:
            if self._metrics_listener is not None:
                self._metrics_listener.close()
            await self.runtime.tasks.close()
        _logger.info(
            "broker %d is closed after %.1f s; the next start %s",
            self.config.node_id,
            self.runtime.clock.monotonic() - begun,
            "recovers nothing" if is_clean else "recovers its logs, as after a kill",
        )

    async def until_failed(self) -> SemelError:
        """Why the broker cannot go on, once that is so: a member may be fenced for good. It is to be stopped then."""
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._failed)

    def _fail(self, error: SemelError) -> None:
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        if not self._failed.done():
            self._failed.set_result(error)

    async def leave(self) -> None:
        """Serve nobody any more, at once, and leave everything else as a kill would."""
        if self._listener is not None:
            await self._listener.close(grace_seconds=0)
        if self._metrics_listener is not None:
            self._metrics_listener.close()
        if self._joined is not None:
            await self._joined.leave()

    async def _close_logs(self, directory: LogDirectory) -> bool:
        """On threads, a few at a time: each log waits for several syncs, and there may be thousands. Whether all were closed."""
        calls = directory.begin_close(self.runtime.clock.now_ms())
        parts = [calls[first::_CLOSERS] for first in range(min(_CLOSERS, len(calls)))]
        try:
            await asyncio.gather(*(self.runtime.tasks.in_thread(_call_all, part) for part in parts))
        except BaseException:
            directory.release()
            raise
        return directory.finish_close()

    # From time to time

    def _keep_going(self) -> None:
        config = self.config
        self._every(_HOUSEKEEPING_SECONDS * 1000, self._sync_closed_segments, "syncs")
        self._every(_HOUSEKEEPING_SECONDS * 1000, self._complete_topics, "completion of topics")
        self._every(config.log_retention_check_interval_ms, self._retain, "retention")
        self._every(config.producer_id_expiration_check_interval_ms, self._expire, "expiry")
        if self._joined is not None:
            self._every(self._joined.look_interval_ms, self._joined.look, "looks at followers")
            self._every(_HOUSEKEEPING_SECONDS * 1000, self._joined.look_at_disk, "looks at the disk")
        self._every(
            config.log_flush_offset_checkpoint_interval_ms, self.parts.partitions.checkpoint, "checkpoints"
        )

    def _every(self, interval_ms: float, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        async def loop() -> None:
            while True:
                await self.runtime.tasks.sleep(interval_ms / 1000)
                try:
                    await work()
                except (OSError, LogError) as error:
                    _logger.error("%s failed and is tried again in %d ms: %s", name, interval_ms, error)
                except Exception:
                    _logger.exception("%s broke and is tried again in %d ms", name, interval_ms)

        self.runtime.tasks.spawn(loop(), name=name)

    async def _complete_topics(self) -> None:
        """Make what could not be made, and open what could not be opened when the broker started."""
        parts = self.parts
        await self.applier.complete()
        if self._joined is not None:
            return  # What was not opened stays offline for the controller until the next start.
        if reopened := await parts.partitions.reopen():
            known = max(log.leader_epochs.latest for log in reopened)
            epoch = 1 + max(parts.store.image.leader_epoch_max, known)
            indexes: dict[str, set[int]] = {}
            for topic, index in (log.topic_partition for log in reopened):
                indexes.setdefault(topic, set()).add(index)
            rows = [
                replace(
                    row,
                    states=tuple(
                        state.led_from(epoch) if index in indexes[row.name] else state
                        for index, state in enumerate(row.states)
                    ),
                )
                for topic in indexes
                if (row := parts.store.image.topic(topic)) is not None
            ]
            await parts.store.commit(rows)
            _logger.info("online again: %s", ", ".join(str(log.topic_partition) for log in reopened))

    async def _sync_closed_segments(self) -> None:
        now_ms = self.runtime.clock.now_ms()
        for partition in list(self.parts.partitions):
            if partition.wants_sync(now_ms):
                with contextlib.suppress(LogError):  # The log is offline and has said so.
                    await partition.commits.flush()

    async def _retain(self) -> None:
        if self._directory is None:
            return
        turn = Turn(self.runtime.clock)
        for partition in list(self.parts.partitions):
            if turn.is_over:
                await self.runtime.tasks.sleep(0)
                turn.begin()
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
        for partition in list(self.parts.partitions):
            partition.counts.expired += partition.log.expire_producers(now_ms)


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
