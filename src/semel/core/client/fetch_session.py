"""The client's end of an incremental fetch session (KIP-227): partitions are named once, later only what changed.

Role.   `FetchSession` turns what a consumer wants of one broker into what a Fetch request has to say.
Flow.   `plan` -> the request is sent -> `answered` with the session id and error of the response, or `failed`.
Rules.  * Epoch 0 asks for a session and names everything. Then each request carries the next epoch, and only partitions
          that are new or begin elsewhere; those no longer wanted are forgotten.
        * A session the broker does not know any more, or lost count of, is begun anew. So is one after a request without an
          answer: nobody knows whether the broker heard it. The old one is named, so that the broker can end it.
        * A session speaks of topics by name or by id, never both; a topic that was made anew has another id.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from semel.errors import ErrorCode
from semel.types import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    """What is wanted of one partition."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int


class FetchPlan(NamedTuple):
    """What a request says."""

    session_id: int
    session_epoch: int
    by_id: bool
    say: dict[TopicPartition, Wanted]
    forget: dict[TopicPartition, bytes]
    """With the ids they were named by."""


class FetchSession:
    """With one broker."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._by_id = False
        self._partitions: dict[TopicPartition, Wanted] = {}

    def plan(self, wanted: Mapping[TopicPartition, Wanted], *, by_id: bool) -> FetchPlan:
        """The next request; what it says is taken for heard until `failed`."""
        if self._epoch == INITIAL_EPOCH or by_id != self._by_id:
            self._by_id = by_id
            self._epoch = INITIAL_EPOCH
            self._partitions = dict(wanted)
            return FetchPlan(self._session_id, INITIAL_EPOCH, by_id, dict(wanted), {})
        forget = {
            where: before.topic_id
            for where, before in self._partitions.items()
            if where not in wanted or wanted[where].topic_id != before.topic_id
        }
        say = {where: now for where, now in wanted.items() if self._partitions.get(where) != now}
        self._partitions = dict(wanted)
        return FetchPlan(self._session_id, self._epoch, by_id, say, forget)

    def answered(self, session_id: int, code: ErrorCode) -> None:
        """The broker's answer as a whole."""
        if code:
            # A session it does not know needs no ending.
            self._start_anew(NO_SESSION if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id)
        elif session_id == NO_SESSION:
            self._start_anew(NO_SESSION)  # It gives none: every fetch names everything.
        else:
            self._session_id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def failed(self) -> None:
        """No answer."""
        self._start_anew(self._session_id)

    def _start_anew(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = INITIAL_EPOCH
        self._partitions = {}
