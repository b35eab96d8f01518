"""The rows found, held against the model: lost, duplicated, torn, wrong.

Role.   `judge` takes the committed rows of every topic, as they were read, and the shop they should come from. It looks at
        nothing else: no counter of a program that took part, no log of what it did.
Flow.   One `Line` for each promise: the order events as sent, cleaned, rejected; revenue by product and minute; the table
        of order states.
Rules.  * Lost: the model has it, the topic has not. Duplicated: there more often than in the model, which includes what
          the model does not have at all. Wrong: there, with another content.
        * Torn: a transaction of the till with some rows there and some not, or aborted and yet visible.
          Torn too: a micro-batch whose rows do not match the receipt that went out in its transaction.
        * Pure, and by column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from semel.verify.demo.shop import model, topics
from semel.verify.demo.shop.model import Ints, Shop

CLEAN_QUERY: Final = "clean"
REVENUE_QUERY: Final = "revenue"
STATES_QUERY: Final = "states"
_EVENT: Final = r'^\{"order":(?P<order>\d+),"step":(?P<step>\d+),"transaction":(?P<transaction>-?\d+)'
_CLEAN_FIELDS: Final = ("order", "step", "product", "quantity", "cents", "at_ms", "batch")
_NOTHING: Final[Ints] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Line:
    """One promise and how it was kept."""

    name: str
    expected: int
    found: int
    lost: int = 0
    duplicated: int = 0
    torn: int = 0
    wrong: int = 0
    unit: str = ""

    @property
    def kept(self) -> bool:
        return self.expected == self.found and not (self.lost or self.duplicated or self.torn or self.wrong)


@dataclass(frozen=True, slots=True)
class Verdict:
    """All of them."""

    lines: tuple[Line, ...]

    @property
    def lost(self) -> int:
        return sum(line.lost for line in self.lines)

    @property
    def duplicated(self) -> int:
        return sum(line.duplicated for line in self.lines)

    @property
    def torn(self) -> int:
        return sum(line.torn for line in self.lines)

    @property
    def wrong(self) -> int:
        return sum(line.wrong for line in self.lines)

    @property
    def kept(self) -> bool:
        return all(line.kept for line in self.lines)


def judge(shop: Shop, found: Mapping[str, pa.Table]) -> Verdict:
    """The verdict on what each topic holds: tables of key, value, partition and offset, committed rows only."""
    events = shop.all_events()
    clean = _json(found[topics.CLEAN], (*_CLEAN_FIELDS, "state", "name"))
    rejected = _json(found[topics.REJECTED], ("order", "reason", "batch"))
    revenue = _json(found[topics.REVENUE], ("product", "minute", "orders", "cents", "batch"))
    states = _json(found[topics.STATES], ("order", "state", "batch"))
    torn = _torn_batches(
        _json(found[topics.RECEIPTS], ("query", "batch", "rows")),
        {
            CLEAN_QUERY: np.concatenate([_ints(clean, "batch"), _ints(rejected, "batch")]),
            REVENUE_QUERY: _ints(revenue, "batch"),
            STATES_QUERY: _ints(states, "batch"),
        },
    )
    good = events.where(events.dirt == model.CLEAN)
    return Verdict(
        (
            _sent(shop, events, found[topics.ORDERS]),
            _cleaned(good, clean, torn[CLEAN_QUERY]),
            _rejected(events.where(events.dirt != model.CLEAN), rejected),
            *_revenue(good, _latest(found[topics.REVENUE], revenue), torn[REVENUE_QUERY]),
            _states(good, _latest(found[topics.STATES], states), torn[STATES_QUERY]),
        )
    )


def _sent(shop: Shop, events: model.Events, rows: pa.Table) -> Line:
    """Each event of the till once, each of its transactions whole, and nothing of those it took back."""
    fields = pc.extract_regex(pc.cast(rows["value"], pa.string()), _EVENT)
    order, step, transaction = (
        _numbers(pc.struct_field(fields, name)) for name in ("order", "step", "transaction")
    )
    taken_back = transaction < 0
    numbers = (order * model.STEPS + step)[~taken_back]
    lost, duplicated = _compared(events.number, numbers)
    present = np.isin(events.number, numbers)
    parts = shop.transaction_of(events.number)
    whole = np.bincount(parts, minlength=shop.transactions)
    there = np.bincount(parts[present], minlength=shop.transactions)
    torn = int(((there > 0) & (there < whole)).sum()) + len(np.unique(transaction[taken_back]))
    return Line("order events sent by the till", len(events), rows.num_rows, lost, duplicated, torn)


def _cleaned(good: model.Events, rows: pa.Table, torn: int) -> Line:
    """Each event that is not dirt once, with its product's name and price."""
    numbers = _ints(rows, "order") * model.STEPS + _ints(rows, "step")
    lost, duplicated = _compared(good.number, numbers)
    of_row = good.where(_places(good.number, numbers))
    known = of_row.number == numbers
    names = np.array([name for name, _price in model.PRODUCTS])
    same = (
        (_ints(rows, "product") == of_row.product)
        & (_ints(rows, "quantity") == of_row.quantity)
        & (_ints(rows, "cents") == of_row.cents)
        & (_ints(rows, "at_ms") == of_row.at_ms)
        & (_texts(rows, "name") == names[of_row.product])
        & (_texts(rows, "state") == np.array(model.STATES)[of_row.state])
    )
    wrong = int((known & ~same).sum())
    return Line("clean and enriched", len(good), rows.num_rows, lost, duplicated, torn, wrong)


def _rejected(dirt: model.Events, rows: pa.Table) -> Line:
    """Each event that is dirt once, with the reason. Torn batches are counted with the clean rows beside them."""
    if not len(dirt):
        return Line("rejected, with the reason", 0, rows.num_rows, duplicated=rows.num_rows)
    orders = _ints(rows, "order")
    lost, duplicated = _compared(dirt.order, orders)
    of_row = dirt.where(_places(dirt.order, orders))
    same = _texts(rows, "reason") == np.array(model.REASONS)[of_row.dirt]
    wrong = int(((of_row.order == orders) & ~same).sum())
    return Line("rejected, with the reason", len(dirt), rows.num_rows, lost, duplicated, 0, wrong)


def _revenue(good: model.Events, rows: pa.Table, torn: int) -> tuple[Line, Line]:
    """Every paid order counted once in the cell of its product and minute; then the money."""
    paid = good.where(good.state == model.PAID)
    minutes = (paid.minute - model.OPENING_MS) // model.MINUTE_MS
    wanted = _cells(paid.product, minutes, np.ones(len(paid), dtype=np.int64), paid.cents)
    found_minutes = (_ints(rows, "minute") - model.OPENING_MS) // model.MINUTE_MS
    given = _cells(_ints(rows, "product"), found_minutes, _ints(rows, "orders"), _ints(rows, "cents"))
    lost = duplicated = wrong = 0
    for cell in wanted.keys() | given.keys():
        orders, cents = wanted.get(cell, (0, 0))
        counted, summed = given.get(cell, (0, 0))
        lost += max(0, orders - counted)
        duplicated += max(0, counted - orders)
        wrong += orders == counted and cents != summed
    counted_all = sum(counted for counted, _cents in given.values())
    cents_all = sum(cents for _counted, cents in given.values())
    return (
        Line(
            f"paid orders in {len(wanted):,} minutes of products",
            *(len(paid), counted_all, lost, duplicated, torn, wrong),
        ),
        Line("revenue", int(paid.cents.sum()), cents_all, unit="cents"),
    )


def _states(good: model.Events, rows: pa.Table, torn: int) -> Line:
    """The latest state of every order."""
    by_step = np.lexsort((good.step, good.order))
    final = good.where(by_step[np.append(np.diff(good.order[by_step]) != 0, True)])
    orders = _ints(rows, "order")
    lost, duplicated = _compared(final.order, orders)
    of_row = final.where(_places(final.order, orders))
    same = _texts(rows, "state") == np.array(model.STATES)[of_row.state]
    wrong = int(((of_row.order == orders) & ~same).sum())
    return Line("orders in the table of states", len(final), rows.num_rows, lost, duplicated, torn, wrong)


def _torn_batches(receipts: pa.Table, batches: Mapping[str, Ints]) -> dict[str, int]:
    """By query: the micro-batches whose rows are not as many as their one receipt says."""
    query, batch, rows = _texts(receipts, "query"), _ints(receipts, "batch"), _ints(receipts, "rows")
    torn: dict[str, int] = {}
    for name, seen in batches.items():
        said: dict[int, list[int]] = {}
        for number, count in zip(batch[query == name].tolist(), rows[query == name].tolist(), strict=True):
            said.setdefault(number, []).append(count)
        numbers, counts = np.unique(seen, return_counts=True)
        there = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        torn[name] = sum(said.get(one) != [there.get(one, 0)] for one in said.keys() | there.keys())
    return torn


def _latest(rows: pa.Table, parsed: pa.Table) -> pa.Table:
    """A compacted topic as a table: of each key the row with the highest offset."""
    table = pa.table({"key": rows["key"], "offset": rows["offset"], "row": np.arange(rows.num_rows)})
    newest = table.sort_by([("offset", "descending")]).group_by("key", use_threads=False)
    return parsed.take(newest.aggregate([("row", "first")])["row_first"])


def _compared(wanted: Ints, found: Ints) -> tuple[int, int]:
    """How many of the wanted, each of which is there once, are missing; and how many of the found are too many."""
    lost = int((~np.isin(wanted, found)).sum())
    return lost, len(found) - (len(wanted) - lost)


def _places(wanted: Ints, found: Ints) -> Ints:
    """Where in the wanted, of which there is one at least, each of the found stands; anywhere for what is not there."""
    by_size = np.argsort(wanted)
    places: Ints = by_size[np.searchsorted(wanted, found, sorter=by_size).clip(max=len(wanted) - 1)]
    return places


def _cells(product: Ints, minute: Ints, orders: Ints, cents: Ints) -> dict[tuple[int, int], tuple[int, int]]:
    """Orders and cents by product and minute."""
    table = pa.table({"product": product, "minute": minute, "orders": orders, "cents": cents})
    summed = table.group_by(["product", "minute"]).aggregate([("orders", "sum"), ("cents", "sum")])
    columns = [summed[name].to_pylist() for name in ("product", "minute", "orders_sum", "cents_sum")]
    return {
        (product_, minute_): (orders_, cents_)
        for product_, minute_, orders_, cents_ in zip(*columns, strict=True)
    }


def _json(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """The values of rows, which are JSON of one line each, as columns; a field that is missing is null."""
    if not rows.num_rows:
        return pa.table({name: pa.array([], pa.int64()) for name in names})
    lines = b"\n".join(rows["value"].to_pylist())
    read = pa.json.read_json(pa.BufferReader(lines), pa.json.ReadOptions(use_threads=False))
    if read.num_rows != rows.num_rows:
        raise ValueError(f"{rows.num_rows} rows held {read.num_rows} lines of JSON")
    return pa.table(
        {name: read[name] if name in read.column_names else pa.nulls(read.num_rows) for name in names}
    )


def _ints(table: pa.Table, name: str) -> Ints:
    return _numbers(table[name])


def _numbers(column: pa.ChunkedArray) -> Ints:
    """A column as numbers; -1 where there is none."""
    if not len(column):
        return _NOTHING
    numbers: Ints = pc.fill_null(pc.cast(column, pa.int64()), -1).to_numpy()
    return numbers


def _texts(table: pa.Table, name: str) -> npt.NDArray[np.str_]:
    return np.array(table[name].to_pylist(), dtype=np.str_)
