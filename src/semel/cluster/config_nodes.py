"""Settings that a cluster keeps in ZooKeeper: all read once, then every change of them in order.

Role.   `ConfigNodes` gives the settings of topics, of this broker and of all brokers, quotas and credentials to its `take` as rows.
Flow.   `start` sets the watch on `/config/changes`, reads everything, and follows the notifications -> `load` and `owe` read topics
        that were made without a notification.
Rules.  * The watch comes before the reading: a change is either read, or its notification comes later.
        * A notification is the reason to read its entity, whose value may be newer already. The last one handled is remembered; one
          that is gone before it was read has everything read again, and so has another session.
        * Reading and taking are one step for `turn`, which writers take too: nobody takes a value older than the one before.
        * A node that cannot be read is one line of the log that names its path, and what was known of it stays.
        * Notifications older than Kafka's fifteen minutes are removed by whichever broker comes first.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final

from semel.cluster.member import Member
from semel.cluster.node_follower import NodeFollower
from semel.cluster.zookeeper.recipes import remove
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.cluster import documents, entities, paths
from semel.core.cluster.documents import ZnodeError
from semel.core.metadata.rows import Change
from semel.core.zookeeper.wire.messages import Data

_log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 500
"""Nodes that are asked for together; the client has fewer under way."""
_OBSOLETE_MS: Final = 15 * 60 * 1000
_NONE_HANDLED: Final = -1


class ConfigNodes:
    """The settings below `/config`."""

    def __init__(
        self, member: Member, *, broker_id: int, take: Callable[[Sequence[Change]], Awaitable[None]]
    ) -> None:
        """`take` makes rows effective; it is awaited before the next are read."""
        self._member = member
        self._client = member.client
        self._brokers = (paths.DEFAULT_ENTITY, str(broker_id))
        self._take = take
        self.turn: Final = asyncio.Lock()
        self._follower = NodeFollower(member, self._follow, name="settings")
        self._handled = _NONE_HANDLED
        self._is_stale = True
        """Whether everything must be read again."""
        self._known: set[str] = set()
        """Entities that have settings, as far as is known."""
        self._fresh: set[str] = set()
        """Topics whose changes are all heard of."""
        self._owed: dict[str, None] = {}
        """Topics whose settings somebody waits for."""
        self._settled = asyncio.Event()
        """Set whenever some of them were read, and replaced."""
        self._said: dict[str, str] = {}

    async def start(self) -> None:
        """Read everything, and follow every change from now on. Raises `NotPermittedError`."""
        self._member.watch(paths.CONFIG_CHANGES, self._follower.wake)
        self._member.on_session.append(self._begin_again)
        await self._member.patiently(self._read_all)
        self._follower.start()

    def stop(self) -> None:
        self._follower.stop()

    def owe(self, topics: Iterable[str], *, anew: bool = False) -> None:
        """Have these topics' settings read soon. `anew`: another topic of its name may have been known."""
        for name in topics:
            if anew:
                self._fresh.discard(name)
            if name not in self._fresh:
                self._owed[name] = None
        if self._owed:
            self._follower.wake()

    async def load(self, topics: Iterable[str], *, anew: bool = False, seconds: float) -> None:
        """The settings of these topics are known, or could not be read for so long: then they come later."""
        wanted = list(topics)
        self.owe(wanted, anew=anew)
        try:
            async with asyncio.timeout(seconds):
                while any(name in self._owed for name in wanted):
                    await self._settled.wait()
        except TimeoutError:
            left = [name for name in wanted if name in self._owed]
            _log.warning(
                "ZooKeeper did not give the settings of %d topics, %s among them, for %.0f s: the defaults hold until it does",
                len(left),
                left[0],
                seconds,
            )

    def forget(self, topic: str) -> None:
        """A topic is gone: the next one of its name is made without a notification."""
        self._fresh.discard(topic)

    def _settle(self, topics: Iterable[str]) -> None:
        for name in topics:
            self._owed.pop(name, None)
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()

    def _begin_again(self) -> None:
        self._is_stale = True
        self._follower.wake()

    # Everything

    async def _read_all(self) -> None:
        async with self.turn:
            names = await self._client.children(paths.CONFIG_CHANGES, watch=True)
            while names is None:
                await self._member.make(paths.CONFIG_CHANGES)
                names = await self._client.children(paths.CONFIG_CHANGES, watch=True)
            last = max(self._numbered(names), default=_NONE_HANDLED)
            owed = list(self._owed)
            found = [entity async for entity in self._entities()]
            gone = sorted(self._known - set(found))
            self._fresh.clear()
            await self._read([*found, *gone])
            self._handled, self._is_stale = last, False
        self._settle(owed)

    async def _entities(self) -> AsyncIterator[str]:
        for name in await self._names(paths.CONFIG_TOPICS):
            yield f"{entities.TOPICS}/{name}"
        for name in self._brokers:
            yield f"{entities.BROKERS}/{name}"
        for name in await self._names(paths.CONFIG_CLIENTS):
            yield f"{entities.CLIENTS}/{name}"
        for name in await self._names(paths.CONFIG_IPS):
            yield f"{entities.IPS}/{name}"
        users = await self._names(paths.CONFIG_USERS)
        for user in users:
            yield f"{entities.USERS}/{user}"
        for begin in range(0, len(users), _AT_ONCE):
            some = users[begin : begin + _AT_ONCE]
            clients = await asyncio.gather(
                *(self._names(f"{paths.CONFIG_USERS}/{user}/{entities.CLIENTS}") for user in some)
            )
            for user, names in zip(some, clients, strict=True):
                for name in names:
                    yield f"{entities.USERS}/{user}/{entities.CLIENTS}/{name}"

    async def _names(self, path: str) -> list[str]:
        try:
            return sorted(await self._client.children(path) or ())
        except ZooKeeperError as error:
            self._complain(path, self._member.refused(error))
            return []

    # Some

    async def _read(self, wanted: Sequence[str]) -> None:
        for begin in range(0, len(wanted), _AT_ONCE):
            some = wanted[begin : begin + _AT_ONCE]
            found = await asyncio.gather(*(self._get(f"{paths.CONFIG}/{entity}") for entity in some))
            rows: list[Change] = []
            for entity, node in zip(some, found, strict=True):
                if not isinstance(node, ZooKeeperError):
                    rows += self._rows(entity, None if node is None else node.data)
            if rows:
                await self._take(rows)

    async def _get(self, path: str) -> Data | ZooKeeperError | None:
        try:
            return await self._client.get(path)
        except ZooKeeperError as error:
            self._complain(path, self._member.refused(error))
            return error

    def _rows(self, entity: str, data: bytes | None) -> list[Change]:
        path = f"{paths.CONFIG}/{entity}"
        try:
            configs = documents.decode_configs(path, data)
            found = entities.rows(entity, configs)
        except ZnodeError as error:
            self._complain(path, f"{error}; the settings known before are kept")
            return []
        self.knows(entity, has_settings=bool(configs))
        if found.flaws:
            self._complain(path, f"znode {path}: passed over: {'; '.join(found.flaws)}")
        else:
            self._said.pop(path, None)
        return found.rows

    def knows(self, entity: str, *, has_settings: bool) -> None:
        """An entity was read, or written here."""
        if has_settings:
            self._known.add(entity)
        else:
            self._known.discard(entity)
        kind, _, name = entity.partition("/")
        if kind == entities.TOPICS:
            self._fresh.add(name)

    def _complain(self, path: str, flaw: object) -> None:
        """Once for each flaw."""
        if self._said.get(path) != (text := str(flaw)):
            self._said[path] = text
            _log.error("%s", text)

    # Changes

    async def _follow(self) -> None:
        if self._is_stale:
            await self._read_all()
            return
        if owed := list(self._owed):
            async with self.turn:
                await self._read([f"{entities.TOPICS}/{name}" for name in owed])
            self._settle(owed)
        names = await self._client.children(paths.CONFIG_CHANGES, watch=True)
        if names is None:
            await self._read_all()
            return
        numbers = self._numbered(names)
        new = [number for number in sorted(numbers) if number > self._handled]
        if new:
            changed = await self._changed([numbers[number] for number in new])
            if changed is None:
                await self._read_all()
                return
            async with self.turn:
                await self._read(changed)
            self._handled = new[-1]
        await self._purge([numbers[number] for number in sorted(numbers)])

    def _numbered(self, names: Iterable[str]) -> dict[int, str]:
        """Notifications by their numbers."""
        numbers: dict[int, str] = {}
        for name in names:
            try:
                numbers[paths.sequence_of(name)] = name
            except ValueError:
                self._complain(
                    f"{paths.CONFIG_CHANGES}/{name}",
                    f"znode {paths.CONFIG_CHANGES}/{name} is no notification",
                )
        return numbers

    async def _changed(self, names: Sequence[str]) -> list[str] | None:
        """The entities that notifications name, each once; None if a notification is gone."""
        changed: dict[str, None] = {}
        for begin in range(0, len(names), _AT_ONCE):
            listed = [f"{paths.CONFIG_CHANGES}/{name}" for name in names[begin : begin + _AT_ONCE]]
            for path, node in zip(
                listed, await asyncio.gather(*(self._get(path) for path in listed)), strict=True
            ):
                if node is None:
                    return None
                if isinstance(node, ZooKeeperError):
                    continue
                try:
                    entity = documents.decode_config_change(path, node.data)
                    entities.rows(entity, {})
                except (ZnodeError, ValueError) as error:
                    _log.error("notification %s is passed over: %s", path, error)
                    continue
                if not entity.startswith(f"{entities.BROKERS}/") or entity.partition("/")[2] in self._brokers:
                    changed.pop(entity, None)
                    changed[entity] = None
        return list(changed)

    async def _purge(self, names: Sequence[str]) -> None:
        """The oldest come first."""
        now_ms = self._member.runtime.clock.now_ms()
        for name in names:
            path = f"{paths.CONFIG_CHANGES}/{name}"
            stat = await self._client.exists(path)
            if stat is not None:
                if now_ms - stat.ctime <= _OBSOLETE_MS:
                    return
                await remove(self._client, path)
