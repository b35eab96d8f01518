"""A consumer in a group of KIP-848: one heartbeat says everything, the broker assigns, the member reconciles.

Role.   The client's end of ConsumerGroupHeartbeat, as small as it can be. Reading and committing: `group_reading`.
Flow.   heartbeat -> partitions no longer assigned are committed, let go and said to be gone -> new partitions are taken and
        said to be owned -> heartbeat
Rules.  * A member says what it owns when it joins and after every change; otherwise the heartbeat is empty.
        * Fenced or unknown: everything is lost, and it joins again under its old id with epoch 0.
        * A member without an answer says everything again: the broker may have heard, or not.
"""

import asyncio
from typing import Final

from semel.core.groups.member_words import Identity
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid
from semel.types import TopicPartition
from semel.verify.simulation.actors.group_reading import BACK_OFF_SECONDS, GroupReading, Host

_VERSION: Final = 1
_JOINING: Final = 0
_LEAVING: Final = -1
_POLL_SECONDS: Final = 0.05
_OUT: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)
_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Kip848Consumer(GroupReading):
    """One process in a group whose broker assigns."""

    def __init__(self, actor: Host, name: str, runtime: Runtime, tasks: asyncio.TaskGroup) -> None:
        super().__init__(actor, name, runtime, tasks)
        self._member_id = str(random_uuid(runtime.dice))
        self._epoch = _JOINING
        self._owned: tuple[TopicPartition, ...] = ()
        self._target: tuple[TopicPartition, ...] = ()
        self._says_all = True
        self._beat_at = 0.0
        self._is_changing = False

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return self._owned

    @property
    def is_settled(self) -> bool:
        return self._epoch > _JOINING and not self._is_changing and self._owned == self._target

    @property
    def identity(self) -> Identity:
        return Identity(self._actor.group_id, self._epoch or -1, self._member_id, None)

    def commit_refused(self, code: ErrorCode) -> None:
        if code in _OUT:
            self._lose()
        self._beat_at = 0.0  # Any error: a heartbeat follows at once, and knows more.

    async def keep_membership(self) -> None:
        while True:
            await self._breathe(last=True)
            if self.leaves_for is not None:
                await self._leave(self.leaves_for)
            if self._world.now() >= self._beat_at:
                await self._beat()
            await self._runtime.tasks.sleep(_POLL_SECONDS)

    async def _beat(self) -> None:
        try:
            await self._leader.refresh(self._actor.topics)
            self._asked_at = self._world.now()
            response = await self._coordinator.ask(self._request(), _VERSION)
        except DisconnectedError:
            self._says_all = True
            await self._runtime.tasks.sleep(self._runtime.dice.uniform(*BACK_OFF_SECONDS))
            return
        await self._breathe()
        code = ErrorCode(response.error_code)
        if code in _OUT:
            self._lose()
        elif code in _AGAIN:
            self._says_all = True
            await self._runtime.tasks.sleep(self._runtime.dice.uniform(*BACK_OFF_SECONDS))
        elif code:
            raise RuntimeError(f"{self._name} can never be a member: {code.name} {response.error_message}")
        else:
            self._says_all = False
            self._beat_at = self._world.now() + response.heartbeat_interval_ms / 1000
            await self._take_over(response)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._actor.group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        if self._says_all or self._epoch == _JOINING:
            request.rebalance_timeout_ms = self._manners.rebalance_timeout_ms
            request.subscribed_topic_names = list(self._actor.topics)
            request.topic_partitions = self._said(self._owned)
        return request

    def _said(self, partitions: tuple[TopicPartition, ...]) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for one in partitions:
            by_topic.setdefault(one.topic, []).append(one.partition)
        return [
            TopicPartitions(topic_id=self._leader.topics[name].topic_id, partitions=indexes)
            for name, indexes in by_topic.items()
        ]

    async def _take_over(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Be what the broker says: let go first, then take."""
        self._epoch = response.member_epoch
        if response.assignment is not None:
            names = {topic.topic_id: name for name, topic in self._leader.topics.items()}
            self._target = tuple(
                sorted(
                    TopicPartition(names[one.topic_id], index)
                    for one in response.assignment.topic_partitions
                    for index in one.partitions
                )
            )
        if self._target != self._owned:
            await self._reconcile()
        self._note_owned()

    async def _reconcile(self) -> None:
        self._is_changing = True
        target, epoch = self._target, self._epoch
        gone = {
            one: self._positions.pop(one)
            for one in self._owned
            if one not in target and one in self._positions
        }
        await self._commit(gone)
        self._is_changing = False
        if self._epoch != epoch:
            return  # It was thrown out meanwhile, and owns nothing.
        self._owned = target
        self._says_all = True
        self._beat_at = 0.0

    def _lose(self) -> None:
        self._positions.clear()
        self._owned = self._target = ()
        self._epoch = _JOINING
        self._says_all = True
        self._beat_at = 0.0
        self._note_lost()

    async def _leave(self, seconds: float) -> None:
        self._world.tell(f"{self._name} leaves for {seconds:.3f} s")
        self.leaves_for = None
        await self._commit({one: self._positions.pop(one) for one in self._owned if one in self._positions})
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._actor.group_id, member_id=self._member_id, member_epoch=_LEAVING
        )
        self._lose()
        try:
            await self._coordinator.ask(request, _VERSION)
        except DisconnectedError:
            self._world.tell(f"{self._name}: whether it has left is unknown")
        await self._runtime.tasks.sleep(seconds)
        self._member_id = str(random_uuid(self._runtime.dice))
