"""The topics of the shop, and how they are made."""

from collections.abc import Mapping
from typing import Final

ORDERS: Final = "orders"
PRODUCTS: Final = "products"
CLEAN: Final = "orders-clean"
REJECTED: Final = "orders-rejected"
REVENUE: Final = "revenue"
STATES: Final = "order-states"
RECEIPTS: Final = "receipts"
"""One row for each micro-batch of each query, in the transaction of its rows: a torn batch shows by it."""

PARTITIONS: Final[Mapping[str, int]] = {
    ORDERS: 4,
    PRODUCTS: 1,
    CLEAN: 2,
    REJECTED: 1,
    REVENUE: 1,
    STATES: 2,
    RECEIPTS: 1,
}
TABLES: Final = frozenset({PRODUCTS, REVENUE, STATES})
"""Topics in which the latest value of a key counts: compacted."""
TILL: Final = "till"
"""The till's transactional id, and the group whose offset is the number of its next transaction."""
