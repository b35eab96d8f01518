"""Features that the cluster has finalized in `/feature`: a broker that does not know one cannot stay.

Role.   `FinalizedFeatures` reads the node, and again whenever it changes.
Flow.   `start` before the broker registers -> `levels` -> a change that this broker does not support -> `Member.fail`.
Rules.  * No node, and one whose features are disabled, means none.
        * A node that cannot be read is one line of the log, and means none, as in Kafka.
        * A level is supported between the lowest and the highest that the broker has. Of an unknown feature none is.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from semel.cluster.member import Member, MemberError
from semel.cluster.node_follower import NodeFollower
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import ZnodeError

_log: Final = logging.getLogger(__name__)


class UnsupportedFeatureError(MemberError):
    """The cluster has finalized a feature that this broker does not support."""


class FinalizedFeatures:
    """The cluster's features, and their epoch."""

    def __init__(self, member: Member, supported: Mapping[str, tuple[int, int]]) -> None:
        """`supported`: the lowest and the highest level of each feature."""
        self._member = member
        self._supported = supported
        self._follower = NodeFollower(member, self._again, name="finalized features")
        self.levels: Mapping[str, int] = {}
        self.epoch = -1
        """The version of the node; -1 without one."""
        self.on_change: list[Callable[[], object]] = []

    async def start(self) -> None:
        """Read them, and follow them from now on. Raises `UnsupportedFeatureError`, `NotPermittedError`."""
        self._member.watch(paths.FEATURE, self._follower.wake)
        self._member.on_session.append(self._follower.wake)
        await self._member.patiently(self._read)
        self._follower.start()

    def stop(self) -> None:
        self._follower.stop()

    async def _again(self) -> None:
        try:
            await self._read()
        except UnsupportedFeatureError as error:
            self._member.fail(error)

    async def _read(self) -> None:
        found = await self._member.client.get(paths.FEATURE, watch=True)
        levels: Mapping[str, int] = {}
        if found is not None:
            try:
                levels = documents.decode_features(found.data)
            except ZnodeError as error:
                _log.error("%s; the cluster is taken to have no features", error)
        known = self._supported
        flaws = [
            f"{name} {level}"
            + (f" (this broker supports {known[name][0]} to {known[name][1]})" if name in known else "")
            for name, level in sorted(levels.items())
            if name not in known or not known[name][0] <= level <= known[name][1]
        ]
        if flaws:
            raise UnsupportedFeatureError(
                f"the cluster at {self._member.settings.servers} has finalized features in {paths.FEATURE} that this broker does "
                f"not support: {', '.join(flaws)}. Take them back with kafka-features.sh downgrade, or run brokers that know them"
            )
        self.levels, self.epoch = levels, -1 if found is None else found.stat.version
        for changed in self.on_change:
            changed()
