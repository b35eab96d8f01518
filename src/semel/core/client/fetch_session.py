"""The client's end of an incremental fetch session (KIP-227): each request names only the partitions that changed.

Role.   `FetchSession` turns the partitions a consumer, or a follower, wants from one broker into the contents of a Fetch request.
Flow.   `plan` -> the request is sent -> `answered` with the session id and error of the response, or `failed`.
Rules.  * Epoch 0 asks for a session and names every partition. Each later request carries the next epoch, and only
          partitions that are new or have another fetch offset or leader epoch; unwanted partitions are listed as
          forgotten.
        * The client starts a new session after a session error, and after a request without an answer, because the
          broker may or may not have handled it. The new request names the old session, so that the broker can close it.
        * A session names topics by name or by id, never both; a recreated topic has another id.
"""

from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from semel.errors import ErrorCode
from semel.types import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    """The fetch offset wanted of one partition, with its topic id and leader epoch."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int


class Wish(Protocol):
    """A partition that is wanted, as a consumer (`Wanted`) or a follower says it: other values are another wish."""

    @property
    def topic_id(self) -> bytes: ...


W = TypeVar("W", bound=Wish)


class FetchPlan(NamedTuple, Generic[W]):
    """The contents of one Fetch request."""

    session_id: int
    session_epoch: int
    by_id: bool
    say: dict[TopicPartition, W]
    forget: dict[TopicPartition, bytes]
    """Partitions to forget, with the topic ids under which the session knows them."""


class FetchSession(Generic[W]):
    """The session with one broker."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._by_id = False
        self._partitions: dict[TopicPartition, W] = {}

    def plan(self, wanted: Mapping[TopicPartition, W], *, by_id: bool) -> FetchPlan[W]:
        """The next request; the session assumes that the broker handles it, until `failed`."""
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
        """Take over session id and error of the response."""
        if code:
            # A session the broker does not know needs no closing.
            self._start_anew(NO_SESSION if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id)
        elif session_id == NO_SESSION:
            self._start_anew(NO_SESSION)  # The broker gives no session: every fetch names all partitions.
        else:
            self._session_id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def failed(self) -> None:
        """The request had no answer: start a new session and close the old one."""
        self._start_anew(self._session_id)

    def _start_anew(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = INITIAL_EPOCH
        self._partitions = {}
