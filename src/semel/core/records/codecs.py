"""The codecs of record batches: their ids on the wire, and their names in settings.

Role.   The one list of codecs: settings of clients, topics and brokers take their values from it. `compression` reads and writes them.
Rules.  Ids and names are Kafka's.
"""

from enum import IntEnum
from typing import Final


class Compression(IntEnum):
    """Kafka's codec ids, the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


NAMES: Final = tuple(codec.name.lower() for codec in Compression)
"""By id."""
STORED_AS: Final = ("uncompressed", *reversed(NAMES[1:]), "producer")
"""The values of a topic's `compression.type`, in Kafka's order."""
