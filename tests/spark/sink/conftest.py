"""What the sink's tests need beside Spark: the connector it is compared with."""

import os

import pytest

from semel.peers import kafka as kafka_peer
from semel.peers import spark as spark_peer


@pytest.fixture(scope="session")
def spark_connector_installed() -> None:
    """Spark's own Kafka connector; skips where it is missing, fails where peers are required."""
    try:
        spark_peer.connector_classpath()
    except kafka_peer.PeerMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(str(missing))
