"""Five counters that fence: whose order, wish or question counts in a cluster.

Role.   Controller epoch, broker epoch, leader epoch and partition epoch are compared here and nowhere else. The fifth counter,
        the version of `/controller_epoch`, is compared by ZooKeeper itself, in the check that goes with each write.
Flow.   Handlers of control requests ask `control_request` and then `new_role` or `stop`; leaders and their followers
        `leader_epoch`; the controller judges a leader's wish by `wish`.
Rules.  * A broker epoch of -1 is not given, and accepted. So is one that is higher than the broker's own: the controller may hear
          of a registration before the broker has the answer to it.
        * Equal controller epochs are obeyed; equal leader epochs of an order are not, since it was obeyed before.
"""

from enum import Enum, auto
from typing import Final

from semel.errors import ErrorCode

NOT_GIVEN: Final = -1
DURING_DELETION: Final = -2
"""The leader epoch of an order to stop a replica whose topic is deleted: it counts whatever is known."""


def control_request(
    *, broker_epoch: int, own_broker_epoch: int, controller_epoch: int, known_controller_epoch: int
) -> ErrorCode:
    """Whether an order of a controller is for this life of this broker, and from the latest controller it knows."""
    if is_stale_broker(broker_epoch, own_broker_epoch):
        return ErrorCode.STALE_BROKER_EPOCH
    if controller_epoch < known_controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE


def is_stale_broker(broker_epoch: int, registered_epoch: int) -> bool:
    """Whether an epoch is of an earlier life of a broker than the registered one."""
    return NOT_GIVEN not in (broker_epoch, registered_epoch) and broker_epoch < registered_epoch


class Order(Enum):
    """The meaning of an order for one partition."""

    OBEY = auto()
    SAME = auto()
    """It was obeyed before; only a topic id that was missing is taken over."""
    OLD = auto()


def new_role(leader_epoch: int, known_leader_epoch: int) -> Order:
    """An order to lead or to follow, beside the leader epoch that is known here."""
    if leader_epoch > known_leader_epoch:
        return Order.OBEY
    return Order.SAME if leader_epoch == known_leader_epoch else Order.OLD


def stop(leader_epoch: int, known_leader_epoch: int) -> ErrorCode:
    """Whether a replica is to stop. An equal leader epoch counts: the controller takes a replica away without a new leader."""
    if leader_epoch in (NOT_GIVEN, DURING_DELETION) or leader_epoch >= known_leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH


def leader_epoch(asked: int, own: int) -> ErrorCode:
    """The answer of a leader to a client, or follower, that believes in a leader epoch (-1: in none)."""
    if asked < 0 or asked == own:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < own else ErrorCode.UNKNOWN_LEADER_EPOCH


def wish(
    *,
    leader_epoch: int,
    known_leader_epoch: int,
    partition_epoch: int,
    known_partition_epoch: int,
    is_present_state: bool,
) -> ErrorCode:
    """The controller's answer to a leader that wishes for another ISR. A wish that is fulfilled already is a repeat."""
    if partition_epoch > known_partition_epoch or leader_epoch > known_leader_epoch:
        return ErrorCode.NOT_CONTROLLER  # The leader knows more than this controller.
    if leader_epoch < known_leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if is_present_state:
        return ErrorCode.NONE
    return ErrorCode.INVALID_UPDATE_VERSION if partition_epoch < known_partition_epoch else ErrorCode.NONE
