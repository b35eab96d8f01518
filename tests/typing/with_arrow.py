"""Arrow in and out: tables go to a topic, batches come back. PyArrow has no types of its own."""

from typing import reveal_type

import pyarrow as pa  # refused: import-untyped

from semel import Consumer, Producer

with Producer(bootstrap_servers="localhost:9092") as producer:
    sent = producer.send_arrow("orders", pa.table({"value": [b"v"]}))
    reveal_type(sent)  # reveals: ArrowFuture
    reveal_type(sent.result())  # reveals: list[BatchMetadata]
with Consumer(bootstrap_servers="localhost:9092") as consumer:
    reveal_type(consumer.poll_arrow(timeout_ms=500))  # reveals: Any
    consumer.poll_arrow(timeout=500)  # refused: call-arg
