"""PySpark is an extra: the one place that says how to get it.

Role.   `need_pyspark` for calls that begin with Spark; `semel.spark` calls it when a name of its own does not load.
"""


def need_pyspark() -> None:
    """Raise with the way to PySpark where it is missing."""
    try:
        import pyspark  # noqa: F401  # Whether it is there is the question.
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "semel.spark runs on PySpark, which is not installed: pip install 'semel[spark]'",
            name=missing.name,
        ) from missing
