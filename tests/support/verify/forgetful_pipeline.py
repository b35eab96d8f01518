"""A pipeline without Spark and without a memory: after a kill it begins again. The story must find it out.

Takes the arguments and orders of `semel.verify.demo.shop.pipeline`. It cleans orders rightly, writes them without any transaction,
and keeps no checkpoint; tables it does not write at all.
"""

import argparse
import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel import Consumer, Producer
from semel.types import TopicPartition
from semel.verify.demo.shop import topics
from support.verify.shop_kit import as_json, clean_row


def listen(finish: threading.Event) -> None:
    for line in sys.stdin:
        if line == "finish\n":
            finish.set()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--directory", "--batch-rows-max"):
        parser.add_argument(name)
    given = parser.parse_args()
    finish = threading.Event()
    threading.Thread(target=listen, args=(finish,), daemon=True).start()
    places = [TopicPartition(topics.ORDERS, one) for one in range(topics.PARTITIONS[topics.ORDERS])]
    server = {"bootstrap.servers": given.bootstrap}
    with (
        Producer(server) as producer,
        Consumer(server, max_poll_records=int(given.batch_rows_max)) as consumer,
    ):
        consumer.assign(places)
        consumer.seek_to_beginning(places)
        print("ready", flush=True)
        batch = 0
        while True:
            told = finish.is_set()
            records = consumer.poll(200)
            for record in records:
                assert isinstance(record.key, bytes)
                assert isinstance(record.value, bytes)
                topic, key, row = clean_row(record.key, record.value, batch)
                producer.send(topic, as_json(row), key)
            if records:
                counted = {"query": "clean", "batch": batch, "rows": len(records)}
                producer.send(topics.RECEIPTS, json.dumps(counted).encode())
                batch += 1
            producer.flush()
            if told and all(
                consumer.position(one) >= end for one, end in consumer.end_offsets(places).items()
            ):
                break
    print("finished", flush=True)


if __name__ == "__main__":
    main()
