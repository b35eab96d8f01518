"""Spark's Python daemon with everything loaded that a worker will need: a worker that was killed is then cheap to replace.

Named by `spark.python.daemon.module` in the campaign alone. Nothing is started before the fork: modules and compiled kernels only.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # No threads before the fork.

import pyspark.daemon
import pyspark.worker

import semel.spark.sink.atomic.partition_counts
import semel.spark.sink.atomic.routing
import semel.spark.sink.atomic.task_writer
import semel.spark.sink.dropin.writers  # noqa: F401 - what is loaded here is there after the fork.
from semel.client.producer.encoding import Kernels

if __name__ == "__main__":
    Kernels.load()
    pyspark.daemon.manager()
