"""A table and its changelog are one thing: turning each into the other, in any way and in any pieces, changes nothing.

Method: properties over random tables and random streams of changes, on the store of local tables; the reference is a dictionary.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.spark.pipelines.errors import TableError
from semel.spark.pipelines.local_store import LocalStore
from support.spark.table_model import Change, to_table

keys = st.binary(max_size=2)
tables = st.dictionaries(keys, st.binary(max_size=3))
streams = st.lists(st.tuples(keys, st.none() | st.binary(max_size=3)))


def stored(changes: Sequence[Change], cuts: Sequence[int] = ()) -> LocalStore:
    """The changes in a store, in the pieces the cuts make, as polls would bring them."""
    store = LocalStore(":memory:")
    ends = [*sorted(min(cut, len(changes)) for cut in cuts), len(changes)]
    for start, end in zip([0, *ends], ends, strict=False):
        store.apply(changes[start:end], {0: end})
    return store


@pytest.mark.mission("STR-05")
@given(table=tables)
def test_table_to_changelog_to_table_is_the_identity(table: dict[bytes, bytes]) -> None:
    changelog = list(stored(list(table.items())).items())
    assert dict(stored(changelog).items()) == table
    assert list(stored(changelog).items()) == sorted(table.items())


@pytest.mark.mission("STR-05")
@given(changes=streams, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_a_stream_makes_one_table_however_it_comes(changes: list[Change], cuts: list[int]) -> None:
    store = stored(changes, cuts)
    assert dict(store.items()) == to_table(changes)
    assert store.positions() == {0: len(changes)}
    assert store.count() == len(to_table(changes))
    assert all(store.get(key) == to_table(changes).get(key) for key, _ in changes)


@given(changes=streams, again=st.integers(0, 20))
def test_applying_the_end_of_a_stream_again_changes_nothing(changes: list[Change], again: int) -> None:
    """What a reader does that died before it wrote down how far it was."""
    store = stored(changes)
    store.apply(changes[max(0, len(changes) - again) :], {0: len(changes)})
    assert dict(store.items()) == to_table(changes)


@given(history=st.lists(tables, max_size=5))
def test_the_changes_between_tables_replay_every_one_of_them(history: list[dict[bytes, bytes]]) -> None:
    """Like the replication of a database: a copy that applies each difference equals the original after each."""
    copy = LocalStore(":memory:")
    before: dict[bytes, bytes] = {}
    for after in history:
        gone: list[Change] = [(key, None) for key in before if key not in after]
        copy.apply(gone + [(key, value) for key, value in after.items() if before.get(key) != value], {})
        assert dict(copy.items()) == after
        before = after


def test_a_piece_that_fails_leaves_nothing_of_itself() -> None:
    store = stored([(b"a", b"1")])
    with pytest.raises(sqlite3.IntegrityError, match="positions"):
        store.apply([(b"a", b"2"), (b"b", b"3")], {0: None})  # type: ignore[dict-item] # Fails after the entries.
    assert dict(store.items()) == {b"a": b"1"}
    assert store.positions() == {0: 1}


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.db"
    store = LocalStore(path)
    store.describe(format="0")
    store.close()
    with pytest.raises(TableError, match="has format 0"):
        LocalStore(path)
