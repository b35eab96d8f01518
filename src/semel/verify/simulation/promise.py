"""The error a scenario raises when a promise does not hold.

Role.   The one exception of `scenarios`: tests and `campaign` tell a finding by it.
"""

from semel.errors import SemelError


class PromiseBroken(SemelError):  # noqa: N818 - it is a finding, not an error of the caller
    """A story that ended badly: the seed to run it again and what led to it."""
