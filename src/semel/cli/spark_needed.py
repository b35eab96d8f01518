"""PySpark for commands that play with it: asked for before anything is started, or imported that comes with it."""

import importlib.util

from semel.errors import SemelError


class SparkMissingError(SemelError):
    """The command needs PySpark."""


def need_spark(subject: str, *, instead: str) -> None:
    """Raise with the way to PySpark, and to what goes without it, where it is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissingError(
            f"{subject} runs on PySpark, which is not installed: pip install 'semel[spark]', or {instead}"
        )
