"""The choices of one proof."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.errors import SemelError
from semel.verify.faults.disturber import FAULTS
from semel.verify.proof.judge import Limits

IDEMPOTENCE: Final = "idempotence"
TRANSACTIONS: Final = "transactions"
TRANSFORM: Final = "transform"
GROUPS: Final = "groups"
SPARK: Final = "spark"
WORKLOADS: Final = (IDEMPOTENCE, TRANSACTIONS, TRANSFORM, GROUPS)
"""Writers without transactions; writers with; programs that consume, transform and produce in a group; groups that only read."""
ALL_WORKLOADS: Final = (*WORKLOADS, SPARK)
"""Spark as well, where it is asked for: it needs Java, and a while to start."""


class ProofError(SemelError):
    """The proof could not be carried out, so nothing is proved."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to play."""

    against: str | None = None
    """A cluster; without one, a broker of our own that may be killed."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """For clients."""
    producer_settings: Mapping[str, str] = field(default_factory=dict)
    """For the writers without transactions; to see what `enable.idempotence=false` does."""
    workloads: tuple[str, ...] = WORKLOADS
    seconds: float = 30.0
    round_seconds: float = 120.0
    """A longer proof is played in rounds of about this length, each on topics of its own, judged and let go."""
    seed: int = 1
    partitions: int = 6
    writers: int = 2
    """Of each kind."""
    fault_seconds: float = 2.0
    """The mean time between faults; 0: none."""
    faults: tuple[str, ...] = FAULTS
    """The faults that may be done, where they can be."""
    each_once: bool = False
    """Every kind of fault once, and then the end: `seconds` are the most it may take."""
    life_seconds: float = 0.0
    """How long a broker of our own lives at least before it is killed."""
    mutation: str | None = None
    """A rule that a broker of our own breaks, by its name in the catalogue of mutations: it must be found."""
    limits: Limits = field(default_factory=Limits)
