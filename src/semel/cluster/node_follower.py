"""A task that reads nodes again whenever a watch fires or a session begins.

Role.   `NodeFollower` is the loop around one reading: of features, of settings.
Rules.  * What wakes it while it reads makes it read once more: nothing that changed in between is missed.
        * A reading belongs to its session. It is begun again in the next one, which wakes it.
        * A refusal of ZooKeeper is one line of the log. The reading is tried again after a while: no watch tells of rights. So it
          is after an error that nobody foresaw.
        * It ends with the client of ZooKeeper.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from semel.cluster.member import Member
from semel.cluster.zookeeper.client import SessionExpiredError, ZooKeeperUnreachableError
from semel.cluster.zookeeper.session import ZooKeeperError

_log: Final = logging.getLogger(__name__)
_REFUSED_SECONDS: Final = 30.0


class NodeFollower:
    """One reading, kept going."""

    def __init__(self, member: Member, read: Callable[[], Awaitable[None]], *, name: str) -> None:
        self._member = member
        self._read = read
        self._name = name
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow from now on; whoever starts it has read once."""
        self._task = self._member.runtime.tasks.spawn(self._follow(), name=self._name)

    def wake(self) -> None:
        """Read again."""
        self._wake.set()

    def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _follow(self) -> None:
        said = ""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._read()
            except SessionExpiredError:
                continue  # The next session wakes it.
            except ZooKeeperUnreachableError:
                return  # The client is closed.
            except ZooKeeperError as error:
                if said != (said := f"{self._name}: {self._member.refused(error)}"):
                    _log.error("%s", said)
                await self._again_later()
            except Exception:
                _log.exception(
                    "%s: this broker failed at reading them from ZooKeeper; it tries again in %.0f s",
                    self._name,
                    _REFUSED_SECONDS,
                )
                await self._again_later()

    async def _again_later(self) -> None:
        await self._member.runtime.tasks.sleep(_REFUSED_SECONDS)
        self._wake.set()
