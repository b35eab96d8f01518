"""Does the broker live, and does it serve? The answers to GET /health and GET /ready.

Role.   `Readiness` knows the stage of a broker's life and asks its parts; supervisors as systemd, Docker and Kubernetes ask it.
Flow.   `app` moves it from stage to stage; `metrics.listener` sends its answers.
Rules.  * An answer to /health is the proof: it comes from the event loop that does the broker's work. It waits for nothing.
        * /ready is 200 once clients are served and every coordinator's log is replayed; else it is 503 and gives each reason.
        * A partition that is offline does not make the broker unready, because the others are served: it is listed as degraded.
          Without the metadata's log, or without any partition, the broker is not ready.
        * Neither answer touches the disk.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from semel._version import __version__
from semel.broker.parts import Parts
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.log.directory import LogDirectory
from semel.runtime.clock import Clock
from semel.types import TopicPartition

SHOWN_MAX: Final = 10
"""Partitions named in one answer; of the others there is the count."""
_METADATA: Final = TopicPartition(METADATA_TOPIC, 0)


class Stage(StrEnum):
    """A part of a broker's life."""

    STARTING = "starting"
    RECOVERING = "recovering"
    SERVING = "serving"
    STOPPING = "stopping"


Answer: TypeAlias = tuple[int, bytes]
"""A status of HTTP, and JSON."""


class State(NamedTuple):
    """The judgement of a serving broker's parts."""

    reasons: list[str]
    """Why it is not ready."""
    degraded: list[str]
    """The parts that are not served, while the others are."""


class Readiness:
    """The stage of one broker's life, told to whoever asks."""

    def __init__(self, node_id: int, clock: Clock) -> None:
        self._node_id = node_id
        self._clock = clock
        self.stage = Stage.STARTING
        self._since = clock.monotonic()
        self._directory: LogDirectory | None = None
        self._parts: Parts | None = None

    def recovering(self, directory: LogDirectory) -> None:
        """The logs are being opened."""
        self._directory = directory
        self._enter(Stage.RECOVERING)

    def serving(self, parts: Parts) -> None:
        """Clients can connect, and the coordinators have begun to load."""
        self._parts = parts
        self._enter(Stage.SERVING)

    def stopping(self) -> None:
        """The broker takes no more requests."""
        self._enter(Stage.STOPPING)

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._since = self._clock.monotonic()

    def health(self) -> Answer:
        """The broker's loop turns."""
        return _answer(200, {"status": "alive", **self._facts()})

    def ready(self) -> Answer:
        """Whether clients are served, and why not."""
        reasons, degraded = self._state()
        return _answer(
            503 if reasons else 200,
            {
                "status": "not ready" if reasons else "ready",
                **self._facts(),
                "reasons": reasons,
                "degraded": degraded,
            },
        )

    @property
    def progress(self) -> str:
        """Why it is not ready, as one sentence."""
        return "; ".join(self._state().reasons) or "clients are served"

    def _facts(self) -> dict[str, Any]:
        return {
            "broker": self._node_id,
            "version": __version__,
            "stage": self.stage,
            "stage_seconds": round(self._clock.monotonic() - self._since, 1),
        }

    def _state(self) -> State:
        directory, parts = self._directory, self._parts
        if self.stage is Stage.STOPPING:
            return State(["the broker is stopping"], [])
        if directory is None:
            return State(["the broker is starting"], [])
        if parts is None:
            of_all = f"{directory.opened} of {directory.found} are open"
            return State([f"the logs are being opened, and recovered after a kill: {of_all}"], [])
        return state_of(directory, parts)


def state_of(directory: LogDirectory, parts: Parts) -> State:
    """The parts that a listening broker does not serve."""
    reasons: list[str] = []
    metadata = directory.logs.get(_METADATA)
    if metadata is None or metadata.offline is not None:
        reasons.append("the log of the metadata is offline, so no change is taken: start the broker again")
    for host in (parts.groups.host, parts.transactions.host):
        if loading := host.loading:
            shown = _some(sorted(loading))
            reasons.append(f"the coordinators of {host.topic} are being loaded: partitions {shown}")
    failed = [one.log.topic_partition for one in parts.partitions if one.log.offline is not None]
    offline = sorted({*directory.damaged, *failed})
    count = len(directory.damaged) + sum(1 for _ in parts.partitions)
    if offline and len(offline) == count:
        reasons.append(f"the log directory {directory.path} is offline, with all its {count} partitions")
    degraded = [f"partitions are offline: {_some(offline)}"] if offline else []
    return State(reasons, degraded)


def _some(things: Sequence[object]) -> str:
    text = ", ".join(str(one) for one in things[:SHOWN_MAX])
    more = len(things) - SHOWN_MAX
    return f"{text} and {more} more" if more > 0 else text


def _answer(status: int, facts: dict[str, Any]) -> Answer:
    return status, json.dumps(facts).encode() + b"\n"
