"""Stateful processing without Spark: a local store, a changelog, and a file that is deleted in the middle.

    python examples/spark/local_counts.py

The counts live in a file beside the program. Every change goes to the changelog in the transaction that also commits what was read,
so the file can be lost: it is rebuilt from the changelog, and every word counts once.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from semel import Broker, ConsumerRecord, Producer
from semel.spark import LocalFold


def count(old: bytes | None, _record: ConsumerRecord) -> bytes:
    return b"%d" % (int(old or 0) + 1)


def main(servers: str, directory: Path, suffix: str = "") -> None:
    words, counts = f"words{suffix}", f"counts{suffix}"
    file = directory / "counts.db"

    def send(*texts: str) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            for text in texts:
                producer.send(words, text, key=text)

    def run() -> None:
        with LocalFold(
            file, name=counts, source=words, changelog=counts, update=count, bootstrap=servers
        ) as fold:
            read = fold.catch_up()
            table = ", ".join(f"{key.decode()} {value.decode()}" for key, value in fold.table.items())
            print(f"changes replayed {fold.restored}, words read {read}: {table}")

    send("tea", "jam", "tea")
    run()
    send("tea", "bread")
    run()
    file.unlink()
    send("jam")
    run()


if __name__ == "__main__":
    with ExitStack() as stack:
        given = sys.argv[1] if len(sys.argv) > 1 else None
        server = given or stack.enter_context(Broker(group_initial_rebalance_delay_ms=0)).bootstrap
        main(server, Path(stack.enter_context(tempfile.TemporaryDirectory())))
