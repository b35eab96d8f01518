"""min.insync.replicas of topics: how many brokers acks=all waits for.

Role.   Asks for the setting of several topics at a time; `doctor` and `semel cluster` judge by it.
Rules.  A topic whose settings are refused is left out: its reader knows how to do without.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.insight.rules import MIN_INSYNC

if TYPE_CHECKING:
    from semel.client.cluster import Cluster

_AT_ONCE: Final = 1000


async def min_insync_replicas(cluster: "Cluster", topics: Sequence[str]) -> dict[str, str]:
    """The setting of each of these topics, as the broker spells it."""
    from semel.client.calls.describe_configs import Resource, described_configs
    from semel.core.wire.messages.describe_configs import DescribeConfigsResource

    found: dict[str, str] = {}
    for first in range(0, len(topics), _AT_ONCE):
        asked = [
            DescribeConfigsResource(
                resource_type=Resource.TOPIC, resource_name=name, configuration_keys=[MIN_INSYNC]
            )
            for name in topics[first : first + _AT_ONCE]
        ]
        for result in await described_configs(cluster, asked, node_id=None):
            for one in result.configs if not result.error_code else ():
                if one.name == MIN_INSYNC:
                    found[result.resource_name] = one.value or ""
    return found
