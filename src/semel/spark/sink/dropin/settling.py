"""Ending the transactions of tasks from the driver: open ones, committed ones, leftovers.

Role.   `BrokerTransactions`: `is_in_use` and `is_over` before a task writes, `describe` before a batch is decided, `commit` after it,
        `abort`, `end_run` and `sweep` for what does not count.
Flow.   `committing` calls these; they run on a client's own loop. A task's transaction is named by its id, producer id and epoch: any
        process that knows them may end it, as in Kafka's own two-phase commit.
Rules.  * Ending a transaction twice is harmless: a coordinator answers a repeated commit as the first.
        * An abort names the epoch it means, so it cannot touch a later transaction. A fence names it too, but ends any open
          transaction of the id, whatever its epoch: it is for ids with none open, or none that counts. A transaction that
          counts is not fenced: once committed it stays recognizable.
        * No attempt can begin behind the driver's back. It takes its epoch first and asks afterwards whether its batch is over; the
          driver says that it is and sweeps afterwards. So either the attempt hears it, or the sweep finds its epoch and fences it.
        * Requests to one coordinator are pipelined; how many wait at a time is bounded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeVar

from semel.client.blocking import BlockingCluster
from semel.client.calls.describe_transactions import describe_transactions
from semel.client.calls.end_txn import end_txn
from semel.client.calls.find_coordinator import CoordinatorKind, at_coordinator
from semel.client.calls.init_producer_id import init_producer_id
from semel.client.calls.list_transactions import list_transactions
from semel.client.calls.offset_fetch import committed_offsets
from semel.client.cluster import Cluster
from semel.client.settings import ProducerConfig
from semel.core.idempotence.delivery import Identity
from semel.core.transactions.producer import END_TXN_V1_MAX, PRODUCE_V1_MAX
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, refused
from semel.runtime.closing import Closing
from semel.spark.sink.common.first_contact import patience_ms, reach
from semel.spark.sink.common.names import ledger_id, over_id, prefix_of, run_prefix
from semel.spark.sink.dropin.batch_ledger import (
    UNUSED_MS,
    Described,
    Place,
    Standing,
    TaskTransaction,
    is_passing,
    is_ready,
    standing,
)
from semel.types import TopicPartition

_PATTERN_VERSION: Final = 2
_AT_ONCE_MAX: Final = 64
_V2: Final = 2
_TWO_PHASE_INIT: Final = 6
_ONGOING, _EMPTY = "Ongoing", "Empty"
_MOVED_ON: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_LOOKS_MAX: Final = 100
_LOOK_SECONDS: Final = 0.1

A = TypeVar("A")
B = TypeVar("B")


class Abilities(NamedTuple):
    """The abilities of a cluster about transactions."""

    protocol: int
    """1 or 2: the version of transactions that is switched on."""
    two_phase: bool


class BrokerTransactions(Closing):
    """The transactions of tasks, at the brokers; to be closed, or used as a context."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._cluster = BlockingCluster(config)
        self._known: Abilities | None = None

    def reach(self, *, is_first: bool = False) -> None:
        """Wait for a broker that is restarting: this process may never have seen it. `is_first`: nor has any batch."""
        self._cluster.run(reach, patience_ms(self._config, is_first=is_first))

    @property
    def able(self) -> Abilities:
        """The cluster's abilities; asked once."""
        if self._known is None:
            self.reach()
            self._known = self._cluster.run(abilities)
        return self._known

    def describe(self, tasks: Sequence[TaskTransaction]) -> dict[str, Described]:
        """The coordinators' answers by transactional id; unknown ids are left out."""
        return self._cluster.run(describe, [one.transactional_id for one in tasks])

    def is_in_use(self, transactional_id: str) -> bool:
        """Whether a transaction is open under this id."""
        found = self._cluster.run(describe, [transactional_id]).get(transactional_id)
        return found is not None and found.state == _ONGOING

    def commit(self, tasks: Sequence[TaskTransaction]) -> dict[int, Standing]:
        """Commit each; the standing of each, by task."""
        return self._cluster.run(commit_all, tasks, protocol=self.able.protocol)

    def abort(self, tasks: Sequence[TaskTransaction]) -> None:
        """Abort each that is still open; leave the others alone."""
        self._cluster.run(abort_all, tasks, protocol=self.able.protocol)

    def is_over(self, name: str, place: Place, ledger: TopicPartition) -> bool:
        """Whether this sink needs nothing more of an attempt at this place: its run is over, or its batch decided."""
        return self._cluster.run(is_over, name, place, ledger)

    def end_run(self, name: str, run_id: str) -> None:
        """From now on no attempt of this run begins to write."""
        self._cluster.run(move_on, TaskTransaction(-1, over_id(name, run_id), -1, -1, 0, ""))

    def sweep(self, name: str, run_id: str, keep: Collection[TaskTransaction]) -> int:
        """Abort a sink's open transactions except `keep`; how many there were. A run's ready epochs are fenced.

        These are attempts that Spark did not count: of tasks that failed or came second, of drivers that died.
        """
        return self._cluster.run(sweep, name, run_id, keep, protocol=self.able.protocol)

    def close(self) -> None:
        """End the connections. Closing twice is harmless."""
        self._cluster.close()


async def abilities(cluster: Cluster) -> Abilities:
    """The abilities of this cluster."""

    async def ask() -> Abilities:
        features, served = await cluster.features(), await cluster.served()
        is_v2 = (
            features.get("transaction.version", 0) >= _V2
            and served.get(ApiKey.END_TXN, (0, 0))[1] > END_TXN_V1_MAX
            and served.get(ApiKey.PRODUCE, (0, 0))[1] > PRODUCE_V1_MAX
        )
        return Abilities(2 if is_v2 else 1, served.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1] >= _TWO_PHASE_INIT)

    return await cluster.patiently(ask)


async def describe(cluster: Cluster, transactional_ids: Sequence[str]) -> dict[str, Described]:
    """The coordinators' answers by transactional id; unknown ids are left out."""
    found = await describe_transactions(cluster, transactional_ids)
    return {
        name: Described(
            one.state,
            one.producer_id,
            one.producer_epoch,
            -1 if one.start_ms is None else one.start_ms,
            one.timeout_ms,
        )
        for name, one in found.items()
    }


async def commit_all(
    cluster: Cluster, tasks: Sequence[TaskTransaction], *, protocol: int
) -> dict[int, Standing]:
    """Commit each; the standing of each, by task."""
    codes = await _bounded(lambda one: _end(cluster, one, commit=True, protocol=protocol), tasks)
    denied = [
        one.transactional_id for one, code in zip(tasks, codes, strict=True) if code is not ErrorCode.NONE
    ]
    described = await _settled(cluster, denied)
    return {
        one.task: standing(one, code, described.get(one.transactional_id))
        for one, code in zip(tasks, codes, strict=True)
    }


async def _settled(cluster: Cluster, transactional_ids: Sequence[str]) -> dict[str, Described]:
    """The coordinators' answers for ids whose end they denied, once no state there is about to change."""
    looks = 0
    while True:
        described = await describe(cluster, transactional_ids) if transactional_ids else {}
        looks += 1
        if looks == _LOOKS_MAX or not any(map(is_passing, described.values())):
            return described
        await cluster.runtime.tasks.sleep(_LOOK_SECONDS)


async def abort_all(cluster: Cluster, tasks: Sequence[TaskTransaction], *, protocol: int) -> None:
    """Abort each that is still open; leave the others alone."""
    await _bounded(lambda one: _end(cluster, one, commit=False, protocol=protocol), tasks)


async def is_over(cluster: Cluster, name: str, place: Place, ledger: TopicPartition) -> bool:
    """Whether this sink needs nothing more of an attempt at this place."""
    writer, over = ledger_id(name), over_id(name, place.run_id)
    described = await describe(cluster, [writer, over])
    if over in described:
        return True
    # While the row is being written the sweep is still to come. An attempt that waited here for its end would wait for a
    # driver that died there, too.
    if writer not in described or described[writer].state == _ONGOING:
        return False
    notes = await committed_offsets(cluster, writer, [ledger], require_stable=True)
    return ledger in notes and place.is_closed_by(Place.of_note(notes[ledger].metadata))


async def sweep(
    cluster: Cluster, name: str, run_id: str, keep: Collection[TaskTransaction], *, protocol: int
) -> int:
    """Abort a sink's open transactions except `keep`; how many there were. A run's ready epochs are fenced."""
    prefix, kept = prefix_of(name), {one.identity for one in keep}
    listed = await list_transactions(
        cluster, states=[_ONGOING, _EMPTY], pattern=await _pattern(cluster, prefix)
    )
    ids = [
        one.transactional_id
        for one in listed
        if one.transactional_id.startswith(prefix if one.state == _ONGOING else run_prefix(name, run_id))
    ]
    if not ids:
        return 0
    found = [
        (TaskTransaction(-1, each, one.producer_id, one.producer_epoch, 0, ""), one)
        for each, one in (await describe(cluster, ids)).items()
    ]
    left = [one for one, now in found if now.state == _ONGOING and one.identity not in kept]
    await abort_all(cluster, left, protocol=protocol)
    ready = [one for one, now in found if is_ready(now)]
    # An abort of the second protocol moves the epoch; one of the first leaves it to a writer that is late, which could begin again.
    await _bounded(lambda one: move_on(cluster, one), ready if protocol == _V2 else [*ready, *left])
    return len(left)


async def move_on(cluster: Cluster, task: TaskTransaction) -> None:
    """Take the next epoch of an id, unless somebody has gone on from this one. Without an epoch: the next, whichever that is."""

    async def order(coordinator: int) -> None:
        code, _taken = await init_producer_id(
            cluster,
            task.transactional_id,
            timeout_ms=UNUSED_MS,
            node_id=coordinator,
            identity=Identity(task.producer_id, task.producer_epoch),
        )
        if code and code not in _MOVED_ON:
            raise refused(code, f"to fence {task.transactional_id}", by=cluster.where)

    await at_coordinator(cluster, CoordinatorKind.TRANSACTION, task.transactional_id, order)


async def _pattern(cluster: Cluster, prefix: str) -> str | None:
    """The same as an expression, for brokers that can look for one."""
    served = (await cluster.served()).get(ApiKey.LIST_TRANSACTIONS, (0, 0))
    return f"{_quoted(prefix)}.*" if served[1] >= _PATTERN_VERSION else None


def _quoted(text: str) -> str:
    """Names hold letters, digits and these few signs."""
    return text.replace(".", "[.]")


async def _end(cluster: Cluster, task: TaskTransaction, *, commit: bool, protocol: int) -> ErrorCode:
    """The coordinator's answer to the end of a transaction; raises only while it gives no final answer."""

    async def order(coordinator: int) -> ErrorCode:
        code = await end_txn(
            cluster,
            task.transactional_id,
            Identity(task.producer_id, task.producer_epoch),
            commit=commit,
            node_id=coordinator,
            keeps_epoch=protocol != _V2,
        )
        if code.retriable:
            raise refused(code, f"to end {task.transactional_id}", by=cluster.where)
        return code

    return await at_coordinator(cluster, CoordinatorKind.TRANSACTION, task.transactional_id, order)


async def _bounded(work: Callable[[A], Awaitable[B]], items: Sequence[A]) -> list[B]:
    """The results in their order, with a bound on how many wait at once."""
    room = asyncio.Semaphore(_AT_ONCE_MAX)

    async def one(item: A) -> B:
        async with room:
            return await work(item)

    return await asyncio.gather(*map(one, items))
