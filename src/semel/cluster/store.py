"""The interface behind which metadata lives: standalone in a log, in a cluster in ZooKeeper.

Role.   Handlers read `image` and ask for changes; they do not know where the metadata is kept.
Rules.  A change is in the image, and survives a power cut, when `commit` returns.
"""

from collections.abc import Sequence
from typing import Protocol

from semel.core.metadata.image import MetadataImage
from semel.core.metadata.rows import Row


class MetadataStore(Protocol):
    """Metadata and the way to change it."""

    @property
    def image(self) -> MetadataImage: ...

    async def commit(self, rows: Sequence[Row]) -> None:
        """Make the changes, all or none, durably; raises `LogError` if that cannot be."""
