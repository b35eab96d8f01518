"""`semel broker`: a broker in the foreground.

Role.   From options and a file to a running broker, and from a signal to a clean stop.
Flow.   settings -> `BrokerConfig` -> `broker.app.Broker` on uvloop -> the ready line -> kernels on a thread -> SIGTERM or
        SIGINT -> stop. A service manager that listens is told of it (`broker.supervised`).
Rules.  * Standard output has exactly one line, written once the port is open, and with --metrics a second one, which names its
          address. Everything else is on standard error.
        * A mistake of the user is one line there and exit code 1 or 2. With exit code 1 that line has the log's format.
        * The command line wins over the environment, and that over the file.
        * A signal is obeyed while logs are still being recovered: exit code 0, and no mark of a clean stop.
"""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from semel.cli.log_options import LogOutput, log_options
from semel.cli.names import complete_directories
from semel.cli.options import BROKER_FLAGS, in_flags, pairs
from semel.errors import ConfigError, SemelError
from semel.runtime.log_lines import LogFormat

if TYPE_CHECKING:
    from semel.broker.app import Broker
    from semel.broker.config import BrokerConfig
    from semel.runtime.bundle import Runtime

_logger: Final = logging.getLogger(__name__)
_ADDRESS_ERRORS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


@click.command(
    name="broker",
    epilog="Example: semel broker --listen 127.0.0.1:9092 --data-dir data -X num.partitions=4",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    envvar="SEMEL_LISTEN",
    show_envvar=True,
    help="Where to listen; port 0 picks a free one.  [default: 127.0.0.1:9092]",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    envvar="SEMEL_DATA_DIR",
    show_envvar=True,
    shell_complete=complete_directories,
    help="Where the logs are kept; made if missing.  [default: data]",
)
@click.option(
    "--broker-id",
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    envvar="SEMEL_BROKER_ID",
    show_envvar=True,
    help="This broker's id.  [default: 1; in a cluster one that ZooKeeper gives]",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT,…/CHROOT",
    envvar="SEMEL_ZOOKEEPER",
    show_envvar=True,
    help="The ZooKeeper of the cluster to be a member of.  [default: no cluster]",
)
@click.option(
    "-X",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs,
    help="A broker or topic setting by Kafka's name; may be repeated.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings as in server.properties.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    envvar="SEMEL_METRICS",
    show_envvar=True,
    help="Where to answer GET /metrics for Prometheus, and the probes GET /health and /ready; port 0 picks a free one.  "
    "[default: nowhere]",
)
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    listen: str | None,
    data_dir: str | None,
    broker_id: int | None,
    zookeeper: str | None,
    settings: dict[str, str],
    file: Path | None,
    metrics: str | None,
    log_levels: dict[str, int],
    log_format: LogFormat,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, which it obeys while it recovers its logs as well.

    Prints 'semel broker N ready on HOST:PORT' once clients can connect, and with --metrics a second line,
    'semel broker N metrics on http://HOST:PORT/metrics'.
    """
    from semel.runtime.bundle import real_runtime

    def gives_way(name: str, key: str) -> bool:
        """The environment has an option's value, and the command line another one under Kafka's name."""
        return key in settings and ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT

    given = settings_of(
        None if gives_way("listen", "listeners") else listen,
        None if gives_way("data_dir", "log.dirs") else data_dir,
        None if gives_way("broker_id", "node.id") else broker_id,
        settings,
        file,
        zookeeper=None if gives_way("zookeeper", "zookeeper.connect") else zookeeper,
    )
    others = {name: level for name, level in log_levels.items() if name}
    serve(given, real_runtime, metrics, LogOutput(log_format, log_levels.get("", logging.INFO), others))


def serve(
    settings: dict[str, str],
    make_runtime: "Callable[[], Runtime]",
    metrics: str | None = None,
    log: LogOutput | None = None,
) -> None:
    """Run a broker with these settings, on what `make_runtime` gives it for a machine, until a signal comes."""
    from semel.broker.config import BrokerConfig

    log = LogOutput() if log is None else log
    log.begin()
    try:
        config = BrokerConfig.of(settings)
        _raise_file_limit()
        _run(config, make_runtime, None if metrics is None else _address(metrics))
    except SemelError as error:
        if log.form != "json":
            raise
        _logger.critical("%s", in_flags(str(error)))
        raise SystemExit(1) from error


def _address(metrics: str) -> tuple[str, int]:
    from semel.broker.metrics.listener import address_of

    try:
        return address_of(metrics)
    except ConfigError as error:
        raise click.BadParameter(f"{error}.", param_hint="--metrics") from error


def _raise_file_limit() -> None:
    """Take as many files as the system allows this process: every segment is one, and every connection. So do JVMs."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        _logger.warning("at most %d files may be open: %s", soft, error)


def settings_of(
    listen: str | None,
    data_dir: str | None,
    broker_id: int | None,
    settings: dict[str, str],
    file: Path | None,
    *,
    zookeeper: str | None = None,
) -> dict[str, str]:
    """Everything that was given, under Kafka's names."""
    from semel.cli.properties import read_properties

    named: dict[str, str] = {}
    if listen is not None:
        if ":" not in listen:
            raise click.BadParameter(f"{listen!r} is no HOST:PORT, as 127.0.0.1:9092.", param_hint="--listen")
        named["listeners"] = f"PLAINTEXT://{listen}"
    if data_dir is not None:
        named["log.dirs"] = data_dir
    if broker_id is not None:
        named["node.id"] = str(broker_id)
    if zookeeper is not None:
        named["zookeeper.connect"] = zookeeper
    for key in named.keys() & settings.keys():
        raise click.UsageError(f"{BROKER_FLAGS[key]} and -X {key}={settings[key]} name one thing: keep one.")
    given = {**(read_properties(file) if file is not None else {}), **settings, **named}
    if "log.dirs" in named:
        given.pop("log.dir", None)  # The file's other spelling of what the command line names.
    if "node.id" in named:
        given.pop("broker.id", None)
    return given


def _run(
    config: "BrokerConfig", make_runtime: "Callable[[], Runtime]", metrics: tuple[str, int] | None
) -> None:
    from semel.runtime.loop_thread import fastest_loop

    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        loading = runner.run(_serve(config, make_runtime, metrics))
    if loading is not None and loading.is_alive():
        # The compiler does not survive an interpreter that goes away under it, and everything is on disk.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def _serve(
    config: "BrokerConfig", make_runtime: "Callable[[], Runtime]", metrics: tuple[str, int] | None
) -> threading.Thread | None:
    """Serve until a signal comes; the thread that loads kernels, if it was begun: it may not be done."""
    from semel.broker.app import Broker
    from semel.broker.supervised import Supervised
    from semel.runtime.service_manager import ServiceManager

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _signalled, number, stopping)
    broker = Broker(config, make_runtime(), metrics=metrics, owns_process=True)
    async with Supervised(broker, ServiceManager.of_environment()) as supervised:
        if not await _started(broker, stopping):
            return None
        supervised.ready()
        loading = _ready(broker)
        failure = await _until_stopped(broker, stopping)
        supervised.stopping()
        await broker.stop()
        if failure is not None:
            raise failure
    return loading[0] if loading else None


async def _until_stopped(broker: "Broker", stopping: asyncio.Event) -> SemelError | None:
    """Until a signal comes, or the broker cannot go on: then why."""
    failing, asked = asyncio.ensure_future(broker.until_failed()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait([failing, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if failing.done():
        return failing.result()
    failing.cancel()
    return None


def _signalled(number: signal.Signals, stopping: asyncio.Event) -> None:
    if stopping.is_set():
        _logger.warning("%s again: the broker is stopping, and SIGKILL alone is faster", number.name)
    else:
        _logger.info("%s received", number.name)
    stopping.set()


def _ready(broker: "Broker") -> list[threading.Thread]:
    """Say so, and make the memory ready; the thread that loads kernels is in the list once it has begun."""
    from semel.runtime.kernel_loading import load_kernels_beside
    from semel.runtime.short_collections import keep_short

    node_id = broker.config.node_id
    click.echo(f"semel broker {node_id} ready on {broker.bootstrap}")
    if broker.metrics_url is not None:
        click.echo(f"semel broker {node_id} metrics on {broker.metrics_url}")
    gc.collect()
    gc.freeze()
    keep_short()
    loading: list[threading.Thread] = []
    # Not before there is something to check: they are most of what a broker weighs.
    broker.parts.produce.on_first_produce = lambda: loading.append(
        load_kernels_beside(daemon=True, then=gc.freeze)
    )
    return loading


async def _started(broker: "Broker", stopping: asyncio.Event) -> bool:
    """Start it; False if a signal came first: a recovery that takes long is left off, and the next start does it."""
    starting = asyncio.ensure_future(_start(broker))
    asked = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([starting, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            _logger.info(
                "stopped before it served: what is not recovered yet in %s is recovered by the next start",
                broker.config.data_dir,
            )
            await broker.runtime.tasks.close()
            return False
    await (
        starting
    )  # An error of the start is raised here; a start that succeeded after all is stopped in order.
    return True


async def _start(broker: "Broker") -> None:
    """Start it; what the system refuses becomes a sentence with a way out."""
    config = broker.config
    address = f"{config.host}:{config.port}"
    try:
        await broker.start()
    except SemelError as error:  # Of settings, of the data, or of the cluster to join.
        raise ConfigError(in_flags(str(error), BROKER_FLAGS)) from error
    except socket.gaierror as error:
        raise ConfigError(
            f"cannot listen on {address}: the host {config.host!r} is not known ({error.strerror}); "
            "choose another with --listen HOST:PORT"
        ) from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in _ADDRESS_ERRORS or (error.errno == errno.EACCES and error.filename is None):
            raise ConfigError(
                f"cannot listen on {address}: {reason}; "
                "stop what uses it or choose another with --listen HOST:PORT (port 0 picks a free one)"
            ) from error
        where = "" if error.filename is None else f" ({error.filename})"
        raise ConfigError(
            f"the data directory {config.data_dir} cannot be used: {reason}{where}; "
            f"{'make room or ' if error.errno == errno.ENOSPC else ''}choose another with --data-dir DIR"
        ) from error
