"""A file that a command writes at its end: refused at its beginning if it cannot be written then.

Role.   The type of options as `semel verify --html`. A run of minutes whose result has no place is a run for nothing.
"""

import os
from pathlib import Path
from typing import Any

import click


class OutputFile(click.Path):
    """A path in a directory that is there and can be written."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; fails with the directory that is missing."""
        path: Path = super().convert(value, param, ctx)  # type: ignore[assignment]  # By `path_type`.
        if not path.parent.is_dir():
            self.fail(
                f"{path}: there is no directory {path.parent}: make it, or write elsewhere.", param, ctx
            )
        if not path.exists() and not os.access(path.parent, os.W_OK):
            self.fail(f"{path}: the directory {path.parent} cannot be written: write elsewhere.", param, ctx)
        return path
