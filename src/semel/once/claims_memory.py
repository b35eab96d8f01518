"""Claims in this process's memory: for workers of one process and for tests.

Rules.  * At most `entries_max` ids are remembered. Expired ids are dropped first. If none has expired, a new id is
refused, because a forgotten id would let its duplicate pass. Limits. The ids are lost with the process: duplicates
after a restart pass.
"""

import heapq
import threading
from typing import Final

from semel.errors import ConfigError
from semel.once.errors import OnceError
from semel.once.rules.claims import ClaimState, Entry, Taken, Verdict, judge

_ENTRIES_MAX: Final = 1_000_000


class MemoryClaims:
    """A dictionary with a lock."""

    def __init__(self, *, entries_max: int = _ENTRIES_MAX) -> None:
        if entries_max < 1:
            raise ConfigError(f"entries_max is {entries_max}: at least one id must be remembered")
        self._entries_max: Final = entries_max
        self._entries: Final[dict[str, Entry]] = {}
        self._expiries: Final[
            list[tuple[int, str]]
        ] = []  # May list an id more than once; the entry is authoritative.
        self._lock: Final = threading.Lock()

    def claim(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> Verdict:
        with self._lock:
            verdict = judge(self._entries.get(message_id), now_ms=now_ms)
            if isinstance(verdict, Taken):
                self._forget(now_ms)
                if len(self._entries) >= self._entries_max and message_id not in self._entries:
                    raise OnceError(
                        f"{len(self._entries)} message ids are remembered, the limit of entries_max: use a shorter ttl_ms, "
                        "a higher entries_max, or a store in a database"
                    )
                self._put(message_id, Entry(ClaimState.CLAIMED, token, now_ms + lease_ms))
            return verdict

    def renew(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> bool:
        with self._lock:
            if not self._owns(message_id, token):
                return False
            self._put(message_id, Entry(ClaimState.CLAIMED, token, now_ms + lease_ms))
            return True

    def done(self, message_id: str, token: str, *, ttl_ms: int, now_ms: int) -> bool:
        with self._lock:
            if not self._owns(message_id, token):
                return False
            self._put(message_id, Entry(ClaimState.DONE, token, now_ms + ttl_ms))
            return True

    def release(self, message_id: str, token: str) -> bool:
        with self._lock:
            if not self._owns(message_id, token):
                return False
            del self._entries[message_id]
            return True

    def __len__(self) -> int:
        return len(self._entries)

    def _owns(self, message_id: str, token: str) -> bool:
        """An expired lease still counts as held until another worker takes the id, because no work was repeated until
        then."""
        entry = self._entries.get(message_id)
        return entry is not None and entry.state is ClaimState.CLAIMED and entry.token == token

    def _put(self, message_id: str, entry: Entry) -> None:
        self._entries[message_id] = entry
        heapq.heappush(self._expiries, (entry.expires_ms, message_id))

    def _forget(self, now_ms: int) -> None:
        while self._expiries and self._expiries[0][0] <= now_ms:
            _, message_id = heapq.heappop(self._expiries)
            entry = self._entries.get(message_id)
            if entry is not None and entry.expires_ms <= now_ms:
                del self._entries[message_id]
