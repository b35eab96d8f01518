"""A sink's first question to a broker that is restarting waits for it; one that nobody will ever answer is given up.

Method: a broker that is killed and comes back at its port while the question is being asked.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from semel.client.blocking import BlockingCluster
from semel.client.settings import ProducerConfig
from semel.errors import UnreachableError
from semel.spark.sink.common.first_contact import reach
from support.compat.compat_kit import BrokerProcess

PATIENCE_MS = 60_000


def test_a_broker_that_is_down_is_waited_for(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        broker.kill()
        config = ProducerConfig.of({"bootstrap.servers": broker.bootstrap})
        with BlockingCluster(config) as cluster, ThreadPoolExecutor(1) as pool:
            with pytest.raises(UnreachableError):
                cluster.run(reach, 0)
            waiting = pool.submit(cluster.run, reach, PATIENCE_MS)
            broker.start()
            waiting.result()
