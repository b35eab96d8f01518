"""A member of a cluster that obeys what it must not, or does not do what it was ordered.

Role.   Mutations found by `scenarios.replication`: broker epoch, controller epoch, leader epoch and topic id are each ignored once, and
        so are orders that stop a replica, and the end of a session.
"""

from collections.abc import Callable
from typing import Any, Final

from semel.broker.membership.orders import Orders
from semel.broker.replicas.fetchers import Fetchers
from semel.broker.replicas.replica import Replica
from semel.cluster.registration import Registration
from semel.core.cluster import fencing
from semel.core.cluster.fencing import NOT_GIVEN, Order
from semel.core.replication.following import Following
from semel.core.replication.leading import Leading
from semel.log.directory import LogDirectory
from semel.verify.mutations.mutation import Mutation, Patch

_SCENARIO: Final = "replication"


def _ignores_the_broker_epoch(patch: Patch) -> None:
    control_request = fencing.control_request
    patch.setattr(
        fencing, "control_request", lambda **told: control_request(**{**told, "broker_epoch": NOT_GIVEN})
    )


def _ignores_the_controller_epoch(patch: Patch) -> None:
    control_request = fencing.control_request
    patch.setattr(
        fencing, "control_request", lambda **told: control_request(**{**told, "known_controller_epoch": 0})
    )


def _obeys_any_leader_epoch(patch: Patch) -> None:
    """The last order that came counts, whatever its epochs are."""
    patch.setattr(fencing, "new_role", lambda *_: Order.OBEY)
    patch.setattr(Orders, "_known", lambda *_: None)

    def forgetful(become: Callable[..., bool]) -> Callable[..., bool]:
        def obey(self: Leading | Following, *, leader_epoch: int, **more: Any) -> bool:
            self.partition_epoch = -1
            if leader_epoch < self.leader_epoch:
                self.leader_epoch = leader_epoch - 1
            return become(self, leader_epoch=leader_epoch, **more)

        return obey

    patch.setattr(Leading, "become", forgetful(Leading.become))
    patch.setattr(Following, "become", forgetful(Following.become))


def _obeys_before_it_is_registered(patch: Patch) -> None:
    async def at_once(_self: Orders) -> None:
        return

    patch.setattr(Orders, "until_registered", at_once)


def _registers_once(patch: Patch) -> None:
    """A session that is lost is followed by another, and nobody says so in /brokers/ids."""

    async def not_again(_self: Registration) -> None:
        return

    patch.setattr(Registration, "_again", not_again)


def _goes_on_leading(patch: Patch) -> None:
    patch.setattr(Replica, "unlead", lambda *_: None)


def _follows_on(patch: Patch) -> None:
    """Who leads now, or has another leader, takes records of the last one."""
    patch.setattr(Fetchers, "stop", lambda *_: None)


def _forgets_the_high_watermark(patch: Patch) -> None:
    build = LogDirectory.__init__

    def forgetful(self: LogDirectory, *given: Any, **more: Any) -> None:
        build(self, *given, **more)
        self._high_watermarks = {}

    patch.setattr(LogDirectory, "__init__", forgetful)


MUTATIONS: Final = (
    Mutation(
        "orders for a former life obeyed",
        "a broker leads as was ordered in this life of it",
        _ignores_the_broker_epoch,
        _SCENARIO,
        r"I3: .* was ordered before",
        range(60),
    ),
    Mutation(
        "orders obeyed before the registration",
        "a broker leads as was ordered in this life of it",
        _obeys_before_it_is_registered,
        _SCENARIO,
        r"I3: .* was ordered before",
        range(60),
        quick=True,
    ),
    Mutation(
        "orders of a deposed controller obeyed",
        "the latest controller is believed",
        _ignores_the_controller_epoch,
        _SCENARIO,
        r"I3: broker . believes",
        range(60),
    ),
    Mutation(
        "orders of earlier leader epochs obeyed",
        "the latest leader leads",
        _obeys_any_leader_epoch,
        _SCENARIO,
        r"I[1-6]: |owes",
        range(60),
        quick=True,
    ),
    Mutation(
        "a leader that goes on when another leads",
        "a partition has one leader",
        _goes_on_leading,
        _SCENARIO,
        r"I[1-4]: ",
        range(60),
        quick=True,
    ),
    Mutation(
        "a follower that goes on when it is told to stop",
        "only its leader's records come to a log",
        _follows_on,
        _SCENARIO,
        r"I[1-6]: |owes",
        range(60),
        quick=True,
    ),
    Mutation(
        "a member that registers once",
        "a member comes back after its session was lost",
        _registers_once,
        _SCENARIO,
        r"owes a broker|I4: ",
        range(60),
    ),
    Mutation(
        "the high watermark forgotten at a restart",
        "what was visible stays visible",
        _forgets_the_high_watermark,
        _SCENARIO,
        r"the high watermark is .* after a clean stop",
        range(60),
        quick=True,
    ),
)
