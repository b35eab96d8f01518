"""A broker inside this process: for tests, notebooks and demonstrations.

Role.   `semel.Broker`. The same broker that `semel broker` runs, on a loop's thread of its own.

            with Broker() as broker:              # temporary data, a free port
                connect_to(broker.bootstrap)

Flow.   `start` returns once it serves, `stop` once everything is on disk; `with` does both.
Rules.  * Settings are `semel broker`'s and Kafka's, with one exception: an empty group begins its first rebalance at once
          (`group.initial.rebalance.delay.ms=0`). A test or notebook has one member, and would wait three seconds for more.
          A setting that is given wins.
        * Without `data_dir` the data is temporary and goes with `stop`; with one it stays, and the next broker finds it.
        * Any number may run in one process, each with its own directory and port.
        * A process that ends without `stop` leaves given data as a kill would, which costs nothing that was
          acknowledged, and removes temporary data.
        * A forked child has none of its parent's threads: there, a client may use `bootstrap`, but starting or stopping
          is refused.
"""

import errno
import os
import shutil
import socket
import tempfile
import threading
from types import TracebackType
from typing import Final, Self

from semel.broker.app import Broker as BrokerApp
from semel.broker.config import BrokerConfig
from semel.broker.metrics.listener import address_of
from semel.errors import ConfigError, SemelError
from semel.runtime.at_exit import Stage, at_exit
from semel.runtime.bundle import real_runtime
from semel.runtime.kernel_loading import load_kernels_beside
from semel.runtime.loop_thread import LoopThread

_ADDRESS_ERRORS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
_KERNELS_AFTER_SECONDS: Final = 2.0  # A broker that lives for one test never pays for them.
_REBALANCE_DELAY: Final = "group.initial.rebalance.delay.ms"


class EmbeddedError(SemelError):
    """A broker that was started twice, is not running, or belongs to another process."""


class EmbeddedStartError(EmbeddedError, OSError):
    """The system refuses the port or the directory of a broker."""


class Broker:
    """A broker on a thread of this process. Settings are Kafka's, with underscores for dots.

    `group.initial.rebalance.delay.ms` is 0 unless it is given: a group's first member need not wait three seconds for others.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        metrics: str | None = None,
        **settings: str | int | bool,
    ) -> None:
        """`metrics` is the HOST:PORT where GET /metrics is answered for Prometheus; port 0 picks a free one."""
        self._metrics = None if metrics is None else address_of(metrics)
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        address = f"[{host}]" if ":" in host else host
        for name in ("listeners", "log.dirs", "log.dir", "log_dirs", "log_dir"):
            if name in settings:
                raise ConfigError(
                    f"{name} is not a keyword of an embedded broker: use host and port, or data_dir"
                )
        self._settings: dict[str, str | int | bool] = {
            "listeners": f"PLAINTEXT://{address}:{port}",
            **settings,
        }
        if not {_REBALANCE_DELAY, _REBALANCE_DELAY.replace(".", "_")} & settings.keys():
            self._settings[_REBALANCE_DELAY] = 0
        BrokerConfig.of(self._settings)  # A wrong setting raises here, not at the start.
        self._running: _Running | None = None

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        return self._started().bootstrap

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def metrics_url(self) -> str:
        """Where its metrics are, if it was told to show them."""
        url = self._started().metrics_url
        if url is None:
            raise EmbeddedError("this broker shows no metrics: make it with metrics='127.0.0.1:0'")
        return url

    @property
    def data_dir(self) -> str:
        """Where its data is."""
        return self._started().data_dir

    def start(self) -> Self:
        """Start, and return once it serves. Raises if the directory or the port cannot be had."""
        if self._running is not None:
            self._running.check_process("start")
            raise EmbeddedError(f"this broker is running already, on {self.bootstrap}: stop it first")
        self._running = _Running(self._settings, self._data_dir, self._metrics)
        return self

    def stop(self) -> None:
        """Finish what is under way and stop; temporary data is removed. Stopping twice is harmless."""
        if self._running is None:
            return
        self._running.check_process("stop")
        running, self._running = self._running, None
        running.stop()

    def _started(self) -> "_Running":
        if self._running is None:
            raise EmbeddedError("this broker is not running: call start(), or use it in a with statement")
        return self._running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Broker on {self._running.bootstrap}>" if self._running else "<Broker, not running>"


class _Running:
    """One life of a broker: from its start to its stop."""

    def __init__(
        self,
        settings: dict[str, str | int | bool],
        data_dir: str | None,
        metrics: tuple[str, int] | None,
    ) -> None:
        self._pid = os.getpid()
        self._is_temporary = data_dir is None
        self.data_dir = tempfile.mkdtemp(prefix="semel-") if data_dir is None else data_dir
        self._loop = LoopThread("semel-broker")
        try:
            config = BrokerConfig.of({**settings, "log.dirs": self.data_dir})
            self._app = BrokerApp(config, real_runtime(), metrics=metrics)
            self._start()
        except BaseException:
            self._release()
            raise
        self.bootstrap = self._app.bootstrap
        self.metrics_url = self._app.metrics_url
        self._kernels = threading.Timer(_KERNELS_AFTER_SECONDS, load_kernels_beside, kwargs={"daemon": False})
        self._kernels.daemon = True
        self._kernels.start()
        _alive.add(self)

    def _start(self) -> None:
        try:
            self._loop.run(self._app.start())
        except ConfigError as error:  # The directory is this class's keyword.
            raise ConfigError(str(error).replace("another log.dirs", "another data_dir")) from error
        except OSError as error:
            raise EmbeddedStartError(self._why_not(error)) from error

    def _why_not(self, error: OSError) -> str:
        """What the system refused, as a sentence with a way out."""
        config = self._app.config
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        if isinstance(error, socket.gaierror):
            return f"host={config.host!r} is not known ({error.strerror}): use a name or an address of this machine"
        if error.errno in _ADDRESS_ERRORS or error.filename is None:
            return (
                f"a broker cannot listen on {config.host}:{config.port}: {reason}; stop what uses it, or choose another "
                "host or port (port=0 picks a free one)"
            )
        return f"data_dir={self.data_dir!r} cannot be used: {reason} ({error.filename}); name a directory that can be written"

    def check_process(self, what: str) -> None:
        if self._pid != os.getpid():
            raise EmbeddedError(
                f"this broker runs in process {self._pid}, and this is process {os.getpid()}, forked from it: "
                f"only its own process can {what} it; make a new Broker here"
            )

    def stop(self) -> None:
        _alive.discard(self)
        self._kernels.cancel()
        try:
            self._loop.run(self._app.stop())
        finally:
            self._release()

    def abandon(self) -> None:
        """Stop serving at once; nothing in a process that does not own it."""
        if self._pid == os.getpid():
            _alive.discard(self)
            self._kernels.cancel()
            try:
                self._loop.run(
                    self._app.leave()
                )  # A loop that is closed above open sockets complains of them.
            finally:
                self._release()

    def _release(self) -> None:
        self._loop.close()
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)


_alive: set[_Running] = set()  # A broker whose owner forgot it runs all the same.


def _release_all() -> None:
    """End what nobody stopped: nothing that was acknowledged is lost, and nobody waits for the disk."""
    for running in list(_alive):
        running.abandon()


at_exit(Stage.BROKERS, _release_all)
