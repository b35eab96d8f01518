"""A host between clients and the broker that harms requests: it loses, delays, repeats and reorders whole ones.

Role.   `FaultyLink` runs a `faults.link.FaultLink` on a simulated host. The simulated network harms bytes, in order and once, as
        TCP has it; copies, and requests overtaken by their own retry, need a link that knows requests.
Flow.   Clients are given `LINK` for the broker's name. `finish` lets everything pass from then on.
"""

import asyncio
from typing import Final

from semel.runtime.bundle import Runtime
from semel.verify.faults.link import Fate, FaultLink, Plan, no_faults
from semel.verify.simulation.world import BROKER, PORT

LINK: Final = "link"


class FaultyLink:
    """The actor."""

    name = LINK

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.link: FaultLink | None = None

    async def run(self, runtime: Runtime) -> None:
        self.link = FaultLink(runtime.network, (BROKER, PORT), self.plan, exchanges_max=0)
        await self.link.listen(LINK, PORT)
        await asyncio.Event().wait()

    def finish(self) -> None:
        """Harm no more requests; connections that are silent stay so."""
        if self.link is not None:
            self.link.plan = no_faults

    def owes(self) -> str | None:
        return None

    @property
    def faults(self) -> int:
        """How many requests were harmed."""
        return 0 if self.link is None else self.link.tally.total() - self.link.tally[Fate.PASS]

    @property
    def failures(self) -> list[BaseException]:
        """Of the link itself: answers seen through it mean nothing then."""
        return [] if self.link is None else list(self.link.failures)
