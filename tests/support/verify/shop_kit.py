"""The shop's pipeline at its plainest: row by row, in Python, on no code of the real one's or of the judgement's."""

import json
from typing import Any

from semel.verify.demo.shop import model, topics
from semel.verify.demo.shop.model import Shop, encode

BATCHES = 3

Rows = dict[str, list[tuple[bytes, bytes]]]


def a_right_pipeline(shop: Shop) -> Rows:
    """What the topics hold when every event was counted once, in three micro-batches per query."""
    rows: Rows = {name: [] for name in topics.PARTITIONS}
    for transaction in range(shop.transactions):
        sent = encode(shop.events(transaction), transaction)
        rows[topics.ORDERS] += zip(sent["key"].to_pylist(), sent["value"].to_pylist(), strict=True)
    clean_events = []
    for batch, part in enumerate(parts_of(rows[topics.ORDERS])):
        written = [clean_row(key, value, batch) for key, value in part]
        for topic, key, row in written:
            rows[topic].append((key, as_json(row)))
        clean_events += [row for topic, _key, row in written if topic == topics.CLEAN]
        receipt(rows, "clean", batch, len(written))
    revenue: dict[tuple[int, int], list[int]] = {}
    states: dict[int, str] = {}
    for batch, events in enumerate(parts_of(clean_events)):
        cells, orders = set(), set()
        for event in events:
            states[event["order"]] = event["state"]
            orders.add(event["order"])
            if event["state"] == "paid":
                cell = (event["product"], event["at_ms"] // 60_000 * 60_000)
                total = revenue.setdefault(cell, [0, 0])
                total[0] += 1
                total[1] += event["cents"]
                cells.add(cell)
        for product, minute in sorted(cells):
            count, cents = revenue[product, minute]
            row = {"product": product, "minute": minute, "orders": count, "cents": cents, "batch": batch}
            rows[topics.REVENUE].append((f"{product}@{minute}".encode(), as_json(row)))
        for order in sorted(orders):
            row = {"order": order, "state": states[order], "batch": batch}
            rows[topics.STATES].append((str(order).encode(), as_json(row)))
        receipt(rows, "revenue", batch, len(cells))
        receipt(rows, "states", batch, len(orders))
    return rows


def clean_row(key: bytes, value: bytes, batch: int) -> tuple[str, bytes, dict[str, Any]]:
    refused = {"order": int(key), "value": value.decode(), "batch": batch}
    try:
        event = json.loads(value)
    except json.JSONDecodeError:
        return topics.REJECTED, key, refused | {"reason": "not JSON"}
    if event["quantity"] <= 0:
        return topics.REJECTED, key, refused | {"reason": "quantity"}
    if event["product"] >= len(model.PRODUCTS):
        return topics.REJECTED, key, refused | {"reason": "unknown product"}
    name, price = model.PRODUCTS[event["product"]]
    del event["transaction"]
    return topics.CLEAN, key, event | {"name": name, "cents": price * event["quantity"], "batch": batch}


def parts_of(rows: list[Any]) -> list[list[Any]]:
    size = -(-len(rows) // BATCHES)
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def receipt(rows: Rows, query: str, batch: int, count: int) -> None:
    rows[topics.RECEIPTS].append(
        (f"{query}/{batch}".encode(), as_json({"query": query, "batch": batch, "rows": count}))
    )


def as_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()
