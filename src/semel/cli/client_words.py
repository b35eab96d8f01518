"""The words of clients that a command disturbs on purpose: counted, or kept in a file, and not on the screen.

Role.   `kept` is around work that breaks what clients rely on, as `semel verify`. Each of its clients warns of each fault: two hundred
        lines a minute, which would hide progress and result.
Rules.  * It is about Semel's loggers alone: what other libraries say goes where it went before.
        * A file gets everything from INFO on, a line each, with its time.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from semel.runtime.log_lines import TextLines

_LOGGER: Final = "semel"


class Words(logging.Handler):
    """Counts the warnings it gets."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.warnings = 0

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002  # As `logging` calls it.
        """As `logging` calls it, one record at a time."""
        self.warnings += 1

    def told(self, file: Path | None) -> str | None:
        """How many there were, and where they are; None if there were none."""
        if not self.warnings:
            return None
        times = "once" if self.warnings == 1 else f"{self.warnings:,} times"
        return f"Clients warned {times} of what was done to them: " + (
            f"{file} has their words" if file is not None else "--log FILE keeps their words"
        )


@contextmanager
def kept(file: Path | None) -> Iterator[Words]:
    """From here on, what Semel's loggers say goes to the file, or nowhere."""
    logger = logging.getLogger(_LOGGER)
    before = logger.level, logger.propagate
    words = Words()
    handlers: list[logging.Handler] = [words]
    if file is not None:
        handlers.append(logging.FileHandler(file, "w", encoding="utf-8"))
        handlers[-1].setFormatter(TextLines())
        logger.setLevel(logging.INFO)
    logger.propagate = False
    for one in handlers:
        logger.addHandler(one)
    try:
        yield words
    finally:
        for one in handlers:
            logger.removeHandler(one)
            one.close()
        logger.level, logger.propagate = before
