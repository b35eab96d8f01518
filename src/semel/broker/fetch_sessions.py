"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, and later only what changed.

Role.   Remembers, per session, which partitions are fetched and what was last said about each, so that a request may
        leave out what it repeats and a response what has not moved.
Rules.  * id 0, epoch 0: a full fetch that asks for a session. id 0, epoch -1: a full fetch without one.
        * id n, epoch e: the next fetch of that session. An unknown id is error 70, a wrong epoch error 71.
        * id n, epoch -1 or 0: the session ends; the request is a full fetch.
        * A session speaks of topics by name or by id, never both (error 106).
        * The cache is bounded, by its sessions and by their partitions. The session unused for longest makes room, if it has
          been idle long enough; else the client gets no session, which costs it bytes and nothing else.
"""

import random
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from semel.core.wire.messages.fetch import FetchRequest, PartitionData
from semel.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 0x7FFFFFFF
_IDLE_MIN_MS: Final = 120_000  # A session used within this time is not pushed out.
_NAMES_UP_TO: Final = 12
PARTITIONS_MAX: Final = 200_000
"""Partitions that all sessions together remember: some 50 MB."""


class PartitionKey(NamedTuple):
    """A partition as the client names it: by topic name, or by topic id."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class Fetched:
    """A client's wish for one partition, and the last answer to it."""

    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    replica_start_offset: int = -1
    """Where the log of a replica that fetches begins."""
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_news(self, data: PartitionData, has_records: bool) -> bool:
        """Whether the client must be told; remembers that it was."""
        news = (
            has_records
            or data.error_code != 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.diverging_epoch is not None
        )
        # After an error the client knows nothing any more.
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """One client's partitions, in the order they are to be served."""

    session_id: int
    by_id: bool
    used_ms: int
    epoch: int = 1
    partitions: dict[PartitionKey, Fetched] = field(default_factory=dict)

    def to_the_end(self, key: PartitionKey) -> None:
        """A partition that gave records waits until the others had their turn."""
        fetched = self.partitions.pop(key, None)
        if fetched is not None:  # Another connection may have taken it out of the session meanwhile.
            self.partitions[key] = fetched


@dataclass(slots=True)
class FullFetch:
    """A fetch of exactly these partitions; `session` if later ones may be incremental."""

    partitions: dict[PartitionKey, Fetched]
    session: FetchSession | None = None


@dataclass(slots=True)
class IncrementalFetch:
    """A fetch of all partitions of a session."""

    session: FetchSession


Plan: TypeAlias = FullFetch | IncrementalFetch | ErrorCode


class FetchSessions:
    """The sessions of a broker."""

    def __init__(self, slots: int, dice: random.Random) -> None:
        self._slots = slots
        self._dice = dice
        self._sessions: dict[int, FetchSession] = {}  # The one unused for longest first.
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        request: FetchRequest,
        version: int,
        now_ms: int,
        partitions: dict[PartitionKey, Fetched] | None = None,
    ) -> Plan:
        """The partitions a request fetches. `partitions` are those it names, if they have been listed already (`asked`)."""
        if partitions is None:
            partitions = asked(request)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._forget(request.session_id)
            session = None
            if request.session_epoch == INITIAL_EPOCH and partitions:
                session = self._new(partitions, by_id=version > _NAMES_UP_TO, now_ms=now_ms)
            return FullFetch(partitions, session)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version > _NAMES_UP_TO):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._update(session, request, partitions)
        if self._partitions > PARTITIONS_MAX:
            self._forget(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # Its next fetch is a full one.
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return IncrementalFetch(session)

    def _new(
        self, partitions: dict[PartitionKey, Fetched], *, by_id: bool, now_ms: int
    ) -> FetchSession | None:
        while len(self._sessions) >= self._slots or self._partitions + len(partitions) > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < _IDLE_MIN_MS:
                return None
            self._forget(oldest.session_id)
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._dice.randrange(1, _EPOCH_MAX)
        session = FetchSession(session_id, by_id, now_ms, partitions=partitions)
        self._sessions[session_id] = session
        self._partitions += len(partitions)
        return session

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _update(
        self, session: FetchSession, request: FetchRequest, partitions: dict[PartitionKey, Fetched]
    ) -> None:
        before = len(session.partitions)
        for key, wanted in partitions.items():
            known = session.partitions.get(key)
            if known is not None:
                wanted.high_watermark, wanted.log_start_offset = known.high_watermark, known.log_start_offset
            session.partitions[key] = wanted
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.partitions.pop(PartitionKey(topic.topic, topic.topic_id, partition), None)
        self._partitions += len(session.partitions) - before


def asked(request: FetchRequest) -> dict[PartitionKey, Fetched]:
    """The partitions that a request names; of one that is named twice, what is said last."""
    return {
        PartitionKey(topic.topic, topic.topic_id, one.partition): Fetched(
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
            one.log_start_offset,
        )
        for topic in request.topics
        for one in topic.partitions
    }
