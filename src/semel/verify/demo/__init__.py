"""The demonstrations: `shop`, the whole pipeline on Spark, and `records`, the producer and the broker alone."""
