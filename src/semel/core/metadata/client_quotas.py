"""Client quotas: the entities that may have one, the quotas there are, and the selection by a filter.

Role.   The rules of AlterClientQuotas and DescribeClientQuotas as functions over values. Pure.
Flow.   The handlers turn requests into entities and filters; the metadata image keeps a mapping of entity -> values.
Rules.  * An entity is a user, a client id, both, or an address; a name of None stands for everyone without a quota of
          their own.
        * Refusals carry Kafka's codes.
Elsewhere. Holding clients to their quotas: nobody does so yet; they are kept and described.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from semel.errors import ErrorCode, Refuse

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(kind, name) of each part, by kind."""
_WHOLE: Final = {"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"}
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    USER: frozenset(
        {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
    ),
    IP: frozenset({"connection_creation_rate"}),
}
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_NEAR: Final = 1e-6


class Match(IntEnum):
    """How a filter's part means names."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Part(NamedTuple):
    """One part of a filter."""

    kind: str
    match: int
    name: str | None


def entity_of(parts: Sequence[tuple[str, str | None]]) -> Entity | Refuse:
    """The entity these parts name, or why they name none."""
    if not parts:
        return _invalid("Invalid empty client quota entity.")
    named: dict[str, str | None] = {}
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            return _invalid(f"Unhandled client quota entity type: {kind}")
        if kind in named:
            return _invalid(f"Invalid client quota entity, contains duplicate entity type: {kind}")
        if name == "":
            return _invalid(f"Empty {kind} not supported")
        named[kind] = name
    if IP in named and len(named) > 1:
        return _invalid("Invalid quota entity combination: an ip goes with neither user nor client-id.")
    if named.get(IP) is not None and not _is_address(str(named[IP])):
        return _invalid(f"{named[IP]} is not a valid IP")
    return tuple(sorted(named.items()))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def after(
    entity: Entity, before: Mapping[str, float], changes: Sequence[tuple[str, float | None]]
) -> dict[str, float] | Refuse:
    """The quotas of an entity once these (key, value or None to remove) are made."""
    values = dict(before)
    known = _KEYS[IP if entity[0][0] == IP else USER]
    for key, value in changes:
        if key not in known:
            return _invalid(f"Invalid configuration key {key}: {', '.join(sorted(known))} exist here")
        if value is None:
            values.pop(key, None)
            continue
        flaw = _flaw(key, value)
        if flaw is not None:
            return _invalid(flaw)
        values[key] = value
    return values


def _flaw(key: str, value: float) -> str | None:
    if not value > 0:
        return f"Quota {key} must be greater than 0"
    if key in _WHOLE:
        limit = _INT_MAX if key == "connection_creation_rate" else _LONG_MAX
        if value > limit:
            return f"Proposed value for {key} is too large: {limit} at most."
        if abs(value - round(value)) > _NEAR:
            return f"{key} cannot be a fractional value."
    return None


def filtered(
    quotas: Mapping[Entity, Mapping[str, float]], parts: Sequence[Part], *, strict: bool
) -> list[tuple[Entity, Mapping[str, float]]] | Refuse:
    """The quotas a filter means, in the order of their entities. `strict`: of entities without other parts alone."""
    kinds = [part.kind for part in parts]
    for part in parts:
        flaw = _part_flaw(part, kinds)
        if flaw is not None:
            return flaw
    if IP in kinds and len(kinds) > 1:
        return _invalid(
            "Invalid entity filter component combination: ip goes with neither user nor client-id."
        )
    found = []
    for entity in sorted(quotas, key=_order):
        named = dict(entity)
        if strict and len(named) != len(parts):
            continue
        if all(
            part.kind in named and (part.match == Match.ANY or named[part.kind] == part.name)
            for part in parts
        ):
            found.append((entity, quotas[entity]))
    return found


def _part_flaw(part: Part, kinds: Sequence[str]) -> Refuse | None:
    if not part.kind:
        return _invalid("Invalid empty entity type.")
    if kinds.count(part.kind) > 1:
        return _invalid(f"Entity type {part.kind} cannot appear more than once in the filter.")
    if part.kind not in (USER, CLIENT_ID, IP):
        return Refuse(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{part.kind}' not supported")
    if part.match not in set(Match):
        return _invalid(f"Unknown match type {part.match}")
    if part.match == Match.EXACT and part.name is None:
        return _invalid("An exact match needs a name.")
    if part.match != Match.EXACT and part.name is not None:
        return _invalid(f"Match type {part.match} goes with no name.")
    return None


def _order(entity: Entity) -> tuple[tuple[str, str], ...]:
    return tuple((kind, name or "") for kind, name in entity)


def _invalid(reason: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_REQUEST, reason)
