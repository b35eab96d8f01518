"""The local properties in which Spark keeps a streaming query's ids, on the driver and in tasks, and a job's description."""

from typing import Final

QUERY_ID: Final = "sql.streaming.queryId"
"""Of the query, which its checkpoint keeps."""
RUN_ID: Final = "spark.jobGroup.id"
"""Of this start of the query: Structured Streaming runs every job of a query in a group named after the run."""
BATCH_ID: Final = "streaming.sql.batchId"
JOB_DESCRIPTION: Final = "spark.job.description"
"""Of the next jobs of this thread, in Spark's pages; Structured Streaming writes the query's name and ids into it."""
