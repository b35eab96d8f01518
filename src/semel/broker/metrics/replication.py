"""The metrics of a member of a cluster: how its replicas stand beside the others, under the names of Kafka's JMX exporters.

Role.   `MetricsPage` adds these lines where the broker is a member. A broker alone has the only replica of everything.
Rules.  * A partition is under-replicated where this broker leads it and the ISR lacks a replica, as in Kafka.
        * Counts of the ISR's changes are of those that the controller granted to leaders here.
"""

from collections.abc import Iterator
from typing import Final

from semel.broker.metrics.text import Family, family_lines
from semel.broker.partitions import Partitions
from semel.broker.parts import Membership

_MANAGER: Final = "kafka_server_replicamanager_"
_FETCHERS: Final = "kafka_server_replicafetchermanager_"


def lines(membership: Membership, partitions: Partitions) -> Iterator[str]:
    """The lines, with a turn for others after each partition."""
    under_replicated = under_min = at_min = shrinks = expands = replicated = followed = 0
    for replica in partitions:
        counts, led = replica.counts, replica.leader
        shrinks += counts.isr_shrinks
        expands += counts.isr_expands
        replicated += counts.replicated_bytes_in
        followed += replica.follower is not None
        if led is not None:
            leading = led.leading
            in_sync, least = (
                len(leading.isr),
                leading.effective_min_insync(led.log.config.min_insync_replicas),
            )
            under_replicated += in_sync < 1 + len(leading.followers)
            under_min += in_sync < least
            at_min += in_sync == least
        yield ""
    fetchers = membership.fetchers
    for family, value in (
        (
            Family(
                _MANAGER + "underreplicatedpartitions",
                "gauge",
                "Partitions led here whose ISR lacks a replica.",
            ),
            under_replicated,
        ),
        (
            Family(
                _MANAGER + "underminisrpartitioncount",
                "gauge",
                "Partitions led here that refuse acks=all: the ISR is below min.insync.replicas.",
            ),
            under_min,
        ),
        (
            Family(
                _MANAGER + "atminisrpartitioncount",
                "gauge",
                "Partitions led here that refuse acks=all when one more replica is lost.",
            ),
            at_min,
        ),
        (Family(_MANAGER + "isrshrinkspersec", "counter", "Members that left an ISR."), shrinks),
        (Family(_MANAGER + "isrexpandspersec", "counter", "Replicas that joined an ISR."), expands),
        (Family("semel_replicas_followed", "gauge", "Partitions that are followed here."), followed),
        (
            Family("semel_replication_bytes_in_total", "counter", "Bytes of batches fetched from leaders."),
            replicated,
        ),
        (
            Family(_FETCHERS + "maxlag", "gauge", "Records that the slowest replica here is behind."),
            fetchers.lag_max,
        ),
        (
            Family(
                _FETCHERS + "failedpartitionscount",
                "gauge",
                "Partitions that are not fetched until the controller names a new leader epoch.",
            ),
            fetchers.failed,
        ),
        (
            Family("semel_controller_epoch", "gauge", "The latest controller that was obeyed."),
            membership.orders.controller_epoch,
        ),
        (
            Family(
                "semel_broker_epoch", "gauge", "Which life of the broker it is; -1 before it is registered."
            ),
            membership.store.broker_epoch,
        ),
    ):
        yield from family_lines(family, [((), value)])
