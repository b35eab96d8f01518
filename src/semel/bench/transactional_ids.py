"""Many transactional ids in one coordinator: what each costs, and whether more of them slow anything down.

Role.   `measured` gives, for each number of ids, the figures of both brokers.
Flow.   a fresh process -> the ids introduced -> known ones again, one at a time -> kill -9 -> started again until known ids are
        answered.
Rules.  * Memory is what the process holds more than before the first id, over the ids: Semel's. A JVM has its heap before.
        * A million is looked at once, in Semel alone: it is there to say how cost grows, and the peer would take half an hour.
        * Growth is against the smallest number of ids, inside one look.
        * No process is left behind, also after an error.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from semel.bench.broker_figures import Figure, Target, figure
from semel.bench.broker_load import Wire
from semel.bench.broker_workloads import KAFKA, SEMEL
from semel.bench.transaction_load import await_transactions, introduce
from semel.peers.processes import BrokerProcess, pid_of, resident_bytes

Maker = Callable[[Path], BrokerProcess]
_GROUP: Final = "Many transactional ids"
_KNOWN: Final = 500
_ASKED_AFTER_RESTART: Final = 200
_WARM: Final = 300
_PIECE: Final = 20_000
_ALONE_FROM: Final = 1_000_000
_IN_PROPORTION: Final = Target(1.5, absolute=True)


class Look(NamedTuple):
    """The work of one process."""

    per_second: float
    known_p50_seconds: float
    bytes_per_id: float
    restart_seconds: float


def measured(
    makers: Mapping[str, Maker], counts: Sequence[int], lives: int, directory: Path
) -> Iterator[list[Figure]]:
    """The figures for each number of ids, as they come."""
    first: dict[str, list[Look]] = {}
    for count in counts:
        looks: dict[str, list[Look]] = {SEMEL: [], KAFKA: []}
        is_alone = count >= _ALONE_FROM
        for number in range(1 if is_alone else lives):
            names = [SEMEL] if is_alone else [SEMEL, KAFKA]
            for name in names if number % 2 == 0 else reversed(names):
                place = directory / f"{name}-{count}-{number}"
                looks[name].append(look(makers[name], place, count))
                shutil.rmtree(place, ignore_errors=True)
        yield _figures(count, looks, first or None)
        first = first or looks


def look(make: Maker, directory: Path, count: int) -> Look:
    """Introduce so many ids to a new broker."""
    names = [f"id-{number:08d}" for number in range(count)]
    broker = make(directory)
    try:
        broker.start()
        with Wire(broker.bootstrap) as wire:
            await_transactions(wire, "first")
            introduce(wire, [f"warm-{number:06d}" for number in range(_WARM)])
            before = resident_bytes(pid_of(broker))
            pieces = [
                introduce(wire, names[position : position + _PIECE]) for position in range(0, count, _PIECE)
            ]
            held = resident_bytes(pid_of(broker)) - before
            known = introduce(wire, names[:: max(1, count // _KNOWN)][:_KNOWN], in_flight=1)
        broker.kill()
        began = time.perf_counter()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            introduce(wire, names[:_ASKED_AFTER_RESTART])
        restart = time.perf_counter() - began
    finally:
        broker.kill()
    seconds = sum(piece.seconds for piece in pieces)
    return Look(count / seconds, known.latency(0.5), max(1, held) / count, restart)


def _figures(
    count: int, looks: Mapping[str, Sequence[Look]], first: Mapping[str, Sequence[Look]] | None
) -> list[Figure]:
    def both(quantity: str, value: Callable[[str, int], float], *targets: Target) -> Figure:
        semel, kafka = ([value(name, at) for at in range(len(looks[name]))] for name in (SEMEL, KAFKA))
        return figure(_GROUP, f"{count:,} ids", quantity, semel, kafka, targets=targets)

    made = [
        both("introduced/s", lambda name, at: looks[name][at].per_second, Target(1.0, at_least=True)),
        both(
            "InitProducerId of a known id, p50, µs",
            lambda name, at: looks[name][at].known_p50_seconds * 1e6,
            Target(1.0),
        ),
        figure(_GROUP, f"{count:,} ids", "memory per id, bytes", [one.bytes_per_id for one in looks[SEMEL]]),
        both("restart until answered, s", lambda name, at: looks[name][at].restart_seconds, Target(1.0)),
    ]
    if first is not None:
        made.append(
            both(
                "p50 ÷ that with the fewest ids",
                lambda name, at: looks[name][at].known_p50_seconds / first[name][at].known_p50_seconds,
                _IN_PROPORTION,
            )
        )
        made.append(
            both(
                "restart ÷ that with the fewest ids",
                lambda name, at: looks[name][at].restart_seconds / first[name][at].restart_seconds,
            )
        )
    return made
