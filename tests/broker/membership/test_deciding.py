"""Settings, where the broker that is asked is the controller of its cluster, and where it is not.

Method: three brokers that stand for election, in a simulated world; a client speaks the wire. Judged are the nodes of ZooKeeper.
"""

import pytest

from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.errors import ErrorCode
from support.cluster.directed_world import DirectedWorld

TOPIC, BROKER = 2, 4
FOR_EVER = 10_000.0


@pytest.mark.parametrize("kind", [TOPIC, BROKER])
def test_a_partition_is_led_again_once_its_settings_allow_an_unclean_election(kind: int) -> None:
    """The last replica in sync is gone for good, and another one is there: it leads when a setting of the topic, or of all brokers,
    says so, without anything else that happens."""

    async def story(cluster: DirectedWorld) -> None:
        last, behind = cluster.others
        await cluster.create("orders", [[last, behind]])
        cluster.world.brokers[cluster.name(behind)].end("kill", 20.0)
        await cluster.until(lambda: cluster.state("orders").isr == (last,))
        cluster.world.brokers[cluster.name(last)].end("kill", FOR_EVER)
        await cluster.until(lambda: cluster.state("orders").leader == -1)
        await cluster.until(lambda: cluster.is_registered(behind))
        await cluster.world.brokers[cluster.name(behind)].until_serving()
        assert cluster.state("orders").leader == -1
        setting = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
        resource = AlterConfigsResource(
            resource_type=kind, resource_name="orders" if kind == TOPIC else "", configs=[setting]
        )
        answer = await cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, behind)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message
        await cluster.until(lambda: cluster.state("orders").leader == behind)
        assert cluster.state("orders").isr == (behind,)

    DirectedWorld().run(story)
