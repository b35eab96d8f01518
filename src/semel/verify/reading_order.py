"""In which order readers of committed records got theirs: as Kafka's first design had it, and as it is.

Role.   For teaching: `side_by_side` draws both for a small log, docs/transactions.md shows one. No reader works this way; ours
        follow `in_offset_order`, as every Kafka client does.
Rules.  * Pure. A log is a list of entries, an entry's index its offset.
        * First design (`buffered`): the client fetches everything at once, keeps what belongs to a transaction until its end
          arrives, and then delivers all of it, or drops it. A record of no transaction is delivered at once. So order is lost, and an
          open transaction costs the client memory.
        * Now (`in_offset_order`): the broker gives nothing at or above the last stable offset, the first one of the oldest open
          transaction. Below it every fate is known: records come in order, and the client keeps nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


class Record(NamedTuple):
    """A record, of a transaction or of none."""

    name: str
    transaction: str | None = None


class End(NamedTuple):
    """The marker of a transaction."""

    transaction: str
    committed: bool = True


class Delivery(NamedTuple):
    """A record that the application gets, once the log has that entry."""

    offset: int
    name: str


Entry = Record | End
_HEADINGS: Final = ("offset", "stored", "kept by the client until the end", "in the order of the log")


def buffered(log: Sequence[Entry]) -> list[Delivery]:
    """The first design: the records delivered, in this order."""
    held: dict[str, list[str]] = {}
    delivered: list[Delivery] = []
    for offset, entry in enumerate(log):
        match entry:
            case Record(name, None):
                delivered.append(Delivery(offset, name))
            case Record(name, str(transaction)):
                held.setdefault(transaction, []).append(name)
            case End(transaction, committed):
                names = held.pop(transaction, [])
                delivered += [Delivery(offset, name) for name in names if committed]
    return delivered


def in_offset_order(log: Sequence[Entry]) -> list[Delivery]:
    """As it is: the records delivered, in this order."""
    delivered: list[Delivery] = []
    position = 0
    for offset in range(len(log)):
        stable = _last_stable_offset(log[: offset + 1])
        delivered += [Delivery(offset, name) for name in _committed(log[: offset + 1], position, stable)]
        position = max(position, stable)
    return delivered


def side_by_side(log: Sequence[Entry]) -> str:
    """A line for each entry of the log: its kind, and the records each design delivers when it is there."""
    lines = [_HEADINGS]
    designs = buffered(log), in_offset_order(log)
    for offset, entry in enumerate(log):
        old, new = (", ".join(one.name for one in design if one.offset == offset) for design in designs)
        lines.append((str(offset), _stored(entry), old, new))
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _last_stable_offset(log: Sequence[Entry]) -> int:
    open_since: dict[str, int] = {}
    for offset, entry in enumerate(log):
        match entry:
            case Record(_name, str(transaction)):
                open_since.setdefault(transaction, offset)
            case End(transaction, _committed):
                open_since.pop(transaction, None)
            case Record():
                pass
    return min(open_since.values(), default=len(log))


def _committed(log: Sequence[Entry], start: int, stop: int) -> Iterator[str]:
    """The records from `start` to `stop` whose next marker commits them, and those that need none."""
    for offset in range(start, stop):
        entry = log[offset]
        if isinstance(entry, Record) and (
            entry.transaction is None or _is_committed(log[offset:], entry.transaction)
        ):
            yield entry.name


def _is_committed(rest: Sequence[Entry], transaction: str) -> bool:
    ends = (one for one in rest if isinstance(one, End) and one.transaction == transaction)
    return next(ends).committed


def _stored(entry: Entry) -> str:
    if isinstance(entry, Record):
        return entry.name
    return f"{'commit' if entry.committed else 'abort'} of {entry.transaction}"
