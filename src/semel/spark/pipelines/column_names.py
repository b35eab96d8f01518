"""Names of columns, as callers give them and as Spark wants them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (given,) if isinstance(given, str) else tuple(given)


def quoted(name: str) -> str:
    """A name that Spark does not take apart, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def columns(names: Iterable[str], of: str | None = None) -> "list[Column]":
    """The columns of these names, of a row or of a struct in it."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    prefix = "" if of is None else f"{quoted(of)}."
    return [F.col(f"{prefix}{quoted(name)}").alias(name) for name in names]
