"""Claims in Redis or a compatible server: shared by many processes, without a table.

Role.   `RedisClaims(client)` with a client of the `redis` package (or `valkey`): it uses `set`, `get`, `pttl` and `eval`.
Rules.  * A claim is `SET key c:token NX PX lease`, a done id is `d` with the time to live; Redis's own clock lets both expire.
        * Each compare-and-change runs as a script, in one step. Limits. Redis acknowledges before it writes to disk,
unless told otherwise, and a failover may forget the last claims. Work in a database is better deduplicated in that
database.
"""

from typing import Any, Final, Protocol

from semel.errors import ConfigError
from semel.once.rules.claims import AlreadyDone, Busy, Taken, Verdict
from semel.words import kind, shown

_DONE: Final = b"d"
_CLAIM: Final = b"c:"
_SET_IF_MINE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0
"""
_DELETE_IF_MINE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
"""


class RedisClient(Protocol):
    """The methods of a client that are used."""

    def set(self, name: Any, value: Any, *, px: Any = ..., nx: Any = ...) -> Any: ...
    def get(self, name: Any) -> Any: ...
    def pttl(self, name: Any) -> Any: ...
    def eval(self, script: Any, numkeys: Any, *keys_and_args: Any) -> Any: ...


class RedisClaims:
    """Ids as keys that begin with `prefix`."""

    def __init__(self, client: RedisClient, *, prefix: str = "semel:claims:") -> None:
        if not prefix:
            raise ConfigError("prefix is empty: ids need a name space of their own")
        if not hasattr(client, "pttl"):
            raise ConfigError(
                f"client={shown(client)} is {kind(client)}, and no client of Redis: use redis.Redis.from_url('redis://HOST:6379')"
            )
        self._client: Final = client
        self._prefix: Final = prefix

    def claim(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> Verdict:  # noqa: ARG002
        key = self._prefix + message_id
        if self._client.set(key, _CLAIM + token.encode(), px=lease_ms, nx=True):
            return Taken()
        if _as_bytes(self._client.get(key)) == _DONE:
            return AlreadyDone()
        return Busy(
            max(int(self._client.pttl(key)), 1)
        )  # A claim that has just expired is checked again at once.

    def renew(self, message_id: str, token: str, *, lease_ms: int, now_ms: int) -> bool:  # noqa: ARG002
        return self._set_if_mine(message_id, token, _CLAIM + token.encode(), lease_ms)

    def done(self, message_id: str, token: str, *, ttl_ms: int, now_ms: int) -> bool:  # noqa: ARG002
        return self._set_if_mine(message_id, token, _DONE, ttl_ms)

    def release(self, message_id: str, token: str) -> bool:
        mine = _CLAIM + token.encode()
        return bool(self._client.eval(_DELETE_IF_MINE, 1, self._prefix + message_id, mine))

    def _set_if_mine(self, message_id: str, token: str, value: bytes, expires_in_ms: int) -> bool:
        mine = _CLAIM + token.encode()
        return bool(
            self._client.eval(_SET_IF_MINE, 1, self._prefix + message_id, mine, value, str(expires_in_ms))
        )


def _as_bytes(value: object) -> bytes | None:
    """The value as bytes; some clients are configured to decode."""
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None
