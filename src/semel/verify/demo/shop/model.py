"""The shop as a function of a seed: every order there will ever be.

Role.   `Shop` is both the generator (what the till sends in its n-th transaction) and the model the proof begins from.
        Everything comes from the seed alone: the till can die at any moment and go on, and the proof asks nobody who
        took part.
Flow.   Transaction t holds the orders of block t as they are placed, and what became of those of blocks t-1 and t-2:
        paid, shipped or cancelled. `events` gives its rows, `encode` their bytes.
Rules.  * Pure: no clock, no files, nothing but the seed.
        * Some placed orders are dirt, in one of three ways: cut in the middle, a quantity nobody can buy, a product
          that does not exist. Nothing more is heard of them.
        * Revenue counts when an order is paid, in the minute (of the shop's clock) of the payment.
        * Work is by column; an event has a number of its own, `order * STEPS + step`.
Elsewhere. The pipeline's duty: `judgement`.
"""

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

STEPS: Final = 3
STATES: Final = ("placed", "paid", "shipped", "cancelled")
PLACED, PAID, SHIPPED, CANCELLED = range(4)
REASONS: Final = ("", "not JSON", "quantity", "unknown product")
CLEAN, BROKEN, BAD_QUANTITY, BAD_PRODUCT = range(4)
PRODUCTS: Final = (
    *(
        ("espresso", 250),
        ("cappuccino", 340),
        ("flat white", 380),
        ("filter coffee", 290),
        ("green tea", 310),
    ),
    *(("black tea", 280), ("hot chocolate", 390), ("orange juice", 420), ("lemonade", 350), ("water", 180)),
    *(
        ("croissant", 240),
        ("cinnamon roll", 320),
        ("cheesecake", 450),
        ("carrot cake", 430),
        ("brownie", 360),
    ),
    *(("bagel", 270), ("sandwich", 590), ("soup of the day", 680), ("salad", 740), ("quiche", 620)),
)
"""Name and price in cents, by number."""
OPENING_MS: Final = 1_767_258_000_000
"""Nine o'clock on the shop's first day, 2026-01-01 UTC."""
MINUTE_MS: Final = 60_000

_DIRT: Final = 0.03
_CANCELLED: Final = 0.12
_NEVER_PAID: Final = 0.05
_NEVER_SHIPPED: Final = 0.20
_QUANTITY_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class Events:
    """Rows of the shop's diary, by column."""

    order: Ints
    step: Ints
    state: Ints
    product: Ints
    quantity: Ints
    at_ms: Ints
    dirt: Ints

    def __len__(self) -> int:
        return len(self.order)

    @property
    def number(self) -> Ints:
        """The number that tells an event from all others."""
        return self.order * STEPS + self.step

    @property
    def cents(self) -> Ints:
        return PRICES[self.product] * self.quantity

    @property
    def minute(self) -> Ints:
        """The minute it happened in, as the time it began."""
        return self.at_ms // MINUTE_MS * MINUTE_MS

    def where(self, chosen: npt.NDArray[np.bool_] | Ints) -> "Events":
        """The rows of a mask, or those at these places."""
        return Events(*(getattr(self, one.name)[chosen] for one in fields(self)))

    @classmethod
    def together(cls, parts: "list[Events]") -> "Events":
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


PRICES: Final[Ints] = np.array([price for _name, price in PRODUCTS], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Shop:
    """All of its orders: `transactions` of them, with `orders` new ones in each."""

    seed: int
    transactions: int
    orders: int
    minutes: int = 45
    """How long it was open, by its own clock."""

    def events(self, transaction: int) -> Events:
        """The events the till sends in this transaction."""
        parts = [self._placed(transaction)]
        if transaction >= 1:
            parts.append(self._settled(transaction))
        if transaction >= 2:
            parts.append(self._shipped(transaction))
        return Events.together(parts)

    def all_events(self) -> Events:
        """The whole diary."""
        return Events.together([self.events(transaction) for transaction in range(self.transactions)])

    def transaction_of(self, numbers: Ints) -> Ints:
        """In which transaction an event was sent."""
        order, step = np.divmod(numbers, STEPS)
        return order // self.orders + step

    def _block(self, block: int) -> tuple[Events, npt.NDArray[np.float64]]:
        """The orders of a block as they are placed, and the die that decides their fates."""
        dice = np.random.default_rng([self.seed, block])
        size = self.orders
        order = block * size + np.arange(size, dtype=np.int64)
        dirty = dice.random(size) < _DIRT
        placed = Events(
            order=order,
            step=np.zeros(size, dtype=np.int64),
            state=np.full(size, PLACED, dtype=np.int64),
            product=dice.integers(0, len(PRODUCTS), size),
            quantity=dice.integers(1, _QUANTITY_MAX, size),
            at_ms=self._time(block, np.arange(size)),
            dirt=np.where(dirty, dice.integers(BROKEN, BAD_PRODUCT + 1, size), CLEAN),
        )
        return placed, dice.random(size)

    def _time(self, transaction: int, place: Ints) -> Ints:
        """The shop's clock goes evenly through its transactions."""
        open_ms = self.minutes * MINUTE_MS
        return OPENING_MS + (transaction * self.orders + place) * open_ms // (self.transactions * self.orders)

    def _placed(self, transaction: int) -> Events:
        return self._block(transaction)[0]

    def _settled(self, transaction: int) -> Events:
        """Paid or cancelled, one transaction after it was placed."""
        placed, fate = self._block(transaction - 1)
        state = np.where(fate < _CANCELLED, CANCELLED, PAID)
        return self._later(placed, transaction, 1, state, (placed.dirt == CLEAN) & (fate < 1 - _NEVER_PAID))

    def _shipped(self, transaction: int) -> Events:
        placed, fate = self._block(transaction - 2)
        gone = (placed.dirt == CLEAN) & (fate >= _CANCELLED) & (fate < 1 - _NEVER_SHIPPED)
        return self._later(placed, transaction, 2, np.full(len(placed), SHIPPED), gone)

    def _later(
        self, placed: Events, transaction: int, step: int, state: Ints, chosen: npt.NDArray[np.bool_]
    ) -> Events:
        moved = Events(
            order=placed.order,
            step=np.full(len(placed), step, dtype=np.int64),
            state=state,
            product=placed.product,
            quantity=placed.quantity,
            at_ms=self._time(transaction, np.arange(len(placed))),
            dirt=placed.dirt,
        )
        return moved.where(chosen)


def encode(events: Events, transaction: int) -> pa.Table:
    """The rows as records: the key is the order's number, the value JSON that begins with what names the event.

    A negative transaction is one the till takes back: nobody may ever see its rows.
    """
    order = pc.cast(pa.array(events.order), pa.string())
    quantity = np.where(events.dirt == BAD_QUANTITY, -events.quantity, events.quantity)
    product = np.where(events.dirt == BAD_PRODUCT, events.product + len(PRODUCTS), events.product)
    value = _joined(
        *('{"order":', order, ',"step":', events.step, f',"transaction":{transaction},"state":"'),
        *(pa.array(STATES).take(pa.array(events.state)), '","product":', product, ',"quantity":', quantity),
        *(',"at_ms":', events.at_ms, "}"),
    )
    broken = pc.utf8_slice_codeunits(value, 0, -9)
    value = pc.if_else(pa.array(events.dirt == BROKEN), broken, value)
    return pa.table({"key": pc.cast(order, pa.binary()), "value": pc.cast(value, pa.binary())})


def encode_products() -> pa.Table:
    """The product table, as the records of a compacted topic."""
    number = pa.array([str(one) for one in range(len(PRODUCTS))])
    name = pa.array([name for name, _price in PRODUCTS])
    value = _joined('{"product":', number, ',"name":"', name, '","price_cents":', PRICES, "}")
    return pa.table({"key": pc.cast(number, pa.binary()), "value": pc.cast(value, pa.binary())})


def _joined(*parts: Any) -> Any:
    """Text, columns of text and columns of numbers, end to end."""
    columns = [
        pc.cast(pa.array(part), pa.string()) if isinstance(part, np.ndarray) else part for part in parts
    ]
    return pc.binary_join_element_wise(*columns, "")
