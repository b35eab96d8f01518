"""Transactions beside Apache Kafka: how many, how fast a commit, what they cost readers and writers, and a million ids.

Role.   `python -m semel.bench transactions` runs both brokers at once, loads one and the other in turn, and prints what each
        took; `--write` makes the page, its figures as JSON and its plot.
Flow.   both brokers up, the topic of transactions made -> every workload in rounds -> page. Many transactional ids: a broker of
        its own each time (`transactional_ids`).
Rules.  * One driver for both brokers: producers on plain sockets (`transaction_load`), and confluent-kafka as people use it
          (`transaction_clients`), which speaks transactions v1.
        * Both brokers have warmed up on a workload before its first round counts.
        * The cost of transactions is the ratio with over without, and committed over uncommitted: round n of one
          workload over round n of the other, measured right after it. Unlike *Semel ÷ Kafka* it is not taken inside one
          round.
"""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.bench import transactional_ids
from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_clients import PARTITIONS, has_confluent
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_load import Load, ProduceFrame, produce_large, records_of
from semel.bench.broker_workloads import KAFKA, SEMEL, Samples, Side, Workload, fresh_topic, measure
from semel.bench.group_load import await_coordinator
from semel.bench.measure import PAIRS_DEFAULT
from semel.bench.peer import Peer, own_makers, peer_of, peer_words, running_sides
from semel.bench.transaction_clients import (
    confluent_copy,
    confluent_scan,
    confluent_stream,
    confluent_transact,
)
from semel.bench.transaction_load import V1, V2, Mixed, await_transactions, fill_with_aborted, scan, transact
from semel.core.records.build import load_kernels

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}
_QUICK_PAIRS: Final = 2
_RECORD_BYTES: Final = 100
_MANY: Final = 10
"""Producers at once."""
_PER_TRANSACTION: Final = 500
_MIXED_RECORDS: Final = 100
_ABORT_EVERY: Final = 10
_PER_FETCH: Final = 50
_AS_FAST: Final = Target(1.0, at_least=True)
_TWICE: Final = Target(2.0, at_least=True)
_THREE_TIMES: Final = Target(3.0, at_least=True)
_AS_SHORT: Final = Target(1.0)
_CONFLUENT: Final = "confluent-kafka"
_HEADER: Final = """\
# Transactions beside Apache Kafka

Written by `python -m semel.bench transactions --write docs/benchmarks-transactions.md`; do not edit. Both brokers ran on this
machine at the same time, one process each, Apache Kafka {version} at the settings it ships with and its heap of 1 GB; each
round loads one and then the other, every second round in the opposite order. A figure is the median of the rounds, the
brackets hold the true median with the probability below. *Semel ÷ Kafka* is taken inside each round. CPU is that of the whole
broker process, all threads. *The loader* is one process with a plain socket per producer and frames encoded beforehand.

![Semel beside Apache Kafka]({plot})

"""
_NOTES: Final = (
    """The loader's v1 transaction is AddPartitionsToTxn, Produce, EndTxn; its v2 transaction is Produce, EndTxn. A commit is timed
  from EndTxn to its answer. Kafka answers before its markers are written and puts off whoever comes back before that
  (CONCURRENT_TRANSACTIONS); the loader asks again a millisecond later. Semel answers before, too, but writes them before it
  looks at another request.""",
    """Ten producers keep the one thread of Semel's broker busy, and a commit waits for those of the others: what a transaction
  costs it, and where, is in [the profile](benchmarks-profile.md).""",
    """confluent-kafka speaks v1 and waits 20 ms where it is put off; ten of its producers are ten threads of one process, which
  then is busier than the broker.""",
    """The scan reads transactions of 100 records of 100 B, every tenth aborted. *read_committed ÷ read_uncommitted* compares the
  records of the log that were gone through in a second. It, and *with ÷ without*, divide rounds of two workloads that were
  measured one after the other: on a busy machine they say little.""",
    """Transactional ids: each look is a process of its own, the ids introduced by InitProducerId, 50 in flight; then known ones
  again, one at a time; then kill -9, and the time from starting the process until 200 known ids spread over all partitions of
  `__transaction_state` have been answered. A million is Semel alone, once.""",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    transactions: int = 2_000
    client_transactions: int = 300
    copied: int = 50_000
    mixed: int = 2_000
    streamed: int = 500_000
    ids: tuple[int, ...] = (1_000, 10_000, 100_000)
    lives: int = 3


QUICK: Final = Scale(
    transactions=300,
    client_transactions=30,
    copied=5_000,
    mixed=200,
    streamed=50_000,
    ids=(1_000, 3_000),
    lives=1,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Two workloads of which the second is what the first would be without transactions."""

    dear: Workload
    plain: Workload
    quantity: str


def workloads(scale: Scale) -> list[Workload]:
    """Transactions, as many as can be done."""
    names = _Names()

    def load(producers: int, protocol: int) -> Callable[[Side, str], Load]:
        return lambda side, topic: transact(
            side.broker.bootstrap,
            topic,
            names.some(producers),
            count=scale.transactions // producers,
            protocol=protocol,
        )

    def use_client(producers: int) -> Callable[[Side, str], Load]:
        return lambda side, topic: confluent_transact(
            side.broker.bootstrap,
            topic,
            names.some(producers),
            count=max(1, scale.client_transactions // (1 if producers == 1 else 3)),
        )

    def fill(side: Side, topic: str) -> None:
        batches = ProduceFrame.of(topic, records_of(_RECORD_BYTES, count=_PER_TRANSACTION))
        produce_large(side.wire, batches, scale.copied // _PER_TRANSACTION, in_flight=5)

    def copy(side: Side, source: str) -> Load:
        with fresh_topic(side) as target:
            return confluent_copy(
                side.broker.bootstrap,
                source,
                target,
                names.some(1)[0],
                records=scale.copied,
                per_transaction=_PER_TRANSACTION,
                size_bytes=_RECORD_BYTES,
            )

    def one(producers: int, work: str, run: Callable[[Side, str], Load], target: Target) -> Workload:
        return Workload(
            "Transactions of one record",
            f"{producers} producer{'s' * (producers > 1)}, {work}",
            "transactions",
            run,
            target,
            per_gb=False,
            partitions=producers,
            latency=True,
        )

    made = [
        one(producers, f"the loader, v{protocol}", load(producers, protocol), _TWICE)
        for producers in (1, _MANY)
        for protocol in (V1, V2)
    ]
    made += [one(producers, _CONFLUENT, use_client(producers), _TWICE) for producers in (1, _MANY)]
    made.append(
        Workload(
            "Consume, transform, produce",
            f"{_CONFLUENT}, {_PER_TRANSACTION} records per transaction",
            "records",
            copy,
            _THREE_TIMES,
            per_gb=False,
            fill=fill,
        )
    )
    return [one for one in made if _CONFLUENT not in one.work or has_confluent()]


def costs(scale: Scale) -> list[Cost]:
    """The cost of transactions for readers and writers."""
    names = _Names("cost")
    mixed: dict[tuple[str, str], Mixed] = {}

    def fill(side: Side, topic: str) -> None:
        mixed[side.name, topic] = fill_with_aborted(
            side.wire,
            topic,
            names.some(1)[0],
            transactions=scale.mixed,
            records=_MIXED_RECORDS,
            size_bytes=_RECORD_BYTES,
            abort_every=_ABORT_EVERY,
        )

    def read(committed: bool) -> Callable[[Side, str], Load]:
        return lambda side, topic: scan(
            side.wire, topic, mixed[side.name, topic], committed=committed, per_fetch=_PER_FETCH
        )

    def consume(committed: bool) -> Callable[[Side, str], Load]:
        def run(side: Side, topic: str) -> Load:
            log = mixed[side.name, topic]
            shown = (log.transactions - (log.aborted if committed else 0)) * log.records
            load = confluent_scan(
                side.broker.bootstrap, topic, records=shown, size_bytes=_RECORD_BYTES, committed=committed
            )
            gone_through = log.transactions * log.records
            return Load(load.seconds, load.client_cpu, gone_through, gone_through * _RECORD_BYTES)

        return run

    def stream(transactional: bool) -> Callable[[Side, str], Load]:
        return lambda side, topic: confluent_stream(
            side.broker.bootstrap,
            topic,
            names.some(1)[0] if transactional else None,
            records=scale.streamed,
            size_bytes=_RECORD_BYTES,
        )

    def scanning(who: str, way: Callable[[bool], Callable[[Side, str], Load]]) -> Cost:
        group = "Reading a log with 10 % aborted"
        dear, plain = (
            Workload(
                group,
                f"{who}, {'read_committed' if committed else 'read_uncommitted'}",
                "records",
                way(committed),
                _AS_FAST,
                per_gb=False,
                fill=fill,
            )
            for committed in (True, False)
        )
        return Cost(dear, plain, "read_committed ÷ read_uncommitted")

    writing = [
        Workload(
            "Writing with and without",
            f"{_CONFLUENT}, {work}",
            "records",
            stream(transactional),
            _AS_FAST,
            per_gb=False,
            partitions=PARTITIONS,
        )
        for transactional, work in ((True, "transactions of 100 ms"), (False, "no transactions"))
    ]
    made = [
        scanning("the loader", read),
        scanning(_CONFLUENT, consume),
        Cost(writing[0], writing[1], "with ÷ without"),
    ]
    return [one for one in made if _CONFLUENT not in one.dear.work or has_confluent()]


class _Names:
    """Transactional ids, each used once."""

    def __init__(self, kind: str = "txn") -> None:
        self._kind = (
            f"{kind}-{secrets.token_hex(4)}"  # A peer that runs already may know the ids of another run.
        )
        self._made = 0

    def some(self, count: int) -> list[str]:
        self._made += count
        return [f"bench-{self._kind}-{number}" for number in range(self._made - count, self._made)]


def figures_of(workload: Workload, samples: Samples) -> list[Figure]:
    """Speed, the broker's CPU, and how long a commit takes."""
    loads, broker = samples.loads, samples.broker_cpu

    def both(quantity: str, values: Callable[[str], list[float]], *targets: Target) -> Figure:
        return figure(workload.group, workload.work, quantity, values(SEMEL), values(KAFKA), targets=targets)

    made = [
        both(
            f"{workload.unit}/s",
            lambda name: [load.units / load.seconds for load in loads[name]],
            workload.speed,
        ),
        both(
            f"broker CPU µs per {workload.unit.removesuffix('s')}",
            lambda name: [
                cpu * 1e6 / load.units for cpu, load in zip(broker[name], loads[name], strict=True)
            ],
        ),
    ]
    if workload.latency:
        made.append(
            both("commit p50, µs", lambda name: [load.latency(0.5) * 1e6 for load in loads[name]], _AS_SHORT)
        )
        made.append(
            both("commit p99, µs", lambda name: [load.latency(0.99) * 1e6 for load in loads[name]], _AS_SHORT)
        )
    return made


def figures_of_cost(cost: Cost, dear: Samples, plain: Samples) -> list[Figure]:
    """Both workloads, and the first over the second for each broker."""

    def kept(name: str) -> list[float]:
        return [
            (ours.units / ours.seconds) / (theirs.units / theirs.seconds)
            for ours, theirs in zip(dear.loads[name], plain.loads[name], strict=True)
        ]

    share = figure(
        cost.dear.group, cost.dear.work, cost.quantity, kept(SEMEL), kept(KAFKA), targets=[_AS_FAST]
    )
    return [*figures_of(cost.dear, dear), share, *figures_of(cost.plain, plain)]


def run_all(
    scale: Scale, pairs: int, root: Path, show: Callable[[str], object], peer: Peer | None
) -> list[Figure]:
    """Everything; many transactional ids only beside a peer that may be killed."""
    load_kernels()
    made: list[Figure] = []
    with contextlib.ExitStack() as stack:
        sides = running_sides(stack, peer, root, SETTINGS)
        for side in sides:
            await_coordinator(side.wire, "first")
            await_transactions(side.wire, "first")
        for workload in workloads(scale):
            made += (fresh := figures_of(workload, measure(workload, sides, pairs)))
            show(table(fresh))
        for cost in costs(scale):
            measured = [measure(workload, sides, pairs) for workload in (cost.dear, cost.plain)]
            made += (fresh := figures_of_cost(cost, *measured))
            show(table(fresh))
    if peer is not None and peer.is_ours:
        brokers = own_makers(peer, SETTINGS)
        for fresh in transactional_ids.measured(brokers, scale.ids, min(pairs, scale.lives), root / "ids"):
            made += fresh
            show(table(fresh))
    return made


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench transactions`."""
    parser = parser_of("transactions", "transactions")
    parser.add_argument(
        "--million", action="store_true", help="introduce a million transactional ids too: some minutes more"
    )
    options = options_of(parser, arguments)
    if options.quick and options.million:
        parser.error("--quick is not for a million ids; leave one of them out")
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else PAIRS_DEFAULT)
    scale = QUICK if options.quick else Scale()
    if options.million:
        scale = Scale(ids=(*scale.ids, 1_000_000))
    command = f"python -m semel.bench transactions --pairs {pairs}" + " --million" * options.million
    command += peer_words(options)
    return carry_out(
        options,
        lambda root: run_all(scale, pairs, root, show, peer_of(options)),
        command,
        _NOTES,
        header=_HEADER,
        suite="transactions",
    )
