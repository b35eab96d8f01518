"""A table and its position, read from two topics as one: the writes of a transaction to both are seen in both, or in neither.

Role.   `read_as_one` reads how far a table has come and then its rows, until both tell of the same transaction.
        `wait_for_markers` waits until every decided transaction of a transactional id has its markers everywhere.
Flow.   `rebuilding` calls them for a checkpoint that is new: position -> markers -> rows -> markers -> position again.
Rules.  * A commit is answered when it is decided. Its markers reach the partitions afterwards, one by one, late if a broker is
          away. Until then readers of committed records may see the position without the rows, or the rows without the position.
        * The first wait brings the rows of the position that was read. The second brings the position of rows that came meanwhile,
          which then differs, and all is read again.
        * Nobody is fenced: a query that is still running goes on.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from semel.client.sync.admin import Admin
from semel.exceptions import TransactionalIdNotFoundException
from semel.spark.pipelines.errors import TableError

P = TypeVar("P")

_DECIDED: Final = frozenset({"PrepareCommit", "PrepareAbort"})
_LOOK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 120.0


def read_as_one(position: Callable[[], P], rows: Callable[[P], object], markers: Callable[[], object]) -> P:
    """Read rows, and the position that belongs to them. `rows` is called again for as long as somebody writes in between."""
    while True:
        found = position()
        markers()
        rows(found)
        markers()
        if position() == found:
            return found


def wait_for_markers(bootstrap: str, transactional_id: str) -> None:
    """Wait until the transaction that was decided last is in all of its partitions; an open one is not waited for."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        while _state(admin, transactional_id) in _DECIDED:
            if time.monotonic() > deadline:
                raise TableError(
                    f"a transaction of {transactional_id} is decided and not yet in all of its partitions after "
                    f"{_PATIENCE_SECONDS:.0f} s, so the table cannot be read: is the leader of a partition away? See 'semel txn "
                    f"describe {transactional_id}'. Nothing was written"
                )
            time.sleep(_LOOK_SECONDS)


def _state(admin: Admin, transactional_id: str) -> str | None:
    """None if nobody has ever used the id."""
    try:
        return admin.describe_transactions(transactional_id)[transactional_id].state
    except TransactionalIdNotFoundException:
        return None
