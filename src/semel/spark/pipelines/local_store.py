"""The file behind a local table: keys and values, and how far its topic has been read, moved together.

Role.   The only place that knows the embedded store (SQLite, from Python's own library).
Rules.  * Entries and positions change in one transaction: after a kill the file holds both or neither.
        * The topic is the truth. The file may be deleted at any time, and is refused if it is of another topic.
        * Losing power may cost the last transactions, never their order: the positions go back with the entries.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Final

from semel.spark.pipelines.errors import TableError

_FORMAT: Final = 1
_CACHE_KIB: Final = 32 * 1024
_FROM: Final = "SELECT key, value FROM entries WHERE key >= ? ORDER BY key"
_BETWEEN: Final = "SELECT key, value FROM entries WHERE key >= ? AND key < ? ORDER BY key"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class LocalStore:
    """One table in one file. One process writes it at a time; a second one is refused by SQLite's lock."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = os.fspath(path)
        self._db: Final = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._db.executescript(_SCHEMA)
        if self.about("format") not in (None, str(_FORMAT)):
            raise TableError(
                f"{self.path} has format {self.about('format')}, this version writes {_FORMAT}: delete the file, "
                "the table is rebuilt from its topic"
            )
        self.describe(format=str(_FORMAT))

    # ---- entries

    def get(self, key: bytes) -> bytes | None:
        row = self._db.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def items(self, first: bytes = b"", after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Entries in the order of their keys, from `first` to before `after`."""
        query, bounds = (_FROM, (first,)) if after is None else (_BETWEEN, (first, after))
        with closing(self._db.execute(query, bounds)) as rows:
            yield from rows

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    # ---- what changes it

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]], positions: Mapping[int, int]) -> None:
        """Carry changes over, the last of each key last, and move the positions, or nothing of it."""
        last = dict(changes)  # Of several changes of one key the last stays.
        kept = [entry for entry in last.items() if entry[1] is not None]
        gone = [(key,) for key, value in last.items() if value is None]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", kept)
            self._db.executemany("DELETE FROM entries WHERE key = ?", gone)
            self._db.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", positions.items())
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def clear(self) -> None:
        """Forget everything."""
        self._db.execute("BEGIN IMMEDIATE")
        for table in ("entries", "positions", "about"):
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - three constant names.
        self._db.execute("COMMIT")
        self.describe(format=str(_FORMAT))

    # ---- what it is of

    def positions(self) -> dict[int, int]:
        """The next offset to read of each partition."""
        return dict(self._db.execute("SELECT partition, next_offset FROM positions"))

    def about(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def describe(self, **about: str) -> None:
        self._db.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())

    def close(self) -> None:
        self._db.close()
