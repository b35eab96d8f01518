"""What a batch still owes, decided from what the sink remembers.

Method: first the table of all cases; then a story of drivers that die before or after the commit, at random, against the
plainest reference there is: the list of what was stored; and what must hold for any two queries.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.spark.sink.common.batch_ledger import (
    ATOMIC,
    DATABASE,
    DROP_IN,
    NONE,
    Entry,
    Kind,
    Refuse,
    Skip,
    Write,
    owed,
)

MINE, OTHER = "query-1", "query-2"


@pytest.mark.parametrize(
    ("entry", "batch_id", "continues", "kind"),
    [
        (None, 0, None, Write),  # A new query.
        (None, 7, None, Refuse),  # The ledger is gone, or the query wrote elsewhere.
        (None, 7, NONE, Write),
        (None, 7, OTHER, Refuse),  # Permission for another state.
        (Entry(MINE, 6), 7, None, Write),
        (Entry(MINE, 7), 7, None, Skip),  # Committed, and killed before Spark wrote that down.
        (Entry(MINE, 8), 7, None, Refuse),  # The checkpoint went back.
        (Entry(MINE, 8), 0, None, Refuse),
        (Entry(MINE, 7), 7, NONE, Skip),  # Old permissions mean nothing.
        (Entry(MINE, 7), 7, OTHER, Skip),
        (Entry(OTHER, 7), 0, None, Refuse),  # A lost checkpoint, or a second query.
        (Entry(OTHER, 7), 8, None, Refuse),
        (Entry(OTHER, 7), 7, NONE, Refuse),
        (Entry(OTHER, 7), 0, OTHER, Write),
        (Entry(OTHER, 7), 0, MINE, Refuse),
    ],
)
def test_the_table(entry: Entry | None, batch_id: int, continues: str | None, kind: type) -> None:
    decision = owed(entry, Entry(MINE, batch_id), kind=ATOMIC, continues=continues)
    assert isinstance(decision, kind)


def test_batches_that_never_came_are_counted() -> None:
    assert owed(Entry(MINE, 3), Entry(MINE, 4), kind=ATOMIC) == Write(missed=0)
    assert owed(Entry(MINE, 3), Entry(MINE, 9), kind=ATOMIC) == Write(missed=5)


@pytest.mark.parametrize("entry", [None, Entry(MINE, 6), Entry(MINE, 7), Entry(MINE, 8), Entry(OTHER, 7)])
@pytest.mark.parametrize("continues", [None, OTHER])
def test_kinds_of_sinks_differ_where_no_entry_means_something(
    entry: Entry | None, continues: str | None
) -> None:
    """The drop-in sink notes no batch without rows; in all else the kinds decide alike."""
    now = Entry(MINE, 7)
    atomic, database, drop_in = (
        owed(entry, now, kind=kind, continues=continues) for kind in (ATOMIC, DATABASE, DROP_IN)
    )
    if entry is None:
        assert (type(atomic), type(database), drop_in) == (Refuse, Refuse, Write())
    elif isinstance(atomic, Refuse):
        assert isinstance(database, Refuse)
        assert isinstance(drop_in, Refuse)
        assert atomic.reason == database.reason == drop_in.reason
    else:
        assert atomic == database == drop_in


@pytest.mark.parametrize(
    ("entry", "batch_id", "kind", "reason", "way_out"),
    [
        (None, 7, ATOMIC, ("offsets.retention.minutes",), ("batch 7", "TopicSink(..., continues='none')")),
        (None, 7, DATABASE, ("semel_batches",), ("batch 7", "DatabaseSink(..., continues='none')")),
        (
            Entry(OTHER, 4),
            0,
            ATOMIC,
            (OTHER, "batch 4"),
            ("TopicSink(..., name=...)", f"continues='{OTHER}'"),
        ),
        (
            Entry(OTHER, 4),
            0,
            DROP_IN,
            (OTHER,),
            ("option('sinkName', ...)", f"option('continues', '{OTHER}')"),
        ),
        (
            Entry(MINE, 9),
            7,
            DROP_IN,
            ("batch 9", "batch 7", "checkpoint"),
            (f"option('continues', '{MINE}')",),
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_and_the_way_out(
    entry: Entry | None, batch_id: int, kind: Kind, reason: tuple[str, ...], way_out: tuple[str, ...]
) -> None:
    decision = owed(entry, Entry(MINE, batch_id), kind=kind)
    assert isinstance(decision, Refuse)
    assert not [word for word in reason if word not in decision.reason], decision.reason
    assert not [word for word in way_out if word not in decision.way_out], decision.way_out


@given(deaths=st.lists(st.sampled_from(["lives", "before the commit", "after the commit"]), max_size=60))
def test_drivers_that_die_anywhere_store_each_batch_once(deaths: list[str]) -> None:
    stored, entry, batch_id = list[int](), None, 0
    for death in deaths:
        match owed(entry, Entry(MINE, batch_id), kind=ATOMIC):
            case Write(missed=missed):
                assert missed == 0
                if death == "before the commit":
                    continue
                stored.append(batch_id)
                entry = Entry(MINE, batch_id)
            case Skip():
                assert stored[-1] == batch_id
            case Refuse() as refused:
                raise AssertionError(refused)
        if death != "after the commit":
            batch_id += 1
    assert stored == list(range(len(stored)))
    assert len(stored) in (batch_id, batch_id + 1)


@given(
    entry=st.none() | st.builds(Entry, st.sampled_from([MINE, OTHER]), st.integers(0, 5)),
    batch_id=st.integers(0, 5),
    continues=st.sampled_from([None, NONE, MINE, OTHER]),
)
def test_nothing_is_repeated_or_skipped_in_silence(
    entry: Entry | None, batch_id: int, continues: str | None
) -> None:
    decision = owed(entry, Entry(MINE, batch_id), kind=ATOMIC, continues=continues)
    if isinstance(decision, Skip):
        assert entry == Entry(MINE, batch_id), "only what is stored is skipped"
    if isinstance(decision, Write) and entry is not None:
        is_next = entry.query_id == MINE and entry.batch_id < batch_id
        assert is_next or continues == entry.query_id == OTHER, (
            "only what is new is written, or what was allowed by name"
        )
