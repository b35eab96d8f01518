"""The election of a controller, and what its winner writes: everything with the check of its epoch in front.

Role.   `elect` wins the office or waits for it. `Fence` carries out batches of the machine on ZooKeeper for the one who has it.
Rules.  * `/controller` is made and `/controller_epoch` raised by one multi: nobody is controller without an epoch of its own.
        * The answer to that multi may be lost. If the node is of this very session, and the epoch is the next one, it was won.
        * Each write is a multi of the check of `/controller_epoch` and the write. A check that fails raises `ControllerMovedError`: another
          broker has been elected since, and nothing was written.
        * A batch belongs to the session in which the office was won.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from semel.cluster.zookeeper.client import SessionExpiredError, ZooKeeperClient
from semel.cluster.zookeeper.recipes import ensure
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.cluster import documents, paths
from semel.core.cluster.controller.operations import Batch, Operation, Result
from semel.core.zookeeper.wire.messages import (
    Check,
    ChildrenWithStat,
    Create,
    Data,
    Delete,
    Failed,
    MultiOperation,
    SetData,
    StatOf,
)
from semel.core.zookeeper.words import EPHEMERAL, ZooKeeperCode
from semel.errors import SemelError

_log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 500
"""Operations that are asked together, of which `zookeeper.max.in.flight.requests` are in the pipe."""
_LOST: Final = (ZooKeeperCode.NODE_EXISTS, ZooKeeperCode.BAD_VERSION, ZooKeeperCode.NO_NODE)


class ControllerMovedError(SemelError):
    """Another broker has been elected, or somebody has taken the office away."""


@dataclass(frozen=True, slots=True)
class Office:
    """An election that was won."""

    epoch: int
    epoch_version: int
    """Of the node of the epoch: what every write checks."""
    session_id: int
    generation: int


async def try_to_win(client: ZooKeeperClient, broker_id: int, now_ms: int) -> Office | None:
    """Stand for election once; None if somebody else is, or was, quicker. Raises as the client does."""
    generation, session_id = client.generation, client.session_id
    found = await client.get(paths.CONTROLLER_EPOCH)
    if found is None:
        await ensure(client, paths.CONTROLLER_EPOCH, documents.encode_number(0))
        return None
    epoch = documents.decode_number(paths.CONTROLLER_EPOCH, found.data) + 1
    version = found.stat.version + 1
    results = await client.multi(
        Create(paths.CONTROLLER, documents.encode_controller(broker_id, now_ms), flags=EPHEMERAL),
        SetData(paths.CONTROLLER_EPOCH, documents.encode_number(epoch), found.stat.version),
    )
    office = Office(epoch, version, session_id, generation)
    if results.failure is None:
        return office
    if results.failure not in _LOST:
        raise ZooKeeperError(results.failure, Create(paths.CONTROLLER, None))
    return office if await _is_ours(client, office) else None


async def _is_ours(client: ZooKeeperClient, office: Office) -> bool:
    """Whether the answer to a multi that was carried out has been lost."""
    holder = await client.get(paths.CONTROLLER)
    if holder is None or holder.stat.ephemeral_owner != office.session_id:
        return False
    written = await client.get(paths.CONTROLLER_EPOCH)
    return written is not None and (written.stat.version, written.data) == (
        office.epoch_version,
        documents.encode_number(office.epoch),
    )


class Fence:
    """ZooKeeper, for the holder of an office."""

    def __init__(self, client: ZooKeeperClient, office: Office) -> None:
        self._client = client
        self._office = office
        self._check = Check(paths.CONTROLLER_EPOCH, office.epoch_version)

    async def carry_out(self, batch: Batch) -> list[Result]:
        """The results of a batch, in its order. Raises `ControllerMovedError`, and as the client does."""
        results: list[Result] = []
        for first in range(0, len(batch), _AT_ONCE):
            some = batch[first : first + _AT_ONCE]
            if len(some) == 1:
                results.append(await self._one(some[0]))
                continue
            answers = await asyncio.gather(*(self._one(one) for one in some), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                results.append(answer)
        return results

    async def holds(self, *, watch: bool) -> bool:
        """Whether the office is still held; its node is watched from now on."""
        self._check_session()
        found = await self._client.get(paths.CONTROLLER, watch=watch)
        return found is not None and found.stat.ephemeral_owner == self._office.session_id

    async def give_up(self) -> None:
        """Leave the office to others."""
        result = await self._write(Delete(paths.CONTROLLER))
        if result.code not in (ZooKeeperCode.OK, ZooKeeperCode.NO_NODE):
            _log.warning("the office of controller could not be given up: %s", result.code.name)

    def _check_session(self) -> None:
        if self._client.generation != self._office.generation:
            raise SessionExpiredError("the session in which the controller was elected is over")

    async def _one(self, operation: Operation) -> Result:
        self._check_session()
        if isinstance(operation, Create | SetData | Delete):
            return await self._write(operation)
        try:
            answer = await self._client.ask(operation)
        except ZooKeeperError as error:
            return Result(error.reason)
        match answer:
            case Data(data, stat):
                return Result(data=data, stat=stat)
            case StatOf(stat):
                return Result(stat=stat)
            case ChildrenWithStat(names, stat):
                return Result(names=names, stat=stat)
            case _:
                return Result()

    async def _write(self, operation: MultiOperation) -> Result:
        self._check_session()
        results = (await self._client.multi(self._check, operation)).results
        _raise_if_moved(results)
        match results[1]:
            case StatOf(stat):
                return Result(stat=stat)
            case Failed(code):
                return Result(code)
            case _:
                return Result()


def _raise_if_moved(results: Sequence[object]) -> None:
    check = results[0]
    if isinstance(check, Failed) and check.code:
        raise ControllerMovedError(
            f"the controller's epoch is another one by now ({check.code.name}): another broker was elected"
        )
