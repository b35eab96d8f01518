"""A consumer's dealings with its group's coordinator beside membership: positions stored and read back.

Role.   `GroupOffsets` remembers the coordinator and calls OffsetCommit and OffsetFetch there, one attempt each.
Rules.  * An answer that says the coordinator is elsewhere makes it forget where it was; the next attempt looks again.
        * Whether to try again is the caller's to decide: errors carry `retriable`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from semel.client.calls.find_coordinator import MOVED, NOTHING_DONE, CoordinatorKind, find_coordinator
from semel.client.calls.offset_commit import commit_offsets
from semel.client.calls.offset_fetch import fetch_offsets
from semel.client.cluster import Cluster
from semel.client.troubles import Kind
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.groups.member_words import Identity
from semel.errors import DisconnectedError, ErrorCode, RefusedError, error_code
from semel.types import TopicPartition

_LOOK_AT_BROKER: Final = "it is asked again; the broker's log says why it does not coordinate groups"


class GroupOffsets:
    """Of one group, through one cluster."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._node_id: int | None = None

    def forget(self) -> None:
        """The coordinator is not where it was."""
        self._node_id = None

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], identity: Identity) -> None:
        """Store these positions; raises `RefusedError` or `DisconnectedError`."""
        node_id = await self._coordinator()
        try:
            codes = await commit_offsets(self._cluster, node_id, offsets, identity)
        except DisconnectedError:
            self.forget()
            raise
        for where, number in codes.items():
            self._check(number, f"to store the position of {where}")

    async def committed(
        self, partitions: Iterable[TopicPartition], identity: Identity
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The stored positions of these partitions; partitions without one are left out. Positions in open transactions are refused."""
        node_id = await self._coordinator()
        try:
            found = await fetch_offsets(
                self._cluster, node_id, self._group_id, partitions, require_stable=True, identity=identity
            )
        except DisconnectedError:
            self.forget()
            raise
        self._check(found.error_code, "the stored positions")
        for where, number in found.refusals.items():
            self._check(number, f"the stored position of {where}")
        return found.offsets

    async def _coordinator(self) -> int:
        if self._node_id is None:
            self._node_id = await coordinator_of(self._cluster, self._group_id)
        return self._node_id

    def _check(self, number: int, what: str) -> None:
        code = error_code(number)
        report_coordinator(self._cluster, self._group_id, code)
        if not code:
            return
        if code in MOVED:
            self.forget()
        raise RefusedError(
            code, f"the coordinator of group {self._group_id} refuses {what}: {code.name} ({code.value})"
        )


async def coordinator_of(cluster: Cluster, group_id: str) -> int:
    """The group's coordinator; the log hears of a missing one as well."""
    try:
        return await find_coordinator(cluster, CoordinatorKind.GROUP, group_id)
    except RefusedError as error:
        if error.code.retriable:
            cluster.troubles.met(Kind.GROUP, group_id, str(error), _LOOK_AT_BROKER)
        raise


def report_coordinator(cluster: Cluster, group_id: str, code: ErrorCode) -> None:
    """A coordinator answered with this code."""
    if code in NOTHING_DONE:
        what = f"group {group_id} has no coordinator at {cluster.where}: {code.name}"
        cluster.troubles.met(Kind.GROUP, group_id, what, _LOOK_AT_BROKER)
    elif cluster.troubles.is_any:
        cluster.troubles.over(Kind.GROUP, group_id)
