"""The metrics of a member, and of a controller: what they count, and that the page of docs/operations.md has each of them.

Method: three brokers that stand for election, in a simulated world; two of them die, and a topic is led by whom it should not be.
"""

import re
from pathlib import Path

from semel.broker.metrics import controlling, replication
from semel.broker.parts import Parts
from semel.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.cluster.directed_world import DirectedWorld

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
CONTROLLER = "kafka_controller_kafkacontroller_"
STATS = "kafka_controller_controllerstats_"


def metrics(cluster: DirectedWorld, broker_id: int | None) -> dict[str, float]:
    """What a broker counts, by name."""
    assert broker_id is not None
    broker = cluster.world.brokers[cluster.name(broker_id)].broker
    assert broker is not None
    parts: Parts = broker.parts
    membership = parts.membership
    assert membership is not None
    assert membership.controller is not None
    text = "".join(
        [*replication.lines(membership, parts.partitions), *controlling.lines(membership.controller)]
    )
    samples = (line.split(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_a_controller_counts_what_the_cluster_has() -> None:
    async def story(cluster: DirectedWorld) -> None:
        controller = cluster.controller
        assert controller is not None
        first, second = cluster.others
        await cluster.create("orders", [[first, controller], [controller, first]])
        await cluster.create("lonely", [[first, second]])
        await cluster.until(lambda: metrics(cluster, first)["semel_replicas_followed"] == 1)

        def counts() -> dict[str, float]:
            return {
                name.removeprefix(CONTROLLER).removeprefix(STATS): value
                for name, value in metrics(cluster, controller).items()
                if name.startswith((CONTROLLER, STATS)) and value
            }

        whole = {"activecontrollercount": 1, "globaltopiccount": 2, "globalpartitioncount": 3}
        assert counts() == {**whole, "activebrokercount": 3}
        for other in cluster.others:
            assert not any(value for name, value in metrics(cluster, other).items() if CONTROLLER in name)
        assert metrics(cluster, controller)["kafka_server_replicamanager_underreplicatedpartitions"] == 0

        cluster.world.brokers[cluster.name(second)].end("kill", 30.0)
        await cluster.until(lambda: cluster.state("lonely").isr == (first,))
        cluster.world.brokers[cluster.name(first)].end("kill", 10_000.0)
        await cluster.until(lambda: cluster.state("lonely").leader == -1)
        await cluster.until(lambda: cluster.state("orders", 1).isr == (controller,))
        await cluster.until(lambda: counts().get("activebrokercount") == 1)
        assert counts() == {
            **whole,
            "activebrokercount": 1,
            "offlinepartitionscount": 1,
            "preferredreplicaimbalancecount": 2,
            "leaderelectionspersec": 1,
        }
        assert metrics(cluster, controller)["kafka_server_replicamanager_underreplicatedpartitions"] == 2

        await cluster.until(lambda: cluster.is_registered(second))
        setting = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
        resource = AlterConfigsResource(resource_type=2, resource_name="lonely", configs=[setting])
        await cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        await cluster.until(lambda: cluster.state("lonely").leader == second)
        await cluster.until(lambda: counts().get("uncleanleaderelectionspersec") == 1)
        assert "offlinepartitionscount" not in counts()
        assert counts()["leaderelectionspersec"] == 2

    DirectedWorld(settings={"auto.leader.rebalance.enable": False}).run(story)


def test_the_page_has_every_metric_of_a_member_and_no_other() -> None:
    part = PAGE.read_text(encoding="utf-8").split("\n## Metrics of a cluster\n")[1].split("\n## ")[0]
    named = {
        name
        for line in part.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }

    async def story(cluster: DirectedWorld) -> None:
        assert named == set(metrics(cluster, cluster.controller))

    DirectedWorld().run(story)
