"""OffsetCommit (8), versions 2-10: a group's positions, stored.

    2-4   the client may say how long they are kept
    7+    static members say who they are
    9+    members of KIP-848 groups may commit; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH are told as such
    10+   topics by id

Every partition is answered by itself. A refusal by the group (generation, membership) is every known partition's code.
"""

from collections.abc import Awaitable
from functools import partial

from semel.broker.context import RequestContext
from semel.broker.parts import Coordinators
from semel.core.groups.committing import commit_refused
from semel.core.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(
    broker: Coordinators, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Store what may be stored."""
    version = context.version
    return broker.groups.ask(
        request.group_id,
        lambda shard, ticket, now_ms: shard.commit(request, version, ticket, now_ms),
        OffsetCommitResponse,
        partial(commit_refused, broker.image, request, version),
    )
