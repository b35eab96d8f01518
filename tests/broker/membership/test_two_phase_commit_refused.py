"""Two-phase commit is no setting of a member: leaders on Kafka's brokers would not fence the former owner of a transaction."""

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.errors import ConfigError
from semel.runtime.bundle import Runtime
from support.net.net_worlds import in_simulation


def test_a_member_does_not_start_with_it_and_says_why() -> None:
    async def story(runtime: Runtime) -> None:
        settings: dict[str, str | int | bool] = {
            "zookeeper.connect": "127.0.0.1:2181",
            "transaction.two.phase.commit.enable": True,
            "log.dirs": "data",
        }
        with pytest.raises(ConfigError, match="two-phase commit") as refused:
            await Broker(BrokerConfig.of(settings), runtime).start()
        assert "set it to false" in str(refused.value)
        assert "zookeeper.connect" in str(refused.value)

    in_simulation(story)
