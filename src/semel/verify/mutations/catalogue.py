"""All mutations, by name."""

from collections.abc import Mapping
from typing import Final

from semel.verify.mutations import (
    appending,
    clients,
    elections,
    followers,
    groups,
    leaders,
    logs,
    members,
    rare_transactions,
    transactions,
)
from semel.verify.mutations.mutation import Mutation

MUTATIONS: Final[Mapping[str, Mutation]] = {
    one.name: one
    for module in (
        appending,
        logs,
        transactions,
        rare_transactions,
        groups,
        clients,
        elections,
        members,
        leaders,
        followers,
    )
    for one in module.MUTATIONS
}
