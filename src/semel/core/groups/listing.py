"""The words by which groups can be listed: their states and types, as ListGroups has them."""

from typing import Final

STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
TYPES: Final = ("classic", "consumer", "share", "streams")
