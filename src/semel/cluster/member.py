"""A member of a cluster under ZooKeeper: its session, the cluster it belongs to, and the watches that outlive sessions.

Role.   `Member` is a broker's one connection to ZooKeeper. `registration`, `finalized_features`, `config_nodes` and the others
        beside it do their part on it.
Flow.   `connect` -> `cluster_id` makes the chroot and the nodes every broker makes -> `registration` -> `close`, at the very end: the
        broker's node goes with its session.
Rules.  * A directory that has a cluster already joins no other and founds none: a wrong chroot is refused, and nothing is made there.
        * A watch belongs to its path. It is set by reading, and told to whoever reads there.
        * Another session begins without watches and registration: `on_session` tells everybody, who then reads and writes anew.
        * Nothing can be mended once `on_fatal` is told: the broker must stop. So it must when the client of ZooKeeper ends by itself:
          the session would be lost, and the broker no member, without anybody's notice.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from semel.cluster.zookeeper.client import SessionExpiredError, Settings, ZooKeeperClient
from semel.cluster.zookeeper.recipes import ensure, get_or_create
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.cluster import documents, paths
from semel.core.zookeeper.paths import parent_of
from semel.core.zookeeper.wire.messages import Create, Exists, WatchEvent
from semel.core.zookeeper.words import OPEN_ACL, ZooKeeperCode
from semel.errors import SemelError
from semel.runtime.bundle import Runtime

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)


class MemberError(SemelError):
    """A broker that cannot be a member of this cluster as it is."""


class NotPermittedError(MemberError):
    """ZooKeeper's access lists keep the broker out."""


class OtherClusterError(MemberError):
    """The cluster at `zookeeper.connect` is not the one the broker's data belongs to."""


class Member:
    """A broker's membership."""

    def __init__(
        self, runtime: Runtime, settings: Settings, *, on_fatal: Callable[[SemelError], object]
    ) -> None:
        """`on_fatal` is told why the broker cannot go on."""
        self.runtime = runtime
        self.settings: Final = settings
        self._on_fatal = on_fatal
        self.before_session: list[Callable[[], Awaitable[None]]] = []
        """Awaited when a session is over, before the next one begins: nobody acts on the old one."""
        self.on_session: list[Callable[[], object]] = []
        """Called when another session has begun."""
        self.on_watch: list[Callable[[WatchEvent], object]] = []
        """Called with every watch that fires."""
        self._watchers: dict[str, list[Callable[[], object]]] = {}
        self._has_failed = False
        self.is_closed = False
        self.client: Final = ZooKeeperClient(
            runtime,
            settings,
            on_event=self._told,
            before_session=self._before_session,
            on_session=self._session_begun,
            on_failure=self.fail,
        )

    async def connect(self) -> None:
        """Begin a session. Raises `ZooKeeperUnreachableError`, `ZooKeeperAuthError`."""
        await self.client.open()

    async def close(self) -> None:
        """End the session, and with it the registration. Without a connection both end when the session times out."""
        self.is_closed = True
        await self.client.close()

    async def cluster_id(self, suggested: str, *, known: str | None = None) -> str:
        """The cluster's id, and the nodes that every broker makes are there.

        `known` is the cluster that the broker's data belongs to. Without one a new cluster may begin here, by the id that is
        suggested. Raises `OtherClusterError`, `NotPermittedError`, `ZnodeError`.
        """

        async def look() -> str:
            if known is not None:
                await self._check_cluster(known)
            await self._make_chroot(self.settings.servers.chroot)
            for path in (*paths.PERSISTENT, parent_of(paths.CLUSTER_ID)):
                await self.make(path)
            suggestion = documents.encode_cluster_id(known or suggested)
            return documents.decode_cluster_id(await get_or_create(self.client, paths.CLUSTER_ID, suggestion))

        return await self.patiently(look)

    async def _check_cluster(self, known: str) -> None:
        found = await self.client.get(paths.CLUSTER_ID)
        there = None if found is None else documents.decode_cluster_id(found.data)
        if there != known:
            is_there = "no cluster is" if there is None else f"cluster {there} is"
            raise OtherClusterError(
                f"{is_there} at zookeeper.connect={self.settings.servers}, and this broker's data belongs to cluster {known}: "
                "correct zookeeper.connect, its chroot too, or use another log.dirs"
            )

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` gives, again from its beginning when the session ends. Raises `NotPermittedError`, `ZooKeeperError`."""
        while True:
            try:
                return await call()
            except SessionExpiredError:
                continue
            except ZooKeeperError as error:
                raise self.refused(error) from error

    async def make(self, path: str) -> None:
        """A persistent node is there. It is looked for first: who may not make it may find it made."""
        if await self.client.exists(path) is None:
            await ensure(self.client, path)

    async def _make_chroot(self, chroot: str) -> None:
        if chroot and await self.client.exists("/") is None:
            names = chroot.strip("/").split("/")
            for depth in range(1, len(names) + 1):
                await self._make_outside("/" + "/".join(names[:depth]))

    async def _make_outside(self, path: str) -> None:
        for request, expected in (
            (Exists(path), ZooKeeperCode.NO_NODE),
            (Create(path, None, OPEN_ACL), ZooKeeperCode.NODE_EXISTS),
        ):
            try:
                await self.client.ask_outside(request)
            except ZooKeeperError as error:
                if error.reason is not expected:
                    raise
            else:
                return

    async def generated_broker_id(self, reserved_max: int) -> int:
        """A broker id that nobody has, above the reserved ones. One whose answer is lost is given to nobody."""
        stat = await self.patiently(lambda: self.client.set(paths.BROKER_SEQUENCE, b""))
        return reserved_max + stat.version

    def refused(self, error: ZooKeeperError) -> SemelError:
        """What to raise for a refusal of ZooKeeper."""
        if error.reason is not ZooKeeperCode.NO_AUTH:
            return error
        chroot, where = self.settings.servers.chroot, getattr(error.request, "path", "a node")
        if where != chroot and not where.startswith(f"{chroot}/"):
            where = chroot + where
        return NotPermittedError(
            f"ZooKeeper at {self.settings.servers} does not permit {type(error.request).__name__} of {where}: an access list, this "
            "node's or the one's above it, keeps this broker out, which logs in as nobody. Let its owner open it, as with "
            "'setAcl -R PATH world:anyone:cdrwa', or choose another chroot in zookeeper.connect"
        )

    def watch(self, path: str, heard: Callable[[], object]) -> None:
        """Call back whenever a watch at this path fires."""
        self._watchers.setdefault(path, []).append(heard)

    def fail(self, error: SemelError) -> None:
        """The broker cannot go on. Told once."""
        if not self._has_failed and not self.is_closed:
            self._has_failed = True
            _log.error("this broker cannot stay in its cluster: %s", error)
            self._on_fatal(error)

    def _told(self, event: WatchEvent) -> None:
        for heard in self._watchers.get(event.path, ()):
            heard()
        for told in self.on_watch:
            told(event)

    async def _before_session(self) -> None:
        for one in self.before_session:
            await one()

    def _session_begun(self) -> None:
        for one in self.on_session:
            one()
