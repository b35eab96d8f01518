"""What may be committed is the end of the finished prefix, in whatever order the work finishes.

Method: hand out offsets with gaps, finish them in any order, and compare with the plainest reference: look at every record
that was handed out, find the first unfinished one.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import InvariantError
from semel.once.rules.prefix import FinishedPrefix


@given(gaps=st.lists(st.integers(1, 5), max_size=30), data=st.data())
def test_the_position_is_the_end_of_the_finished_prefix(gaps: list[int], data: st.DataObject) -> None:
    prefix, offset, handed_out, finished = FinishedPrefix(), 0, list[int](), set[int]()
    steps = [*gaps]
    while steps or len(finished) < len(handed_out):
        waiting = [each for each in handed_out if each not in finished]
        if steps and (not waiting or data.draw(st.booleans())):
            offset += steps.pop()
            prefix.started(offset)
            handed_out.append(offset)
        else:
            done = data.draw(st.sampled_from(waiting))
            before = prefix.position
            assert prefix.finished(done) == (prefix.position != before)
            finished.add(done)
        unfinished = [each for each in handed_out if each not in finished]
        below = [each for each in handed_out if not unfinished or each < unfinished[0]]
        assert prefix.position == (below[-1] + 1 if below else None)
        assert prefix.unfinished == len(unfinished)
        assert prefix.span == len(handed_out) - len(below)


def test_an_offset_is_handed_out_once_and_finished_once() -> None:
    prefix = FinishedPrefix()
    prefix.started(3)
    prefix.started(7)
    for never_started in (0, 4, 8):
        with pytest.raises(InvariantError, match="not being worked on"):
            prefix.finished(never_started)
    with pytest.raises(InvariantError, match="handed out after 7"):
        prefix.started(7)
    prefix.finished(7)
    with pytest.raises(InvariantError, match="not being worked on"):
        prefix.finished(7)
    assert prefix.position is None
