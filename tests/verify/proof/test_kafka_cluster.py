"""A proof on three brokers of Apache Kafka: every one is met through its own link, and one is cut off now and then.

Method: a real cluster, real clients, faults on the way only; nothing may be found, and nothing may have gone around the links.
"""

import asyncio
from pathlib import Path

import pytest

from semel.peers.kafka import KafkaHome
from semel.verify.faults.cluster import FaultCluster
from semel.verify.faults.disturber import Proxy
from semel.verify.faults.link import Fate
from semel.verify.proof import runner
from semel.verify.proof.judge import Limits
from semel.verify.proof.options import Options
from semel.verify.proof.runner import prove
from support.peers.kafka_cluster import kafka_cluster


@pytest.mark.java
@pytest.mark.campaign  # Three brokers, each with a JVM.
@pytest.mark.timeout(600)
def test_a_cluster_of_several_brokers_keeps_every_promise(
    kafka_home: KafkaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FaultCluster] = []

    def remembered(bootstrap: str, options: Options) -> Proxy:
        made.append(FaultCluster(bootstrap))
        return made[-1]

    monkeypatch.setattr(runner, "_proxy", remembered)
    with kafka_cluster(kafka_home, tmp_path, 3) as brokers:
        options = Options(
            against=brokers[0].bootstrap, seconds=30, seed=2, fault_seconds=1.0, limits=Limits(600, 600)
        )
        found = asyncio.run(prove(options, lambda _stage, _what: None))
    assert found.findings == []
    (cluster,) = made
    assert sorted(cluster.brokers) == sorted(("127.0.0.1", one.port) for one in brokers)
    for broker in cluster.brokers:
        assert cluster.link(broker).tally[Fate.PASS] > 0, f"nobody met {broker} through its link"
    assert any("cut off" in what for what in found.faults), found.faults
    assert found.summary.acknowledged > 0
    assert found.summary.committed > 0
