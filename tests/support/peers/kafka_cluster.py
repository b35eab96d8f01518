"""Apache Kafka with several brokers: one that is its controller too, the others beside it."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from semel.peers.kafka import KafkaBroker, KafkaHome, _free_ports

_HEAP = "320M"


@contextlib.contextmanager
def kafka_cluster(home: KafkaHome, directory: Path, brokers: int) -> Iterator[list[KafkaBroker]]:
    """So many brokers that run; internal topics have as many replicas as they may."""
    settings = {
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.replication.factor": str(brokers),
        "default.replication.factor": str(brokers),
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.num.partitions": "6",
        "group.initial.rebalance.delay.ms": "0",
    }
    with contextlib.ExitStack() as running:
        first = KafkaBroker(home, directory / "1", settings=settings, heap=_HEAP)
        first.start()
        running.callback(first.kill)
        everybody = [first]
        controller = _setting(directory / "1" / "server.properties", "controller.quorum.bootstrap.servers")
        cluster_id = _setting(first.data / "meta.properties", "cluster.id")
        for number in range(2, brokers + 1):
            (port,) = _free_ports(1)
            own = {
                "process.roles": "broker",
                "node.id": str(number),
                "controller.quorum.bootstrap.servers": controller,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            }
            one = KafkaBroker(
                home, directory / str(number), settings={**settings, **own}, heap=_HEAP, port=port
            )
            one.directory.mkdir(parents=True)
            properties = one.directory / "format.properties"
            wanted = {**one._properties(0), **own}
            properties.write_text("".join(f"{key}={value}\n" for key, value in wanted.items()))
            home.run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties))
            one.start()
            running.callback(one.kill)
            everybody.append(one)
        yield everybody


def _setting(properties: Path, key: str) -> str:
    found = re.search(rf"^{re.escape(key)}=(.*)$", properties.read_text(), re.MULTILINE)
    assert found is not None, f"{properties} says nothing of {key}"
    return found.group(1)
