"""Histories that were kept stay readable, and are kept in the same lines.

Method: a line of every event, as the first version wrote it, is read and written again. What only an actor on the wire knows is not kept.
"""

from typing import Final

import pytest

from semel.types import TopicPartition
from semel.verify.history.events import ClientEvent, Deciding, Took
from semel.verify.history.lines import HistoryError, from_lines, to_lines

KEPT: Final = """\
{"event":"Began","at":0.0,"number":3}
{"event":"Sent","at":1.0,"process":"w","topic":"t","partition":0,"value":"v1","transaction":2}
{"event":"Acked","at":1.1,"process":"w","value":"v1","offset":-1}
{"event":"Failed","at":1.2,"process":"w","value":"v2","certain":true,"error":"E"}
{"event":"Took","at":1.3,"process":"w","transactional_id":"id"}
{"event":"Committing","at":1.4,"process":"w","transaction":2}
{"event":"Ended","at":1.5,"process":"w","transaction":2,"outcome":"unknown"}
{"event":"Polled","at":1.6,"process":"r","isolation":"read_committed","topic":"t","partition":0,"records":[[4,"v1"],[5,"v3"]]}
{"event":"Repositioned","at":1.7,"process":"r","topic":"t","partition":0}
{"event":"Drained","at":1.8,"process":"r","isolation":"read_uncommitted","topic":"t","partition":0,"start":0,"end":6}
{"event":"Assigned","at":1.9,"process":"m","group":"g","topic":"t","partition":0}
{"event":"Commit","at":2.0,"asked_at":1.9,"process":"m","group":"g","topic":"t","partition":0,"offset":5,"outcome":"stored"}
{"event":"Position","at":2.1,"group":"g","topic":"t","partition":0,"offset":5,"transforms":false}
{"event":"Unfinished","at":2.2,"group":"g","topic":"t","partition":0,"offset":5,"end":6}
{"event":"Stable","at":2.3,"topic":"t","partition":0,"stable":5,"end":6}
{"event":"Fault","at":2.4,"until":2.9,"what":"the broker frozen","blocks":true}
"""


def test_kept_lines_are_read_and_written_as_they_were() -> None:
    lines = KEPT.splitlines()
    assert list(to_lines(from_lines(lines))) == lines
    assert len({type(one) for one in from_lines(lines)}) == len(lines)


def test_what_only_the_wire_shows_is_not_kept() -> None:
    seen: list[ClientEvent] = [
        Took(1.3, "w", "id", 1.2, 7, 1, {}, keeps=True),
        Deciding(1.4, "w", 2, True, (1, 2), {TopicPartition("t", 0): 5}, is_final=True),
    ]
    assert list(from_lines(to_lines(seen))) == [Took(1.3, "w", "id"), Deciding(1.4, "w", 2)]


@pytest.mark.parametrize("line", ["", "[]", '{"event":"Given"}', '{"event":"Sent","at":1.0}'])
def test_a_line_that_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(HistoryError):
        list(from_lines([line]))
