"""The judgement finds what is wrong: each way of losing, repeating, tearing and falsifying rows is seen and named.

Method: a plain Python pipeline, row by row and on no code of the judgement's, makes what a right one would write. Judged as it
is, everything is kept. Then one thing at a time is done to it, and the verdict must say just that.
"""

import copy
import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from semel.verify.demo.shop import topics
from semel.verify.demo.shop.judgement import Verdict, judge
from semel.verify.demo.shop.model import Shop, encode
from support.verify.shop_kit import BATCHES, Rows, a_right_pipeline, as_json, parts_of

SHOP = Shop(seed=5, transactions=6, orders=40, minutes=7)


def judged(rows: Rows) -> Verdict:
    return judge(
        SHOP,
        {
            topic: pa.table(
                {
                    "key": pa.array([key for key, _value in held], pa.binary()),
                    "value": pa.array([value for _key, value in held], pa.binary()),
                    "partition": pa.array([0] * len(held), pa.int32()),
                    "offset": pa.array(range(len(held)), pa.int64()),
                }
            )
            for topic, held in rows.items()
        },
    )


RIGHT = a_right_pipeline(SHOP)


def findings(verdict: Verdict) -> dict[str, tuple[int, int, int, int]]:
    """Lost, duplicated, torn and wrong of the lines that are not kept."""
    return {
        line.name.split()[0]: (line.lost, line.duplicated, line.torn, line.wrong)
        for line in verdict.lines
        if not line.kept
    }


def test_a_right_pipeline_keeps_every_promise() -> None:
    verdict = judged(RIGHT)
    assert findings(verdict) == {}
    assert verdict.kept
    assert all(line.expected > 0 for line in verdict.lines)
    assert (verdict.lost, verdict.duplicated, verdict.torn, verdict.wrong) == (0, 0, 0, 0)


def changed(topic: str, index: int, **values: object) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        key, value = rows[topic][index]
        rows[topic][index] = key, as_json(json.loads(value) | values)

    return change


def added(topic: str, index: int, name: str, amount: int) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        key, value = rows[topic][index]
        row = json.loads(value)
        rows[topic][index] = key, as_json(row | {name: row[name] + amount})

    return change


def dropped(topic: str, index: int) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        del rows[topic][index]

    return change


def repeated(topic: str, index: int) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[topic].append(rows[topic][index])

    return change


def emptied(topic: str) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[topic].clear()

    return change


def a_transaction_taken_back_shows(rows: Rows) -> None:
    sent = encode(SHOP.events(3), -3)
    rows[topics.ORDERS].append((sent["key"][0].as_py(), sent["value"][0].as_py()))


def a_replayed_batch(rows: Rows) -> None:
    for topic in (topics.CLEAN, topics.REJECTED):
        rows[topic] += [one for one in rows[topic] if json.loads(one[1])["batch"] == 1]
    rows[topics.RECEIPTS] += [one for one in rows[topics.RECEIPTS] if one[0] == b"clean/1"]


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (dropped(topics.ORDERS, 5), {"order": (1, 0, 1, 0)}),  # Lost, and its transaction is torn.
        (repeated(topics.ORDERS, 5), {"order": (0, 1, 0, 0)}),
        (a_transaction_taken_back_shows, {"order": (0, 0, 1, 0)}),
        (dropped(topics.CLEAN, 3), {"clean": (1, 0, 1, 0)}),
        (repeated(topics.CLEAN, 3), {"clean": (0, 1, 1, 0)}),
        (changed(topics.CLEAN, 3, cents=1), {"clean": (0, 0, 0, 1)}),
        (changed(topics.CLEAN, 3, name="tap water"), {"clean": (0, 0, 0, 1)}),
        (changed(topics.CLEAN, 3, order=10**9), {"clean": (1, 1, 0, 0)}),
        (dropped(topics.REJECTED, 0), {"rejected,": (1, 0, 0, 0), "clean": (0, 0, 1, 0)}),
        (changed(topics.REJECTED, 0, reason="mood"), {"rejected,": (0, 0, 0, 1)}),
        (added(topics.REVENUE, -1, "orders", 2), {"paid": (0, 2, 0, 0)}),
        (added(topics.REVENUE, -1, "orders", -1), {"paid": (1, 0, 0, 0)}),
        (added(topics.REVENUE, -1, "cents", 5), {"paid": (0, 0, 0, 1), "revenue": (0, 0, 0, 0)}),
        (changed(topics.STATES, -1, state="mislaid"), {"orders": (0, 0, 0, 1)}),
        (dropped(topics.RECEIPTS, 0), {"clean": (0, 0, 1, 0)}),
        (emptied(topics.RECEIPTS), {"clean": (0, 0, 3, 0), "paid": (0, 0, 3, 0), "orders": (0, 0, 3, 0)}),
    ],
)
def test_each_harm_is_named(
    harm: Callable[[Rows], None], expected: dict[str, tuple[int, int, int, int]]
) -> None:
    rows = copy.deepcopy(RIGHT)
    harm(rows)
    assert findings(judged(rows)) == expected


def test_a_batch_of_which_a_row_is_missing_is_torn() -> None:
    rows = copy.deepcopy(RIGHT)
    last = [one for one in rows[topics.STATES] if json.loads(one[1])["batch"] == BATCHES - 1]
    rows[topics.STATES].remove(last[0])
    verdict = judged(rows)
    assert verdict.torn == 1
    assert verdict.lost + verdict.wrong == 1  # The order is gone, or is in the state of an earlier batch.


def test_a_replayed_batch_is_duplicated_and_torn() -> None:
    rows = copy.deepcopy(RIGHT)
    a_replayed_batch(rows)
    verdict = judged(rows)
    assert verdict.duplicated == len(parts_of(RIGHT[topics.ORDERS])[1])
    assert verdict.torn == 1
    assert not verdict.kept


def test_nothing_at_all_is_everything_lost() -> None:
    verdict = judged({topic: [] for topic in RIGHT})
    lost = {
        line.name.split()[0]: (line.lost, line.expected) for line in verdict.lines if line.unit != "cents"
    }
    assert all(lost == expected for lost, expected in lost.values())
    assert not verdict.kept
