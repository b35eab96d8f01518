"""The metrics of a broker that stands for election as the controller, under the names of Kafka's JMX exporters.

Role.   `MetricsPage` adds these lines where the broker stands for election.
Rules.  * What only the controller knows is 0 on every other broker, as in Kafka: sums over the brokers of a cluster are right.
        * Elections are counted over all terms of this process. Topics that are to be deleted count as topics, and their partitions
          neither as offline nor as led by others than preferred.
"""

from collections.abc import Iterator
from typing import Final

from semel.broker.metrics.text import Family, family_lines
from semel.cluster.controller.loop import Controller
from semel.core.cluster.controller.states import PartitionState

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"


def lines(controller: Controller) -> Iterator[str]:
    """The lines, with a turn for others after each partition."""
    context = controller.context
    topics = partitions = brokers = to_delete = offline = elsewhere = 0
    if context is not None:
        topics, brokers, to_delete = len(context.topics), len(context.live_ids()), len(context.to_delete)
        known = list(context.partitions())
        partitions = len(known)
        for one in known:
            state, replicas = context.leaderships.get(one), context.assignment(one).replicas
            if replicas and not context.is_being_deleted(one.topic):
                offline += context.partition_state(one) is not PartitionState.ONLINE
                elsewhere += state is not None and state.leader != replicas[0]
            yield ""
    for family, value in (
        (
            Family(
                _CONTROLLER + "activecontrollercount",
                "gauge",
                "1 while this broker is the controller, else 0.",
            ),
            int(context is not None),
        ),
        (Family(_CONTROLLER + "activebrokercount", "gauge", "Brokers that may lead."), brokers),
        (Family(_CONTROLLER + "globaltopiccount", "gauge", "Topics of the cluster."), topics),
        (Family(_CONTROLLER + "globalpartitioncount", "gauge", "Partitions of the cluster."), partitions),
        (
            Family(
                _CONTROLLER + "offlinepartitionscount", "gauge", "Partitions of the cluster without a leader."
            ),
            offline,
        ),
        (
            Family(
                _CONTROLLER + "preferredreplicaimbalancecount",
                "gauge",
                "Partitions that another replica leads than the preferred one.",
            ),
            elsewhere,
        ),
        (
            Family(_CONTROLLER + "topicstodeletecount", "gauge", "Topics whose deletion is not yet done."),
            to_delete,
        ),
        (
            Family(_STATS + "leaderelectionspersec", "counter", "Leaders that were elected here."),
            controller.elections,
        ),
        (
            Family(
                _STATS + "uncleanleaderelectionspersec",
                "counter",
                "Leaders that were elected here although they were not in sync.",
            ),
            controller.unclean_elections,
        ),
    ):
        yield from family_lines(family, [((), value)])
