"""Operations on ZooKeeper as values, and the generators that ask for them.

Role.   An event of the controller is a generator of `Steps`: it yields a batch of operations, is sent their results in the same order,
        and returns its outcome. The shell carries batches out, with the check of `/controller_epoch` in front of each write.
Rules.  * The operations of one batch depend on nothing in it: they are asked together.
        * An answer may have been lost, and the write sent again. A conditional write that finds the version behind its own, with its own
          data, was carried out; so was a create that finds its own data. Only the controller writes these nodes.
        * A refusal that no rule expects raises `UnexpectedResultError`.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from semel.core.cluster import documents, paths
from semel.core.cluster.controller.context import Context, Leadership
from semel.core.cluster.documents import ZnodeError
from semel.core.zookeeper.wire.messages import Create, Delete, Exists, GetChildren, GetData, SetData
from semel.core.zookeeper.words import Stat, ZooKeeperCode
from semel.errors import SemelError
from semel.types import TopicPartition

T = TypeVar("T")
Operation: TypeAlias = GetData | Exists | GetChildren | Create | SetData | Delete
WRITES: Final = (Create, SetData, Delete)
_FINE: Final = (ZooKeeperCode.OK,)


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one operation."""

    code: ZooKeeperCode = ZooKeeperCode.OK
    data: bytes | None = None
    stat: Stat | None = None
    names: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.code is ZooKeeperCode.OK

    @property
    def version(self) -> int:
        return -1 if self.stat is None else self.stat.version


Batch: TypeAlias = Sequence[Operation]
Steps: TypeAlias = Generator[Batch, Sequence[Result], T]


class UnexpectedResultError(SemelError):
    """ZooKeeper refused an operation of the controller for a reason that no rule expects."""

    def __init__(self, operation: Operation, code: ZooKeeperCode) -> None:
        super().__init__(
            f"ZooKeeper answered {code.name} to the controller's {type(operation).__name__} of {operation.path}"
        )
        self.reason = code


def ask(operations: Batch, *expected: ZooKeeperCode) -> Steps[Sequence[Result]]:
    """The results of a batch, each done or of an expected code."""
    if not operations:
        return ()
    results = yield operations
    for operation, result in zip(operations, results, strict=True):
        if result.code not in _FINE and result.code not in expected:
            raise UnexpectedResultError(operation, result.code)
    return results


def get(path: str, *, watch: bool = False) -> Steps[Result | None]:
    """A node's data, or None where there is none. A missing node is not watched."""
    (found,) = yield from ask([GetData(path, watch)], ZooKeeperCode.NO_NODE)
    return found if found.is_done else None


def get_all(names: Sequence[str], path: Callable[[str], str], *, watch: bool) -> Steps[dict[str, Result]]:
    """The nodes that are there, by name."""
    results = yield from ask([GetData(path(one), watch) for one in names], ZooKeeperCode.NO_NODE)
    return {name: result for name, result in zip(names, results, strict=True) if result.is_done}


def exists(path: str, *, watch: bool) -> Steps[bool]:
    """Whether a node is there; with a watch its coming is told."""
    (found,) = yield from ask([Exists(path, watch)], ZooKeeperCode.NO_NODE)
    return found.is_done


def children(path: str, *, watch: bool = False) -> Steps[tuple[str, ...]]:
    """The names of a node's children; none of a missing node."""
    (found,) = yield from ask([GetChildren(path, watch, with_stat=True)], ZooKeeperCode.NO_NODE)
    return found.names


def delete(all_paths: Iterable[str]) -> Steps[None]:
    """Nodes without children are gone."""
    yield from ask([Delete(one) for one in all_paths], ZooKeeperCode.NO_NODE)


def delete_trees(roots: Sequence[str]) -> Steps[None]:
    """Nodes are gone, and all below them. Others may still add to them."""
    left = list(roots)
    while left:
        levels = [left]
        while levels[-1]:
            above = levels[-1]
            found = yield from ask([GetChildren(one) for one in above], ZooKeeperCode.NO_NODE)
            levels.append(
                [f"{path}/{name}" for path, result in zip(above, found, strict=True) for name in result.names]
            )
        left = []
        for level in reversed(levels):
            results = yield from ask(
                [Delete(one) for one in level], ZooKeeperCode.NO_NODE, ZooKeeperCode.NOT_EMPTY
            )
            if any(one.code is ZooKeeperCode.NOT_EMPTY for one in results):
                left = list(roots)


# States of partitions


def read_states(
    partitions: Sequence[TopicPartition],
) -> Steps[dict[TopicPartition, Leadership | ZnodeError]]:
    """The states that are there."""
    results = yield from ask(
        [GetData(paths.state(*one)) for one in partitions],
        ZooKeeperCode.NO_NODE,
    )
    found: dict[TopicPartition, Leadership | ZnodeError] = {}
    for partition, result in zip(partitions, results, strict=True):
        if result.is_done:
            try:
                node = documents.decode_state(*partition, result.data)
            except ZnodeError as error:
                found[partition] = error
            else:
                found[partition] = Leadership.of(node, result.version)
    return found


def write_states(
    context: Context, wanted: Mapping[TopicPartition, Leadership]
) -> Steps[dict[TopicPartition, Leadership | None]]:
    """Write states against the partition epochs that they carry; with their new epochs, or None where another was there."""
    rows = list(wanted.items())
    data = [documents.encode_state(state.node(context.epoch)) for _one, state in rows]
    results = yield from ask(
        [
            SetData(paths.state(*partition), written, state.partition_epoch)
            for (partition, state), written in zip(rows, data, strict=True)
        ],
        ZooKeeperCode.BAD_VERSION,
        ZooKeeperCode.NO_NODE,
    )
    written: dict[TopicPartition, Leadership | None] = {}
    doubtful = []
    for (partition, state), result, own in zip(rows, results, data, strict=True):
        written[partition] = _at(context, state, state.partition_epoch + 1) if result.is_done else None
        if result.code is ZooKeeperCode.BAD_VERSION:
            doubtful.append((partition, state, own))
    looks = yield from ask(
        [GetData(paths.state(*partition)) for partition, _state, _own in doubtful], ZooKeeperCode.NO_NODE
    )
    for (partition, state, own), look in zip(doubtful, looks, strict=True):
        if look.data == own and look.version == state.partition_epoch + 1:
            written[partition] = _at(context, state, look.version)
    return written


def create_states(
    context: Context, wanted: Mapping[TopicPartition, Leadership]
) -> Steps[dict[TopicPartition, Leadership]]:
    """Make the states of new partitions, and the nodes above them; those that are made."""
    taken = ZooKeeperCode.NODE_EXISTS
    topics = dict.fromkeys(one.topic for one in wanted)
    yield from ask([Create(paths.partitions(name), None) for name in topics], taken, ZooKeeperCode.NO_NODE)
    yield from ask(
        [Create(paths.partition(*one), None) for one in wanted],
        taken,
        ZooKeeperCode.NO_NODE,
    )
    rows = list(wanted.items())
    data = [documents.encode_state(state.node(context.epoch)) for _one, state in rows]
    results = yield from ask(
        [Create(paths.state(*partition), own) for (partition, _state), own in zip(rows, data, strict=True)],
        taken,
        ZooKeeperCode.NO_NODE,
    )
    made: dict[TopicPartition, Leadership] = {}
    doubtful = []
    for (partition, state), result, own in zip(rows, results, data, strict=True):
        if result.is_done:
            made[partition] = _at(context, state, 0)
        elif result.code is taken:
            doubtful.append((partition, state, own))
    looks = yield from ask(
        [GetData(paths.state(*partition)) for partition, _state, _own in doubtful],
        ZooKeeperCode.NO_NODE,
    )
    for (partition, state, own), look in zip(doubtful, looks, strict=True):
        if look.data == own and look.version == 0:
            made[partition] = _at(context, state, 0)
    return made


def _at(context: Context, state: Leadership, partition_epoch: int) -> Leadership:
    return Leadership(
        state.leader,
        state.leader_epoch,
        state.isr,
        partition_epoch,
        context.epoch,
        state.leader_recovery_state,
    )
