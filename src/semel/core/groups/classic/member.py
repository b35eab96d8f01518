"""A member of a classic group: identity, protocols, assignment and waiting request.

Role.   Plain data that `ClassicGroup` holds.
Rules.  * At most one join and one sync of a member wait: a later request replaces an earlier one.
        * A waiting member needs no heartbeat, unless it is new: a new member that went away would never be noticed.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from semel.core.coordination.outcome import Ticket
from semel.core.wire.messages.group_rows import MemberMetadata
from semel.core.wire.messages.join_group import JoinGroupRequestProtocol
from semel.errors import InvariantError


class MemberProtocol(NamedTuple):
    """A protocol (an assignor's name), and the member's metadata for the leader under it."""

    name: str
    metadata: bytes


def protocols_of(given: Iterable[JoinGroupRequestProtocol]) -> tuple[MemberProtocol, ...]:
    """The protocols of a request, in the order the member prefers them."""
    return tuple(MemberProtocol(one.name, bytes(one.metadata)) for one in given)


@dataclass(slots=True)
class Member:
    """One member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata under this protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise InvariantError(f"member {self.member_id} does not know the protocol {protocol_name!r}")

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate this member prefers."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise InvariantError(f"member {self.member_id} knows none of the protocols {sorted(candidates)}")

    def as_row(self, protocol_name: str, assignment: bytes) -> MemberMetadata:
        """The member's entry in the group's row."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )

    @classmethod
    def of_row(cls, row: MemberMetadata, protocol_name: str, known: "Member | None") -> "Member":
        """The member of a row entry. Fields that rows lack (other protocols) come from the `known` member."""
        said = MemberProtocol(protocol_name, bytes(row.subscription))
        member = cls(
            member_id=row.member_id,
            group_instance_id=row.group_instance_id,
            client_id=row.client_id,
            client_host=row.client_host,
            # The oldest rows have no such field.
            rebalance_timeout_ms=row.session_timeout if row.rebalance_timeout < 0 else row.rebalance_timeout,
            session_timeout_ms=row.session_timeout,
            protocols=(said,),
            assignment=bytes(row.assignment),
        )
        if known is not None and said in known.protocols:
            member.protocols = known.protocols
        return member
