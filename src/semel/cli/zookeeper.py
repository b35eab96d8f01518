"""`semel zookeeper`: one real Apache ZooKeeper in the foreground, for a first cluster.

Role.   From options to a running server of PySpark's jars, and from a signal to its end.
Rules.  * Standard output has exactly one line, written once it serves. ZooKeeper's own words are in its log.
        * One server is enough to try and to test. Production has an ensemble of its own.
"""

import signal
import threading
from pathlib import Path
from typing import Final

import click

from semel.errors import SemelError

_LOOK_SECONDS: Final = 0.5


@click.command(
    name="zookeeper",
    epilog="Example: semel zookeeper --listen 127.0.0.1:2181 --data-dir zookeeper",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:2181",
    show_default=True,
    help="Where to listen; port 0 picks a free one.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=Path("zookeeper"),
    show_default=True,
    help="Where its data, its configuration and its log are kept; made if missing.",
)
def command(listen: str, data_dir: Path) -> None:
    """Run one Apache ZooKeeper until SIGTERM or Ctrl-C: to try a cluster, and for tests.

    The server comes with PySpark (pip install "semel[spark]") and runs on Java 17 or newer. Prints 'zookeeper ready on HOST:PORT'
    once it serves.
    """
    from semel.peers.zookeeper import ZooKeeperProcess
    from semel.spark.java import find_java

    host, port = _address(listen)
    server = ZooKeeperProcess(find_java().executable, data_dir.absolute(), host, port)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())
    try:
        server.start()
        click.echo(f"zookeeper ready on {server.connect}")
        while not stopping.wait(_LOOK_SECONDS):
            if server.process is None or server.process.poll() is not None:
                raise SemelError(f"ZooKeeper ended by itself: its log is {server.log}")
    finally:
        server.stop()


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise click.BadParameter(f"{listen!r} is no HOST:PORT, as 127.0.0.1:2181.", param_hint="--listen")
    return host, int(port)
