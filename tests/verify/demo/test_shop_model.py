"""The shop is a function of its seed: whoever asks for a transaction gets the same rows, and they tell a sane story.

Method: the invariants of the diary, for several seeds and sizes; the bytes against Python's own JSON.
"""

import json

import numpy as np
import pytest

from semel.verify.demo.shop import model
from semel.verify.demo.shop.model import Events, Shop, encode

SHOPS = [Shop(seed=1, transactions=12, orders=50), Shop(seed=2, transactions=3, orders=200), Shop(3, 1, 10)]


@pytest.mark.parametrize("shop", SHOPS)
def test_every_event_has_a_number_of_its_own_and_belongs_to_the_transaction_that_sent_it(shop: Shop) -> None:
    for transaction in range(shop.transactions):
        events = shop.events(transaction)
        assert (shop.transaction_of(events.number) == transaction).all()
    numbers = shop.all_events().number
    assert len(np.unique(numbers)) == len(numbers)


@pytest.mark.parametrize("shop", SHOPS)
def test_an_order_is_placed_then_paid_or_cancelled_then_shipped_and_dirt_is_heard_of_once(shop: Shop) -> None:
    diary = shop.all_events()
    seen: dict[int, list[int]] = {}
    for order, step, state, dirt in zip(
        *(getattr(diary, name).tolist() for name in ("order", "step", "state", "dirt")), strict=True
    ):
        states = seen.setdefault(order, [])
        assert step == len(states)
        assert not (dirt and states)
        states.append(state)
    legal = {
        (model.PLACED,),
        (model.PLACED, model.PAID),
        (model.PLACED, model.CANCELLED),
        (model.PLACED, model.PAID, model.SHIPPED),
    }
    assert {tuple(states) for states in seen.values()} <= legal
    assert sorted(seen) == list(range(shop.transactions * shop.orders))


def test_another_process_gets_the_same_rows_and_another_seed_others() -> None:
    first, again, other = (Shop(seed, 4, 100).events(3) for seed in (1, 1, 2))
    assert encode(first, 3).equals(encode(again, 3))
    assert not encode(first, 3).equals(encode(other, 3))


def test_time_goes_on_through_the_minutes_the_shop_is_open() -> None:
    shop = Shop(1, 30, 20, minutes=45)
    diary = shop.all_events()
    minutes = np.unique((diary.minute - model.OPENING_MS) // model.MINUTE_MS)
    assert minutes.tolist() == list(range(45))


def test_a_value_is_json_unless_it_is_dirt_of_that_kind() -> None:
    events = Events(
        *(
            np.array(column)
            for column in (
                [7, 8, 9, 10],
                [0] * 4,
                [model.PLACED] * 4,
                [3] * 4,
                [2] * 4,
                [5] * 4,
                [0, 1, 2, 3],
            )
        )
    )
    rows = encode(events, 4)
    assert rows["key"].to_pylist() == [b"7", b"8", b"9", b"10"]
    clean, broken, quantity, product = rows["value"].to_pylist()
    wanted = {
        "order": 7,
        "step": 0,
        "transaction": 4,
        "state": "placed",
        "product": 3,
        "quantity": 2,
        "at_ms": 5,
    }
    assert json.loads(clean) == wanted
    assert json.loads(quantity) == wanted | {"order": 9, "quantity": -2}
    assert json.loads(product) == wanted | {"order": 10, "product": 3 + len(model.PRODUCTS)}
    assert broken.startswith(b'{"order":8,"step":0,"transaction":4,')
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken)


def test_the_product_table_has_a_name_and_a_price_for_each() -> None:
    rows = [json.loads(value) for value in model.encode_products()["value"].to_pylist()]
    assert [(row["product"], row["name"], row["price_cents"]) for row in rows] == [
        (number, name, price) for number, (name, price) in enumerate(model.PRODUCTS)
    ]
