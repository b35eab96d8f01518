"""State beside the program against state in a remote table: lookups, and the updates of a running count.

Role.   The comparison behind the advice to keep state local. Ours is the store of `LocalTable` (a file beside the program), the peer
        a table in PostgreSQL, asked through psycopg as a stream processor would.
Rules.  * PostgreSQL runs on the same machine and is reached through a socket file, and does not wait for its disk: no remote
          database can be nearer. A network adds its round trip to every lookup.
        * Both keep what they count in transactions of the same size.
"""

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from semel.bench.measure import Comparison, Subject
from semel.peers.postgresql import postgresql
from semel.spark.pipelines.local_store import LocalStore

KEYS: Final = 10_000
LOOKUPS: Final = 2_000
UPDATES: Final = 2_000
BATCH: Final = 200  # Records per transaction.
_LOCAL: Final = "local store"
_REMOTE: Final = "PostgreSQL, same machine"


def comparisons() -> Iterator[Comparison]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-tables-")))
        dice = random.Random(1)
        asked = [_key(dice.randrange(KEYS)) for _ in range(LOOKUPS)]
        updated = [_key(dice.randrange(KEYS)) for _ in range(UPDATES)]
        local = LocalStore(directory / "table.db")
        stack.callback(local.close)
        local.apply(((_key(number), b"0") for number in range(KEYS)), {0: KEYS})
        remote = _Remote(stack)
        yield Comparison(
            "Look up a key",
            "lookups",
            LOOKUPS,
            [
                Subject(_LOCAL, lambda: _look_up(local.get, asked)),
                Subject(_REMOTE, lambda: _look_up(remote.get, asked)),
            ],
        )
        yield Comparison(
            f"Count per key, {BATCH} records per transaction",
            "records",
            UPDATES,
            [
                Subject(
                    _LOCAL, lambda: _count(local.get, lambda changed: local.apply(changed, {0: 0}), updated)
                ),
                Subject(_REMOTE, lambda: _count(remote.get, remote.apply, updated)),
            ],
        )


class _Remote:
    """A table of keys and values in PostgreSQL, and the position of its source."""

    def __init__(self, stack: ExitStack) -> None:
        import psycopg

        host = stack.enter_context(postgresql()).rpartition("host=")[2]
        self._connection: Any = stack.enter_context(
            psycopg.connect(f"host={host} user=semel dbname=postgres", autocommit=True)
        )
        with self._connection.transaction():
            self._connection.execute("CREATE TABLE entries (key bytea PRIMARY KEY, value bytea NOT NULL)")
            self._connection.execute("CREATE TABLE positions (partition int PRIMARY KEY, next_offset bigint)")
        self.apply([(_key(number), b"0") for number in range(KEYS)])

    def get(self, key: bytes) -> bytes | None:
        row = self._connection.execute("SELECT value FROM entries WHERE key = %s", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def apply(self, changes: Sequence[tuple[bytes, bytes]]) -> None:
        with self._connection.transaction():
            self._connection.cursor().executemany(
                "INSERT INTO entries VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                changes,
            )
            self._connection.execute(
                "INSERT INTO positions VALUES (0, 0) ON CONFLICT (partition) DO UPDATE SET next_offset = 0"
            )


def _key(number: int) -> bytes:
    return b"key-%06d" % number


def _look_up(get: Callable[[bytes], bytes | None], keys: Sequence[bytes]) -> int:
    found = sum(get(key) is not None for key in keys)
    if found != len(keys):
        raise AssertionError(f"{len(keys) - found} of {len(keys)} keys were not found")
    return found


def _count(
    get: Callable[[bytes], bytes | None],
    apply: Callable[[list[tuple[bytes, bytes]]], object],
    keys: Sequence[bytes],
) -> None:
    for begin in range(0, len(keys), BATCH):
        changed: dict[bytes, bytes] = {}
        for key in keys[begin : begin + BATCH]:
            changed[key] = b"%d" % (int(changed.get(key) or get(key) or 0) + 1)
        apply(list(changed.items()))
