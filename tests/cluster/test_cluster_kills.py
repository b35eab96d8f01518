"""Every broker of a mixed cluster is killed once under load: nothing acknowledged is lost or repeated, and replicas are equal.

Method: one round of `support.cluster.kill_lives`, of which `make campaign` plays hundreds of kills (docs/cluster-kills.md): Kafka's
VerifiableProducer and librdkafka write with acks=all and min ISR 2, VerifiableConsumer reads.
"""

import random
from pathlib import Path

import pytest

from semel.peers.kafka import KafkaHome
from support.cluster.kill_lives import KillRounds, plan
from support.cluster.mixed_cluster import MixedCluster


@pytest.mark.java
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_or_repeated(
    cluster: MixedCluster, old_kafka_home: KafkaHome, tmp_path: Path
) -> None:
    dice = random.Random(1)
    tally = KillRounds(cluster, old_kafka_home, tmp_path, dice).play(1, plan(cluster, dice))
    assert tally.is_right, tally
    assert tally.kills.total() == len(cluster.ids)
    assert tally.seen >= 200
