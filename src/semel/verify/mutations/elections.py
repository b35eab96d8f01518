"""A leader that is not fenced, and a ZooKeeper that keeps what it must forget.

Role.   Mutations found by `scenarios.election`.
"""

from typing import Final

from semel.core.zookeeper.tree import Tree
from semel.core.zookeeper.wire.messages import MultiOperation
from semel.verify.mutations.mutation import Mutation, Patch
from semel.verify.simulation.actors import elector


def _writes_without_the_check(patch: Patch) -> None:
    def unfenced(_fence: int, write: MultiOperation) -> list[MultiOperation]:
        return [write]

    patch.setattr(elector, "fenced", unfenced)


def _keeps_ephemeral_nodes(patch: Patch) -> None:
    """Nobody leads any more, and nobody may."""

    def ephemerals(_self: Tree, _session_id: int) -> list[str]:
        return []

    patch.setattr(Tree, "ephemerals", ephemerals)


MUTATIONS: Final = (
    Mutation(
        "a leader writes without the check of its epoch",
        "nobody writes once a later leader has",
        _writes_without_the_check,
        "election",
        r"wrote with epoch \d+ after",
        range(60),
        quick=True,
    ),
    Mutation(
        "ephemeral nodes outlive their session",
        "a leader that is gone is followed by another",
        _keeps_ephemeral_nodes,
        "election",
        "after it was calm .*owes",
        range(60),
        quick=True,
    ),
)
