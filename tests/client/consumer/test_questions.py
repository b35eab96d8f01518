"""What a consumer answers about topics that it does not read, also after their leader has changed.

Method: a broker in a process of its own is killed and comes back as a leader of a newer epoch; the same consumer asks again.
"""

from pathlib import Path

from semel import Consumer, Producer
from semel.types import TopicPartition
from support.compat.compat_kit import BrokerProcess


def test_offsets_of_topics_it_does_not_read_are_found_again_after_a_restart(tmp_path: Path) -> None:
    place = TopicPartition("elsewhere", 0)
    with BrokerProcess(tmp_path / "data", num_partitions="1") as broker:
        settings = {"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": 20_000}
        with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            producer.send("elsewhere", b"one").result(30)
        with Consumer(settings) as consumer:
            assert consumer.end_offsets([place]) == {place: 1}
            broker.kill()
            broker.start()
            assert consumer.end_offsets([place]) == {place: 1}
            assert consumer.beginning_offsets([place]) == {place: 0}
