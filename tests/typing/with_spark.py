"""The sink for Spark's micro-batches."""

from typing import reveal_type

from semel.spark import TopicSink

sink = TopicSink(topic="counts", bootstrap="localhost:9092")
reveal_type(sink)  # reveals: TopicSink
TopicSink(topic=7, bootstrap="localhost:9092")  # refused: arg-type
