"""Lossy links in front of every broker of a cluster, on a thread of their own.

Role.   `FaultCluster` is a `FaultProxy` for any number of brokers. A client that starts at `bootstrap` meets every broker through
        a link of its own, so that faults hit all of them, or one.
Flow.   A link to the bootstrap address; whenever an answer names a broker, a link to where it says it is, opened then and kept.
Rules.  * A broker that moves or joins later gets its link when it is first named; links are bounded.
        * All links share the names they learn: an answer on one link may name a leader that other links must reach.
        * `plan` holds for all links, but for those of which `isolate` says that nothing passes.
        * It reads frames: connections are plain text. TLS goes around it.
Elsewhere. Fates and plans: `faults.link`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from semel.core.wire.registry import ApiKey
from semel.runtime.network import RealNetwork
from semel.verify.fault_proxy import HERE, ProxyThread, address_of
from semel.verify.faults.link import Address, Fate, FaultLink, FaultLinkError, Plan, no_faults

_LINKS_MAX: Final = 1000


class FaultCluster(ProxyThread):
    """Running links; `bootstrap` is where clients go."""

    def __init__(self, bootstrap: str, plan: Plan = no_faults) -> None:
        super().__init__()
        self._plan = plan
        self._hosts: set[bytes] = set()
        self._first = self._link(address_of(bootstrap.partition(",")[0]))
        self._links: dict[Address, FaultLink] = {}
        """By where the broker says it is."""
        self._isolated: Address | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HERE}:{self._first.address[1]}"

    @property
    def brokers(self) -> list[Address]:
        """The brokers named so far, in that order."""
        return list(self._links)

    @property
    def plan(self) -> Plan:
        """The fate of requests."""
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def tally(self) -> Counter[Fate]:
        """How many requests met each fate."""
        total: Counter[Fate] = Counter()
        for link in self._all():
            total += Counter(link.tally)  # A copy: the links go on meanwhile.
        return total

    @property
    def failures(self) -> list[BaseException]:
        return [failure for link in self._all() for failure in link.failures]

    def link(self, broker: Address) -> FaultLink:
        """The way to one broker."""
        return self._links[broker]

    def isolate(self, broker: Address | None) -> None:
        """Nothing passes to this broker, by its name; None: everything passes again."""
        self._isolated = broker

    def _all(self) -> Sequence[FaultLink]:
        return [self._first, *self._links.values()]

    def _link(self, broker: Address) -> FaultLink:
        def plan(key: ApiKey, count: int) -> tuple[Fate, float]:
            return (Fate.CUT_BEFORE, 0.0) if self._isolated == broker else self._plan(key, count)

        return FaultLink(RealNetwork(), broker, plan, exchanges_max=0, naming=self._name, hosts=self._hosts)

    async def _name(self, broker: Address) -> Address:
        link = self._links.get(broker)
        if link is None:
            if len(self._links) >= _LINKS_MAX:
                raise FaultLinkError(
                    f"the cluster named more than {_LINKS_MAX} brokers, {broker} is one more"
                )
            fresh = self._link(broker)
            await fresh.listen(HERE)
            link = self._links.setdefault(broker, fresh)
            if link is not fresh:  # Two answers named it at once.
                await fresh.close()
        return HERE, link.address[1]

    async def _open(self) -> None:
        await self._first.listen(HERE)

    async def _close(self) -> None:
        for link in self._all():
            await link.close()
