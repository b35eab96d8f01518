"""Settings and users, where the broker that is asked is the controller of its cluster, and where it is not.

Method: three brokers that stand for election, in a simulated world; a client speaks the wire. Judged are the nodes of ZooKeeper.
"""

import pytest

from semel.core.cluster import entities
from semel.core.security import scram_credentials as scram
from semel.core.security.scram_credentials import Mechanism
from semel.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.core.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.errors import ErrorCode
from support.cluster.directed_world import DirectedWorld

TOPIC, BROKER = 2, 4
FOR_EVER = 10_000.0
UPSERT = ScramCredentialUpsertion(
    name="ann b", mechanism=Mechanism.SHA_256, iterations=8192, salt=b"salt", salted_password=b"salted"
)


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


def test_credentials_are_written_by_the_controller_as_kafka_writes_them() -> None:
    async def story(cluster: DirectedWorld) -> None:
        asked = AlterUserScramCredentialsRequest(upsertions=[UPSERT])
        refused = await cluster.ask(asked, 0, cluster.others[0])
        assert [one.error_code for one in refused.results] == [ErrorCode.NOT_CONTROLLER]
        answer = await cluster.ask(asked, 0)
        assert [(one.user, one.error_code) for one in answer.results] == [("ann b", ErrorCode.NONE)]
        kept = cluster.configs("users/ann%20b")
        assert list(kept) == ["SCRAM-SHA-256"]
        assert entities.decode_credential(kept["SCRAM-SHA-256"]) == scram.credential(
            Mechanism.SHA_256, iterations=8192, salt=b"salt", salted_password=b"salted"
        )
        described = DescribeUserScramCredentialsRequest(users=[UserName(name="ann b")])
        for broker_id in cluster.others:  # They hear of it by its notification.
            while (found := (await cluster.ask(described, 0, broker_id)).results[0]).error_code:
                assert found.error_code == ErrorCode.RESOURCE_NOT_FOUND
            assert [(one.mechanism, one.iterations) for one in found.credential_infos] == [(1, 8192)]
        deletion = ScramCredentialDeletion(name="ann b", mechanism=Mechanism.SHA_256)
        for code in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            answer = await cluster.ask(AlterUserScramCredentialsRequest(deletions=[deletion]), 0)
            assert [one.error_code for one in answer.results] == [code]
        assert cluster.node("/config/users/ann%20b") is None

    DirectedWorld().run(story)
