"""The till: a process that sends the shop's orders, in transactions, and can be killed at any moment.

Role.   Run by the story as `python -m semel.verify.demo.shop.till`. A user's program: it uses `semel.Producer` and nothing
        below it.
Flow.   Take over the transactional id; ask the group how far the till had come. Then one transaction after the other: the
        rows, and the number of the next transaction as an offset of the group, together.
Rules.  * The position is part of the transaction. The next producer, after a kill or any error, asks for it and goes on
          there: nothing is left out and nothing is sent twice.
        * Now and then a transaction is begun, filled and taken back before it is sent for good: nobody may see that.
        * Says `committed N` on standard output after each transaction, and ends when its standard input does.
"""

import argparse
import contextlib
import os
import sys
import threading
import time
from typing import Final

from semel import Consumer, Producer
from semel.exceptions import KafkaException
from semel.types import TopicPartition
from semel.verify.demo.shop import topics
from semel.verify.demo.shop.model import Shop, encode

_TAKEN_BACK_EVERY: Final = 9
_PLACE: Final = TopicPartition(topics.ORDERS, 0)
_LIVES_MAX: Final = 20
_TIMEOUT_MS: Final = 60_000


def run(bootstrap: str, shop: Shop, transactions_per_second: float) -> None:
    """Send everything that was not sent yet."""
    for life in range(1, _LIVES_MAX + 1):
        try:
            with Producer({"bootstrap.servers": bootstrap, "transactional.id": topics.TILL}) as producer:
                producer.init_transactions()
                _sell(producer, _position(bootstrap), shop, transactions_per_second)
                return
        except KafkaException as error:
            # After any error the next producer ends the open transaction, and the position says what is committed.
            print(f"life {life} of the till ended: {error!r}", file=sys.stderr, flush=True)
            if life == _LIVES_MAX:
                raise


def _position(bootstrap: str) -> int:
    """The number of the next transaction, as the last one committed it."""
    with Consumer({"bootstrap.servers": bootstrap, "group.id": topics.TILL}) as consumer:
        committed = consumer.committed([_PLACE]).get(_PLACE)
    return 0 if committed is None else committed.offset


def _sell(producer: Producer, first: int, shop: Shop, transactions_per_second: float) -> None:
    opened = time.monotonic()
    for transaction in range(first, shop.transactions):
        events = shop.events(transaction)
        if transaction % _TAKEN_BACK_EVERY == _TAKEN_BACK_EVERY - 1:
            producer.begin_transaction()
            producer.send_arrow(topics.ORDERS, encode(events, -transaction))
            producer.flush()
            producer.abort_transaction()
        with producer.transaction():
            producer.send_arrow(topics.ORDERS, encode(events, transaction))
            producer.send_offsets_to_transaction({_PLACE: transaction + 1}, topics.TILL)
        print(f"committed {transaction + 1}", flush=True)
        due = opened + (transaction + 1 - first) / transactions_per_second
        time.sleep(max(0.0, due - time.monotonic()))


def _end_with_standard_input() -> None:
    with contextlib.suppress(OSError):
        while sys.stdin.readline():
            pass
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Send the orders of the shop.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--transactions", type=int, required=True)
    parser.add_argument("--orders", type=int, required=True, help="new ones in each transaction")
    parser.add_argument("--minutes", type=int, required=True, help="the shop is open, by its own clock")
    parser.add_argument("--per-second", type=float, required=True, help="transactions, at most")
    given = parser.parse_args()
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    shop = Shop(given.seed, given.transactions, given.orders, given.minutes)
    run(given.bootstrap, shop, given.per_second)


if __name__ == "__main__":
    main()
