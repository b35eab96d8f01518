"""Clients of different languages in one group, where their protocols meet: one owner each, every record once.

Method: a process per client, ours among those written elsewhere. They share a group by an assignor all of them know, one of them leads and
divides for all. Members leave and join in order while records flow: each record must be processed exactly once. Then the
broker gets kill -9 and comes back: nothing may be left out. The clients' diaries are compared with each other and with the
generations the broker wrote.
"""

from pathlib import Path

import pytest

from semel.peers.kafka import KafkaHome
from support.compat.compat_clients import PYTHON_CLIENTS
from support.compat.compat_kit import BrokerProcess, Sent, eventually
from support.groups.group_kit import OFFSETS_PARTITIONS, Crew, Ownership

PARTITIONS = 8
PER_PARTITION = 30
GROUP = "one-group"
_PATIENCE_SECONDS = 90


def produce(bootstrap: str, topic: str, count: int = PER_PARTITION) -> None:
    records = [Sent(partition, None, b"%d" % n) for n in range(count) for partition in range(PARTITIONS)]
    PYTHON_CLIENTS[0].produce(bootstrap, topic, records)


def wait_for(crew: Crew, per_partition: int) -> None:
    """Until every offset below this one was processed."""
    wanted = {(partition, offset) for partition in range(PARTITIONS) for offset in range(per_partition)}
    eventually(
        lambda: wanted <= set(crew.processed()),
        f"{per_partition} records of each partition are processed",
        _PATIENCE_SECONDS,
    )


@pytest.mark.mission("R-45")
@pytest.mark.parametrize(
    ("assignor", "clients"),
    [
        pytest.param(
            "range",
            ("java", "confluent-kafka", "kafka-python", "aiokafka", "semel"),
            marks=pytest.mark.java,
            id="range",
        ),
        pytest.param("roundrobin", ("semel", "aiokafka", "kafka-python", "confluent-kafka"), id="roundrobin"),
        pytest.param(
            "cooperative-sticky",
            ("confluent-kafka", "java", "semel", "kafka-python"),
            marks=pytest.mark.java,
            id="cooperative-sticky",
        ),
    ],
)
def test_every_record_once_and_every_partition_one_owner(
    assignor: str, clients: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home: KafkaHome | None = request.getfixturevalue("kafka_home") if "java" in clients else None
    settings = {
        "num_partitions": str(PARTITIONS),
        "offsets_topic_num_partitions": str(OFFSETS_PARTITIONS),
        "group_initial_rebalance_delay_ms": "300",
    }
    with BrokerProcess(tmp_path / "data", **settings) as broker:
        produce(broker.bootstrap, "letters")
        with Crew(tmp_path, broker.bootstrap, GROUP, "letters", assignor, kafka_home=home) as crew:
            first, *others = members = [crew.start(client) for client in clients]
            eventually(
                lambda: crew.is_shared(PARTITIONS, members),
                "all of them share the topic",
                _PATIENCE_SECONDS,
            )
            wait_for(crew, PER_PARTITION)
            crew.stop(first)  # Often the leader: the others need another one.
            eventually(lambda: crew.is_shared(PARTITIONS, others), "the others take over", _PATIENCE_SECONDS)
            produce(broker.bootstrap, "letters")
            wait_for(crew, 2 * PER_PARTITION)
            again = crew.start(clients[1])
            eventually(
                lambda: crew.is_shared(PARTITIONS, [*others, again]),
                "a new one gets its share",
                _PATIENCE_SECONDS,
            )
            produce(broker.bootstrap, "letters")
            wait_for(crew, 3 * PER_PARTITION)
            repeated = [place for place, count in crew.processed().items() if count > 1]
            assert not repeated, "nobody died, and yet these were processed twice"

            broker.kill()
            broker.start()
            produce(broker.bootstrap, "letters")
            wait_for(crew, 4 * PER_PARTITION)
            for member in crew.alive:
                crew.stop(member)
            Ownership.read(broker.directory, GROUP).check(
                crew.members, PARTITIONS, is_complete=assignor != "cooperative-sticky"
            )
