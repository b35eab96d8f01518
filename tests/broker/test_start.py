"""A start that fails costs nothing: the directory is free again, and as trustworthy as before. One that works is light.

Method: a port that is taken, on the simulated network and disk; then the same directory on a free one.
"""

import asyncio
import subprocess
import sys

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.topics import create_missing
from semel.errors import LogError
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from support.log.log_kit import batch_of


def config(port: int) -> BrokerConfig:
    return BrokerConfig.of({"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": "/data"})


def test_a_port_that_is_taken_leaves_the_clean_stop_clean() -> None:
    simulation = Simulation(1)
    host = simulation.host("127.0.0.1")

    async def program(runtime: Runtime) -> None:
        first = Broker(config(9092), runtime)
        await first.start()
        await first.stop()
        assert runtime.files.exists("/data/.kafka_cleanshutdown")
        await runtime.network.listen(asyncio.Protocol, "127.0.0.1", 9092)
        with pytest.raises(OSError, match="in use"):
            await Broker(config(9092), runtime).start()
        assert runtime.files.exists("/data/.kafka_cleanshutdown")

    async def main() -> None:
        await host.start(program)

    simulation.run(main())


@pytest.mark.parametrize("after_ms", [0, 0.1, 0.5, 1, 1.5, 2, 3, 5])
@pytest.mark.parametrize("ended", ["kill", "clean stop"])
def test_a_start_that_is_cancelled_leaves_the_directory_to_the_next(ended: str, after_ms: float) -> None:
    """While logs are read by threads: they leave off before the directory is free, and everything is found again."""
    simulation = Simulation(5)
    host = simulation.host("127.0.0.1")

    async def fill(runtime: Runtime) -> None:
        broker = Broker(config(9092), runtime)
        await broker.start()
        await create_missing(broker.parts.administration, ["orders", "bills"])
        for topic in ("orders", "bills"):
            assert isinstance(broker.parts.partitions.of_topic(topic)[0].append(batch_of(b"x")), Appended)
        if ended == "clean stop":
            await broker.stop()

    async def give_up(runtime: Runtime) -> None:
        starting = asyncio.ensure_future(Broker(config(9092), runtime).start())
        await asyncio.wait([starting], timeout=after_ms / 1000)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await starting
            return  # It was faster.
        again = Broker(config(9092), runtime)
        await again.start()
        ends = {one.log.topic_partition.topic: one.log.log_end_offset for one in again.parts.partitions}
        assert ends == {"orders": 1, "bills": 1}
        await again.stop()
        assert runtime.files.exists("/data/.kafka_cleanshutdown")

    async def main() -> None:
        await host.start(fill)
        host.kill()
        await host.start(give_up)

    simulation.run(main())


def test_a_broker_that_was_not_started_says_so() -> None:
    simulation = Simulation(1)
    runtime = simulation.host("127.0.0.1").boot()
    with pytest.raises(LogError, match="has not been started"):
        _ = Broker(config(0), runtime).bootstrap


@pytest.mark.parametrize("seed", range(6))
def test_a_leader_epoch_is_never_used_again_for_other_records(seed: int) -> None:
    """Records of an epoch may be lost with a power cut, and the log forgets that it ever began; the broker must not."""
    simulation = Simulation(seed)
    host = simulation.host("127.0.0.1")
    epochs: list[int] = []

    async def append(runtime: Runtime) -> None:
        broker = Broker(config(9092), runtime)
        await broker.start()
        await create_missing(broker.parts.administration, ["orders"])
        partition = broker.parts.partitions.of_topic("orders")[0]
        assert isinstance(partition.append(batch_of(b"x")), Appended)
        epochs.append(partition.leader_epoch)

    async def main() -> None:
        await host.start(append)
        host.kill()
        for _ in range(3):
            await host.start(append)
            host.cut_power()

    simulation.run(main())
    assert epochs == sorted(set(epochs)), "every unclean stop is followed by an epoch of its own"
    assert len(epochs) == 4


@pytest.mark.parametrize(
    ("listeners", "advertised", "told"),
    [
        ("PLAINTEXT://0.0.0.0:9092", None, "machine:9092"),
        ("PLAINTEXT://[::]:9092", None, "machine:9092"),
        ("PLAINTEXT://:9092", None, "machine:9092"),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://elsewhere:1234", "elsewhere:1234"),
        ("PLAINTEXT://machine:9092", None, "machine:9092"),
    ],
)
def test_clients_are_never_told_to_come_to_every_address(
    listeners: str, advertised: str | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka refuses such a start; here clients are told the address others reach this machine under, and so is the user."""
    simulation = Simulation(1)
    host = simulation.host("machine")
    settings = {"listeners": listeners, "log.dirs": "/data"}
    if advertised is not None:
        settings["advertised.listeners"] = advertised

    async def program(runtime: Runtime) -> None:
        broker = Broker(BrokerConfig.of(settings), runtime)
        await broker.start()
        assert broker.bootstrap == told
        await broker.stop()

    async def main() -> None:
        await host.start(program)

    simulation.run(main())
    is_guess = advertised is None and "machine" not in listeners
    assert ("set advertised.listeners=PLAINTEXT://HOST:PORT" in caplog.text) is is_guess


def test_settings_without_effect_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation(1)
    host = simulation.host("machine")
    settings = {"log.dirs": "/data", "num.io.threads": "4", "num.partitions": "2", "broker.rack": "r"}

    async def program(runtime: Runtime) -> None:
        broker = Broker(BrokerConfig.of(settings), runtime)
        await broker.start()
        await broker.stop()

    async def main() -> None:
        await host.start(program)

    simulation.run(main())
    said = [record.getMessage() for record in caplog.records if "not implemented" in record.getMessage()]
    assert said == ["these settings are accepted but not implemented: num.io.threads"]


def test_a_broker_starts_without_what_only_groups_and_transactions_need() -> None:
    """A start is mostly imports; these come with the first group, or the first transactional id."""
    program = (
        "import sys\nimport semel.broker.app\n"
        "print([name for name in sys.modules if name in "
        "('semel.core.groups.shard', 'semel.core.transactions.coordinator.shard', 'numpy', 'numba')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
