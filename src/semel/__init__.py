"""Semel: an exactly-once event log and data pipeline for Python and Spark.

The public names, nothing else. They load lazily, so a Spark worker or a client never imports the broker.
"""

from semel._version import __version__

__all__ = ["__version__"]
