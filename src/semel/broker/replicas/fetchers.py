"""All that this broker follows: which fetcher fetches it.

Role.   `follow` and `stop` are all a controller's orders need; `Fetcher` does the rest.
Flow.   LeaderAndIsr -> `FollowedPartition.become` -> `follow`; StopReplica, or this broker leads -> `stop`. Whoever learns of other
        brokers says `brokers_changed`.
Rules.  * A leader has up to `num.replica.fetchers` fetchers. A partition's is Kafka's: a hash of its topic, plus its number.
        * A fetcher lives as long as there is something to fetch for it.
        * Settings are asked for with every request: they change while the broker runs.
        * `stop` is immediate: no append, cut or watermark happens to the partition after it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from semel.broker.config import BrokerConfig
from semel.broker.coordinators.java_hash import java_hash
from semel.broker.replicas.fetch_messages import FetchSettings
from semel.broker.replicas.fetcher import Fetcher, FetcherConfig, Surroundings
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.log_cuts import LogCuts
from semel.core.metadata.brokers import RegisteredBroker
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.types import Address, TopicPartition

_INT_BITS: Final = 0xFFFFFFFF
_INT_MIN: Final = 0x80000000


class FetcherKey(NamedTuple):
    """One fetcher: its leader, and its number among that leader's."""

    leader_id: int
    number: int


class Fetchers:
    """The fetchers of one broker."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        brokers: Mapping[int, RegisteredBroker],
        listener: str,
        settings: Callable[[], BrokerConfig],
        cuts: LogCuts,
        on_failure: Callable[[FollowedPartition, Exception], None],
        security: Security = PLAINTEXT,
    ) -> None:
        """`brokers`: the image's, live. `listener`: the name under which brokers listen for each other. `on_failure` is told of a
        partition that this broker's disk cannot follow any more; it is stopped then."""
        self._node_id = node_id
        self._brokers = brokers
        self._listener = listener
        self._settings = settings
        self._security = security
        self._on_failure = on_failure
        self._fetchers: dict[FetcherKey, Fetcher] = {}
        self._where: dict[TopicPartition, tuple[FetcherKey, FollowedPartition]] = {}
        self._ending: list[Fetcher] = []
        self._is_closed = False
        self._surroundings = Surroundings(
            runtime=runtime,
            node_id=node_id,
            broker_epoch=broker_epoch,
            leader_address=self._address,
            config=self._config,
            cuts=cuts,
            on_failure=self._failed,
        )

    def follow(self, partition: FollowedPartition) -> None:
        """Fetch a partition from its leader from now on. Called again when leader or epoch are other ones."""
        where, leader_id = partition.topic_partition, partition.following.leader_id
        if self._is_closed:
            return
        key = FetcherKey(leader_id, fetcher_number(where, self._number("num.replica.fetchers")))
        before = self._where.get(where)
        if before is not None and (before[0] != key or before[1] is not partition):
            self.stop(before[1])
        if leader_id < 0:  # Nobody leads: the next leader comes with an epoch of its own.
            self.stop(partition)
            return
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = Fetcher(self._surroundings, leader_id, key.number)
        self._where[where] = key, partition
        fetcher.add(partition)

    def stop(self, partition: FollowedPartition) -> None:
        """Fetch a partition no more; nothing happens to it after this."""
        key, followed = self._where.get(partition.topic_partition, (None, None))
        if key is None or followed is not partition:
            return
        del self._where[partition.topic_partition]
        fetcher = self._fetchers[key]
        fetcher.remove(partition)
        if not fetcher.partitions:
            del self._fetchers[key]
            fetcher.end()
            self._ending = [one for one in self._ending if not one.is_done] + [fetcher]

    def brokers_changed(self) -> None:
        """`brokers` is another one: a leader that was missing may be there, or elsewhere."""
        for fetcher in self._fetchers.values():
            fetcher.changed()

    def settings_changed(self) -> None:
        """There may be more fetchers per leader than before, or fewer."""
        for _key, partition in list(self._where.values()):
            self.follow(partition)

    async def close(self) -> None:
        """Fetch nothing any more; returns once no fetcher touches a log."""
        self._is_closed = True
        fetchers = [*self._fetchers.values(), *self._ending]
        self._fetchers.clear()
        self._where.clear()
        for fetcher in fetchers:
            fetcher.end()
        await asyncio.gather(*(fetcher.ended() for fetcher in fetchers))

    # What is shown

    @property
    def lag_max(self) -> int:
        """The longest lag behind a leader, in records; Kafka's MaxLag."""
        return max((partition.lag for _key, partition in self._where.values()), default=0)

    @property
    def failed(self) -> int:
        """Partitions that wait for a newer epoch; Kafka's FailedPartitionsCount."""
        return sum(partition.following.has_failed for _key, partition in self._where.values())

    def __len__(self) -> int:
        """How many partitions are followed."""
        return len(self._where)

    # For fetchers

    def _failed(self, partition: FollowedPartition, error: Exception) -> None:
        self.stop(partition)
        self._on_failure(partition, error)

    def _address(self, broker_id: int) -> Address | None:
        broker = self._brokers.get(broker_id)
        endpoint = None if broker is None else broker.on(self._listener)
        return None if endpoint is None else Address(*endpoint)

    def _config(self, number: int) -> FetcherConfig:
        max_bytes = self._number("replica.fetch.response.max.bytes")
        return FetcherConfig(
            fetch=FetchSettings(
                max_wait_ms=self._number("replica.fetch.wait.max.ms"),
                min_bytes=self._number("replica.fetch.min.bytes"),
                max_bytes=max_bytes,
                partition_max_bytes=self._number("replica.fetch.max.bytes"),
            ),
            backoff_ms=self._number("replica.fetch.backoff.ms"),
            client_id=f"broker-{self._node_id}-fetcher-{number}",
            request_timeout_ms=self._number("replica.socket.timeout.ms"),
            socket_connection_setup_timeout_ms=self._number("socket.connection.setup.timeout.ms"),
            # An answer may be longer than it was asked to be by one batch, which a producer's request had to carry.
            response_max_bytes=max_bytes + self._number("socket.request.max.bytes"),
            security=self._security,
        )

    def _number(self, key: str) -> int:
        value = self._settings().value(key)
        if not isinstance(value, int):
            raise TypeError(f"{key}={value!r} is not a number")
        return value


def fetcher_number(topic_partition: TopicPartition, fetchers: int) -> int:
    """The number of a partition's fetcher, as Kafka's: |31 * hash(topic) + partition| mod fetchers, in 32 bits."""
    value = (31 * java_hash(topic_partition.topic) + topic_partition.partition) & _INT_BITS
    if value == _INT_MIN:
        return 0
    return (value if value < _INT_MIN else (1 << 32) - value) % fetchers
