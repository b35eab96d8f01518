"""A table and its changelog are one thing: turning each into the other, in any way, changes nothing.

Method: properties over random tables and random streams of changes, with the plainest reference there is: a dictionary.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.spark.pipelines.duality import apply, changes_between, compacted, to_changelog, to_table

keys = st.binary(max_size=2)
tables = st.dictionaries(keys, st.binary(max_size=3))
streams = st.lists(st.tuples(keys, st.none() | st.binary(max_size=3)))


@pytest.mark.mission("STR-05")
@given(table=tables)
def test_table_to_changelog_to_table_is_the_identity(table: dict[bytes, bytes]) -> None:
    assert to_table(to_changelog(table)) == table


@pytest.mark.mission("STR-05")
@given(history=st.lists(tables))
def test_the_changes_between_tables_replay_every_one_of_them(history: list[dict[bytes, bytes]]) -> None:
    """Like the replication of a database: a copy that applies each difference equals the original after each."""
    copy: dict[bytes, bytes] = {}
    before: dict[bytes, bytes] = {}
    for after in history:
        changes = changes_between(before, after)
        assert len({key for key, _ in changes}) == len(changes), "once per key"
        assert all(before.get(key) != value for key, value in changes), "only what differs"
        apply(copy, changes)
        assert copy == after
        before = after


@pytest.mark.mission("STR-05")
@given(changes=streams)
def test_a_stream_its_compacted_form_and_the_changelog_of_its_table_make_the_same_table(
    changes: list[tuple[bytes, bytes | None]],
) -> None:
    table = to_table(changes)
    assert to_table(compacted(changes)) == table
    assert to_table(to_changelog(table)) == table


@given(changes=streams, again=st.integers(0, 20))
def test_applying_the_end_of_a_stream_again_changes_nothing(
    changes: list[tuple[bytes, bytes | None]], again: int
) -> None:
    """What a reader does that died before it wrote down how far it was."""
    table = to_table(changes)
    apply(table, changes[max(0, len(changes) - again) :])
    assert table == to_table(changes)


@given(changes=streams)
def test_compaction_keeps_the_last_change_of_each_key_in_order(
    changes: list[tuple[bytes, bytes | None]],
) -> None:
    left = compacted(changes)
    last = {key: at for at, (key, _) in enumerate(changes)}
    assert left == [changes[at] for at in sorted(last.values())]
