"""ControlledShutdown: a broker that stops has the controller move its leaderships first.

Role.   `shut_down` asks a few times, and tells whether every partition with more than one replica has another leader.
Flow.   The broker calls it while it still serves; its own connections and ZooKeeper session end later.
Rules.  * Each try is one request to whoever is the controller then; a try without an answer is over after `timeout_ms`.
        * Partitions may remain, where no other replica is in sync. The next try may find one.
        * After the last try the broker stops all the same: its leaderships move once its session has ended.
        * The version is fixed: the controller is not asked for what it serves (`core.cluster.versions`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from semel.cluster.controller_channel import ChannelBusyError, ControllerChannel
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    UnsupportedVersionError,
    WireError,
    error_code,
)
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

_log: Final = logging.getLogger(__name__)
_NAMED_MAX: Final = 20
"""Partitions that remain and are named in the log; the others are counted."""
_NO_ANSWER: Final = (
    DisconnectedError,
    RefusedError,
    WireError,
    UnsupportedVersionError,
    ChannelBusyError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownSettings:
    """Kafka's settings of a controlled shutdown."""

    enable: bool = True
    """`controlled.shutdown.enable`"""
    max_retries: int = 3
    """`controlled.shutdown.max.retries`: how often it is asked in all."""
    retry_backoff_ms: int = 5000
    """`controlled.shutdown.retry.backoff.ms`"""
    timeout_ms: int = 30_000
    """`controller.socket.timeout.ms`: of each try."""


async def shut_down(
    runtime: Runtime,
    channel: ControllerChannel,
    settings: ShutdownSettings,
    *,
    node_id: int,
    broker_epoch: Callable[[], int],
) -> bool:
    """Whether nothing is led here any more that another broker can lead. Raises `ChannelClosedError`."""
    if not settings.enable:
        return False
    for left in reversed(range(settings.max_retries)):
        request = ControlledShutdownRequest(broker_id=node_id, broker_epoch=broker_epoch())
        try:
            answer = await channel.attempt(request, timeout_ms=settings.timeout_ms)
        except _NO_ANSWER as error:
            _log.warning("controlled shutdown: no controller has answered: %s", error)
        else:
            if _is_done(answer):
                return True
        if left:
            _log.info(
                "controlled shutdown is asked for again in %d ms, %d times more at most",
                settings.retry_backoff_ms,
                left,
            )
            await runtime.tasks.sleep(settings.retry_backoff_ms / 1000)
    _log.warning(
        "this broker stops though the controller has not moved all it leads: "
        "those partitions have no leader until its session in ZooKeeper is over"
    )
    return False


def _is_done(answer: ControlledShutdownResponse) -> bool:
    code = error_code(answer.error_code)
    remain = [TopicPartition(row.topic_name, row.partition_index) for row in answer.remaining_partitions]
    if code is not ErrorCode.NONE:
        _log.warning("controlled shutdown: the controller refuses (%s, %d)", code.name, answer.error_code)
        return False
    if not remain:
        _log.info("controlled shutdown: other brokers lead what this one has led")
        return True
    named = ", ".join(map(str, sorted(remain)[:_NAMED_MAX]))
    more = f" and {len(remain) - _NAMED_MAX} more" if len(remain) > _NAMED_MAX else ""
    _log.info("controlled shutdown: %d partitions still need another leader: %s%s", len(remain), named, more)
    return False
