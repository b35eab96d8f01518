"""The peer of a measurement: Apache Kafka as it is installed here, a broker that runs already, or nobody.

Role.   The peer may be another Semel too: `--beside PYTHON` is that of another environment, as a version before a change.
        `peer_of` makes a `Peer` of the options every suite has; `makers` gives the brokers of both sides; `running_sides` starts
        them and connects to them, `side_of` one.
Rules.  * A peer named by `--against` is nobody's to start, stop or look into: it has no CPU seconds and no memory, and what needs a
          process (starts, restarts, growth) is not measured there.
        * The loader speaks to one broker: a cluster of several is refused, its partitions would be led elsewhere.
        * Topics on a peer that lives on carry a name no other run has, and are deleted behind their use.
"""

import argparse
import contextlib
import secrets
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench.broker_load import Wire
from semel.bench.broker_workloads import KAFKA, SEMEL, Side
from semel.bench.measure import BenchError
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.registry import ApiKey
from semel.peers import kafka as kafka_peer
from semel.peers.processes import BrokerProcess, RemoteBroker, SemelProcess

Maker = Callable[[Path], BrokerProcess]
_METADATA_VERSION: Final = 9
_WAY_OUT: Final = "or name one that runs with --against HOST:PORT, or measure Semel alone with --alone"


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side: installed here (`home`, or `python` of another Semel), or running somewhere (`bootstrap`)."""

    name: str
    home: kafka_peer.KafkaHome | None = None
    bootstrap: str = ""
    python: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether its brokers are started, killed and looked into here."""
        return self.home is not None or bool(self.python)

    def broker(self, directory: Path, settings: Mapping[str, str]) -> BrokerProcess:
        if self.python:
            return SemelProcess(directory, settings, (self.python, "-m", "semel", "broker"))
        if self.home is None:
            return RemoteBroker(self.bootstrap)
        return kafka_peer.KafkaBroker(self.home, directory, settings)


def add_peer_options(parser: argparse.ArgumentParser, *, elsewhere: bool = True) -> None:
    """`--alone`, and `--against` for what can be measured on a broker that is not ours to start and to kill."""
    which = parser.add_mutually_exclusive_group()
    parser.set_defaults(against=None, beside=None)
    which.add_argument("--alone", action="store_true", help="no peer: Semel's own figures only")
    which.add_argument(
        "--beside",
        metavar="PYTHON",
        help="the peer is the Semel of another environment, by its python: another version or commit",
    )
    if not elsewhere:
        return
    which.add_argument(
        "--against",
        metavar="HOST:PORT",
        help="the peer is this broker, of any make, instead of an Apache Kafka started here",
    )


def beside_kafka(options: argparse.Namespace) -> bool:
    """Whether the peer is the Apache Kafka of this machine, as on published pages."""
    return not options.alone and options.against is None and options.beside is None


def peer_of(options: argparse.Namespace) -> Peer | None:
    """The peer that was asked for; None for none. Raises `PeerMissingError` with every way out."""
    if options.alone:
        return None
    if options.against is not None:
        return Peer(options.against, bootstrap=options.against)
    if options.beside is not None:
        return _other_semel(options.beside)
    try:
        home = kafka_peer.find()
    except kafka_peer.PeerMissingError as missing:
        raise kafka_peer.PeerMissingError(f"{missing}; {_WAY_OUT}") from missing
    return Peer(f"Apache Kafka {home.version}", home)


def _other_semel(python: str) -> Peer:
    """The Semel of another environment. Raises `BenchError` if there is none."""
    try:
        asked = subprocess.run(
            [python, "-m", "semel", "--version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(
            f"--beside {python}: no Semel can be started with it ({error}); name the python of an environment that has one"
        ) from error
    return Peer(f"{asked.stdout.strip()} of {python}", python=python)


def peer_words(options: argparse.Namespace) -> str:
    """The options again, for the command that repeats a run."""
    words = " --alone" if options.alone else ""
    if options.beside is not None:
        words += f" --beside {options.beside}"
    return words if options.against is None else f" --against {options.against}"


def makers(peer: Peer | None, settings: Mapping[str, str]) -> dict[str, Maker]:
    """A broker of each side on a directory of its own; Semel's first."""
    made: dict[str, Maker] = {SEMEL: lambda directory: SemelProcess(directory, settings)}
    if peer is not None:
        made[KAFKA] = lambda directory: peer.broker(directory, settings)
    return made


def own_makers(peer: Peer | None, settings: Mapping[str, str]) -> dict[str, Maker]:
    """As `makers`, of brokers that may be killed: a peer that runs elsewhere is left out."""
    return makers(peer if peer is None or peer.is_ours else None, settings)


def running_sides(
    stack: contextlib.ExitStack, peer: Peer | None, root: Path, settings: Mapping[str, str]
) -> list[Side]:
    """Both brokers, started and connected to; `stack` ends them."""
    sides: list[Side] = []
    for name, make in makers(peer, settings).items():
        broker = make(root / name)
        stack.callback(broker.kill)
        side = side_of(name, broker)
        stack.callback(side.wire.socket.close)
        sides.append(side)
    return sides


def side_of(name: str, broker: BrokerProcess) -> Side:
    """A broker, started and connected to."""
    if not isinstance(broker, RemoteBroker):
        broker.start()
        return Side(name, broker, Wire(broker.bootstrap))
    check_alone(broker.bootstrap)
    return Side(name, broker, Wire(broker.bootstrap), prefix=f"semel-bench-{secrets.token_hex(4)}")


def check_alone(bootstrap: str) -> None:
    """See that a broker that runs already answers, and that it is not one of many."""
    try:
        with Wire(bootstrap) as wire:
            brokers = wire.ask(ApiKey.METADATA, MetadataRequest(topics=[]), _METADATA_VERSION).brokers
    except (OSError, ValueError) as error:  # ValueError: no port.
        raise BenchError(f"nobody answers at {bootstrap} ({error}): check --against HOST:PORT") from error
    if len(brokers) != 1:
        raise BenchError(
            f"{bootstrap} is a cluster of {len(brokers)} brokers; the loader speaks to one: name a cluster of one"
        )
