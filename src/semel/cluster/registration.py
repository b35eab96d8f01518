"""A broker's registration in `/brokers/ids`, through all of its sessions.

Role.   `Registration` puts the broker's document there and knows the broker's epoch: the zxid of the node's creation.
Flow.   `register` once the broker's sockets are bound -> another session -> registered again under a later epoch, which `on_epoch`
        is told.
Rules.  * No other broker has one of our endpoints: clients would find two brokers at one address.
        * A node of our id that is another session's is either our own former life, which was killed and ends with its session, or
          a second broker of this id. Where its endpoint answers and is not ours it is the second, and refused at once. Else it is
          waited for, as long as a session may last. Kafka gives up at once in both cases.
        * A broker that finds its id taken when its session was lost is fenced for good.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from semel.cluster.member import Member, MemberError
from semel.cluster.node_follower import NodeFollower
from semel.cluster.zookeeper import recipes
from semel.cluster.zookeeper.recipes import NodeTakenError
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import BrokerNode, ZnodeError
from semel.core.metadata.brokers import NO_EPOCH, Endpoint

_log: Final = logging.getLogger(__name__)
_TICK_SECONDS: Final = 6.0
"""ZooKeeper ends sessions a tick or two after their time: two seconds each, by its defaults."""
_LOOK_SECONDS: Final = 0.5
_PROBE_SECONDS: Final = 2.0


class DuplicateBrokerIdError(MemberError):
    """Another broker is registered under this broker's id."""


class EndpointTakenError(MemberError):
    """Another broker is registered with one of this broker's endpoints."""


class Registration:
    """This broker, as the cluster knows it."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._node: BrokerNode | None = None
        self._recipe: recipes.Registration | None = None
        self._broker_id = -1
        self._follower = NodeFollower(member, self._again, name="registration")
        self.broker_epoch = NO_EPOCH
        self.on_epoch: list[Callable[[int], object]] = []
        """Called with the epoch of each later registration."""

    async def register(self, broker_id: int, node: BrokerNode) -> int:
        """Register, and stay registered; the broker's epoch.

        Raises `DuplicateBrokerIdError`, `EndpointTakenError`, `NotPermittedError`.
        """
        self._broker_id, self._node = broker_id, node
        self._recipe = recipes.Registration(self._member.client, paths.broker(broker_id))
        self._member.on_session.append(self._follower.wake)
        await self._member.patiently(lambda: self._check_endpoints(node))
        await self._member.patiently(self._create)
        self._follower.start()
        return self.broker_epoch

    def stop(self) -> None:
        """Register no more. The node stays until the session ends."""
        self._follower.stop()

    async def _again(self) -> None:
        try:
            await self._create()
        except MemberError as error:
            self._member.fail(error)
            return
        for told in self.on_epoch:
            told(self.broker_epoch)

    async def _create(self) -> None:
        if self._recipe is None or self._node is None:
            return
        clock = self._member.runtime.clock
        seconds = self._member.client.session_timeout_ms / 1000 + _TICK_SECONDS
        deadline = clock.monotonic() + seconds
        warned_of = 0
        while True:
            node = replace(self._node, timestamp_ms=clock.now_ms())
            try:
                stat = await self._recipe.create(documents.encode_broker(node))
            except NodeTakenError as taken:
                if clock.monotonic() >= deadline or await self._answers(taken):
                    raise DuplicateBrokerIdError(self._duplicate(taken)) from taken
                if warned_of != taken.owner:
                    warned_of = taken.owner
                    _log.warning(
                        "broker id %d is registered in ZooKeeper already, by %s in session %#x. If this was this broker before it "
                        "was killed, that session ends soon: waiting for up to %.0f s",
                        self._broker_id,
                        self._owner(taken),
                        taken.owner,
                        seconds,
                    )
                await self._member.runtime.tasks.sleep(_LOOK_SECONDS)
            else:
                self.broker_epoch = stat.czxid
                _log.info("broker %d is registered in ZooKeeper, epoch %d", self._broker_id, stat.czxid)
                return

    async def _answers(self, taken: NodeTakenError) -> bool:
        """Whether somebody else is alive at the owner's endpoints."""
        own = set() if self._node is None else set(self._node.endpoints.values())
        for endpoint in _endpoints(self._broker_id, taken.data).values():
            if endpoint not in own and await self._listens(endpoint):
                return True
        return False

    async def _listens(self, endpoint: Endpoint) -> bool:
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                transport, _protocol = await self._member.runtime.network.connect(
                    asyncio.Protocol, endpoint.host, endpoint.port
                )
        except (OSError, TimeoutError):
            return False
        transport.abort()
        return True

    def _owner(self, taken: NodeTakenError) -> str:
        found = _endpoints(self._broker_id, taken.data)
        shown = ", ".join(f"{name}://{one.host}:{one.port}" for name, one in found.items())
        return shown or "a broker whose document cannot be read"

    def _duplicate(self, taken: NodeTakenError) -> str:
        return (
            f"broker id {self._broker_id} belongs to another broker of the cluster at {self._member.settings.servers}: "
            f"{self._owner(taken)} is registered in {taken.path} (session {taken.owner:#x}). Give this broker another "
            "broker.id, or stop the other one"
        )

    async def _check_endpoints(self, node: BrokerNode) -> None:
        own = {(one.host, one.port): name for name, one in node.endpoints.items()}
        client = self._member.client
        ids = [one for one in await client.children(paths.BROKER_IDS) or () if one.isdecimal()]
        for number in sorted(map(int, ids)):
            found = None if number == self._broker_id else await client.get(paths.broker(number))
            if found is None:
                continue
            for name, one in _endpoints(number, found.data).items():
                if (one.host, one.port) in own:
                    raise EndpointTakenError(
                        f"{name}://{one.host}:{one.port} is registered by broker {number} of the cluster at "
                        f"{self._member.settings.servers}, and this is broker {self._broker_id}: give each broker "
                        "advertised.listeners of its own, or stop the other one"
                    )


def _endpoints(broker_id: int, data: bytes | None) -> Mapping[str, Endpoint]:
    """None of a document that cannot be read."""
    try:
        return documents.decode_broker(broker_id, data).endpoints
    except ZnodeError as error:
        _log.warning("%s", error)
        return {}
