"""The errors of pipelines, raised when a promise cannot be kept without asking.

    PipelineError               everything below
    └── TableError              a table and its topic do not belong together

Rules.  * Each says what is untouched, and what to do.
Elsewhere. A batch that neither may be written nor skipped: `SinkRefusedError`, the sinks' own.
"""

from semel.errors import SemelError


class PipelineError(SemelError):
    """A pipeline that cannot go on by itself."""


class TableError(PipelineError):
    """A table's file and its topic do not belong together."""
